"""The committed products of p4src/: fresh, complete, and the same as p4c makes where it is installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from scripts.compile_p4 import MAIN, P4_DIRECTORY, compile_p4, source_hashes

BUILD = P4_DIRECTORY / "build"


def test_products_are_made_from_the_sources_in_the_tree() -> None:
    manifest = json.loads((BUILD / "manifest.json").read_text())
    assert manifest["sources"] == source_hashes(), "p4src/ changed: run 'make p4' where p4c is installed, and commit"


def test_a_changed_source_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(P4_DIRECTORY, tmp_path / "p4src")
    source = tmp_path / "p4src" / "usid.p4"
    source.write_text(source.read_text() + "\n")
    assert source_hashes(tmp_path / "p4src") != source_hashes()


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


def test_products_name_no_directory_of_the_machine_they_were_made_on() -> None:
    program = json.loads((BUILD / "fabric.json").read_text())
    assert program["program"] == "fabric.p4i" or "/" not in program["program"]


@pytest.mark.p4c
@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c is not installed")
def test_compiling_again_gives_the_same_program(tmp_path: Path) -> None:
    compile_p4(P4_DIRECTORY / MAIN, tmp_path)
    for product in ("fabric.json", "fabric.p4info.txtpb"):
        assert (tmp_path / product).read_text() == (BUILD / product).read_text()
