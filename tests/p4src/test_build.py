"""The committed products of p4src/: fresh, complete, and the same as p4c makes where it is installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

import p4compiler
import p4src
from mrc_lab.cli.main import run
from p4src import source_hashes
from scripts import compile_p4 as compiling
from scripts.compile_p4 import MAIN, P4_DIRECTORY, compile_p4
from tests.mrc_lab.experiments.files.texts import SMALL
from topologies.emulation import requirements
from topologies.emulation.errors import RequirementError
from topologies.p4_program import fabric_program

BUILD = P4_DIRECTORY / "build"


def test_products_match_the_sources_in_the_tree() -> None:
    manifest = json.loads((BUILD / "manifest.json").read_text())
    assert manifest["compiler"].startswith("p4c-bm2-ss"), "what is committed is p4c's: run 'make p4' where it is"
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
    source.write_text(source.read_text().replace("if (usid_local.apply().hit)", "if (!usid_local.apply().hit)"))
    monkeypatch.setattr(p4src, "SOURCES", tmp_path / "p4src")
    monkeypatch.setattr(p4src, "BUILD", tmp_path / "p4src" / "build")
    monkeypatch.setattr(p4src.changed, "__defaults__", (tmp_path / "p4src",))
    return tmp_path / "p4src"


def test_nothing_is_compiled_while_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p4compiler, "compile", None)
    assert p4src.changed() == []
    assert fabric_program().json == (BUILD / "fabric.json").read_text()


def test_an_edit_runs_at_the_next_command_and_leaves_the_build_alone(edited: Path, tmp_path: Path, capsys) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    before = {path.name: path.read_bytes() for path in (edited / "build").iterdir()}
    assert run(["run", str(file), "--results", str(tmp_path / "results")]) == 1  # no packet finds its way
    assert "note: p4src/ was edited (usid.p4), and is compiled for this" in capsys.readouterr().err
    summary = next(tmp_path.glob("results/*/*/summary.json"))
    assert '"verdict": "fail"' in summary.read_text()
    dict(requirements.needs())["P4 program"]()
    assert [name for name, _ in requirements.needs()].index("P4 program") < 2, "before anything needs root"
    run(["doctor"])
    assert "edited (usid.p4): compiled whenever a command needs it" in " ".join(capsys.readouterr().out.split())
    assert {path.name: path.read_bytes() for path in (edited / "build").iterdir()} == before


def test_an_edit_with_a_mistake_stops_commands_with_the_place(edited: Path, tmp_path: Path, capsys) -> None:
    (edited / "usid.p4").write_text((edited / "usid.p4").read_text().replace("usid_next.apply();", "usid_nxt.apply();"))
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    assert run(["run", str(file), "--results", str(tmp_path / "results")]) == 3
    error = capsys.readouterr().err
    assert "usid.p4:57:" in error
    assert "did you mean 'usid_next'" in error
    assert "does not compile: correct it, and try again" in error
    with pytest.raises(RequirementError, match="usid_nxt"):
        dict(requirements.needs())["P4 program"]()


@pytest.mark.parametrize("name", ["build/manifest.json", "build/fabric.json", "new.p4", "drops.p4"])
def test_added_and_removed_files_are_detected(edited: Path, name: str) -> None:
    place = edited / name
    if place.exists():
        place.unlink()
    else:
        place.write_text("// new\n")
    assert Path(name).name in p4src.changed() or len(p4src.changed()) > 10


def test_without_p4c_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert compiling.main([]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "get the package p4lang-p4c" in errors
    assert "vagrant/" in errors


def test_forced_without_p4c_our_own_compiler_is_taken_and_named(
    edited: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(compiling, "P4_DIRECTORY", edited)
    monkeypatch.setattr(compiling.source_hashes, "__defaults__", (edited,))
    assert compiling.main(["--force"]) == 0
    assert "made with p4compiler" in capsys.readouterr().out
    assert p4src.changed() == []
    assert json.loads((edited / "build" / "manifest.json").read_text())["compiler"] == "p4compiler"


def test_every_table_has_a_direct_counter() -> None:
    p4info = text_format.Parse((BUILD / "fabric.p4info.txtpb").read_text(), p4i.P4Info())
    counted = {counter.direct_table_id for counter in p4info.direct_counters}
    assert {table.preamble.id for table in p4info.tables} == counted
    assert {table.preamble.alias for table in p4info.tables} == {
        "adaptive_class",
        "adaptive_route",
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
