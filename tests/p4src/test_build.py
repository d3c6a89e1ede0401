"""The committed products of p4src/: fresh, complete, and the same as p4c makes where it is installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

import p4src
from mrc_lab.cli.main import run
from p4src import source_hashes
from scripts import compile_p4 as compiling
from scripts.compile_p4 import MAIN, P4_DIRECTORY, compile_p4
from simulation import world
from tests.mrc_lab.experiments.files.texts import SMALL
from topologies.emulation import requirements
from topologies.emulation.errors import RequirementError

BUILD = P4_DIRECTORY / "build"


def test_products_match_the_sources_in_the_tree() -> None:
    manifest = json.loads((BUILD / "manifest.json").read_text())
    assert manifest["sources"] == source_hashes(), "p4src/ changed: run 'make p4' where p4c is installed, and commit"


def test_a_changed_source_is_detected(tmp_path: Path) -> None:
    shutil.copytree(P4_DIRECTORY, tmp_path / "p4src")
    source = tmp_path / "p4src" / "usid.p4"
    source.write_text(source.read_text() + "\n")
    assert source_hashes(tmp_path / "p4src") != source_hashes()


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of p4src/ with an edit, in place of the real one."""
    shutil.copytree(P4_DIRECTORY, tmp_path / "p4src")
    source = tmp_path / "p4src" / "usid.p4"
    source.write_text(source.read_text() + "\n")
    monkeypatch.setattr(p4src.problem, "__defaults__", (tmp_path / "p4src",))
    return tmp_path / "p4src"


def test_an_up_to_date_program_has_no_problem() -> None:
    assert p4src.problem() is None


def test_an_uncompiled_edit_is_reported_before_a_run_and_a_fabric(edited: Path, tmp_path: Path, capsys) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    message = "p4src/ has changed since it was compiled (usid.p4): run 'make p4', which needs p4c, or undo that"
    world.load_program.cache_clear()
    assert run(["run", str(file), "--results", str(tmp_path / "results")]) == 3
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("results/*/*/summary.json"))
    with pytest.raises(RequirementError, match="has changed since it was compiled"):
        dict(requirements.needs())["P4 program"]()
    assert [name for name, _ in requirements.needs()].index("P4 program") < 2, "before anything needs root"
    run(["doctor"])
    assert "has changed since it was compiled" in " ".join(capsys.readouterr().out.split())
    world.load_program.cache_clear()


@pytest.mark.parametrize("name", ["build/manifest.json", "new.p4", "usid.p4"])
def test_added_and_removed_files_are_detected(edited: Path, name: str) -> None:
    place = edited / name
    if place.exists():
        place.unlink()
    else:
        place.write_text("// new\n")
    assert (p4src.problem() or "").startswith("p4src/")


def test_without_p4c_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert compiling.main() == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "get the package p4lang-p4c" in errors
    assert "vagrant/" in errors


def test_every_table_has_a_direct_counter() -> None:
    p4info = text_format.Parse((BUILD / "fabric.p4info.txtpb").read_text(), p4i.P4Info())
    counted = {counter.direct_table_id for counter in p4info.direct_counters}
    assert {table.preamble.id for table in p4info.tables} == counted
    assert {table.preamble.alias for table in p4info.tables} == {
        "arrival_fault",
        "departure_fault",
        "ecmp_seed",
        "ecn_profile",
        "ipv6_route",
        "path_fault",
        "queue_profile",
        "traffic_class",
        "trimmable",
        "usid_local",
        "usid_next",
    }


def test_products_contain_no_build_directory() -> None:
    program = json.loads((BUILD / "fabric.json").read_text())
    assert program["program"] == "fabric.p4i" or "/" not in program["program"]


@pytest.mark.p4c
@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c is not installed")
def test_recompiling_gives_the_same_program(tmp_path: Path) -> None:
    compile_p4(P4_DIRECTORY / MAIN, tmp_path)
    for product in ("fabric.json", "fabric.p4info.txtpb"):
        assert (tmp_path / product).read_text() == (BUILD / product).read_text()
