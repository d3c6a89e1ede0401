"""Programs of switches: the fabric's own, others, saved ones, and what they have no tables for."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import p4src
from topologies.clos import multi_plane_clos
from topologies.entries import switch_entries
from topologies.errors import FabricError
from topologies.p4_program import (
    check_reroutes,
    fabric_program,
    left_out,
    read_program,
    remember_source,
    saved_program,
    source_of,
    with_tables,
)

SMALL = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { ethernet_t ethernet; }
struct meta_t {}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action forward(bit<9> port) { s.egress_spec = port; }
    table usid_next {
        key = { h.ethernet.dst : exact; s.ingress_port : ternary; h.ethernet.type : range; h.ethernet.src : optional; }
        actions = { forward; NoAction; }
    }
    apply { usid_next.apply(); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
FABRIC = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.p4"
    file.write_text(SMALL)
    return file


def test_the_fabrics_own_program_has_a_table_for_every_entry() -> None:
    program = fabric_program()
    assert left_out(FABRIC, program) == ""
    for switch in FABRIC.switches:
        assert with_tables(switch_entries(FABRIC, switch), program.tables()) == switch_entries(FABRIC, switch)


def test_a_program_is_compiled_or_read_as_json_with_its_p4info(small: Path) -> None:
    compiled = read_program(small)
    assert compiled.tables() == {"usid_next", "I.usid_next"}
    small.with_suffix(".json").write_text(compiled.json)
    assert read_program(small.with_suffix(".json")).p4info == ""
    small.with_suffix(".p4info.txtpb").write_text(compiled.p4info)
    again = read_program(small.with_suffix(".json"))
    assert (again.name, again.json, again.p4info) == ("small.json", compiled.json, compiled.p4info)


def test_what_a_program_has_no_tables_for_is_named_and_left_out(small: Path) -> None:
    program = read_program(small)
    text = left_out(FABRIC, program)
    assert text.startswith("small.p4 has no adaptive_class, adaptive_route, ecmp, ecmp_seed, ecn_profile, ipv6_route, ")
    assert "usid_next" not in text
    kept = with_tables(switch_entries(FABRIC, FABRIC.switches[0]), program.tables())
    assert {entry.table for entry in kept.entries} == {"usid_next"}
    assert not kept.members
    assert not kept.groups


def test_a_saved_program_is_the_same_and_knows_where_it_is_from(small: Path, tmp_path: Path) -> None:
    program, folder = read_program(small), tmp_path / "saved"
    program.save(folder)
    assert source_of(folder) is None
    remember_source(folder, small)
    assert source_of(folder) == small
    assert saved_program(folder) == program
    remember_source(folder, None)
    assert source_of(folder) is None


def test_warnings_come_with_the_program(small: Path) -> None:
    small.write_text(SMALL.replace("action forward", "action unused() {}\n    action forward"))
    (warning,) = read_program(small).warnings
    assert "small.p4:12:12: warning: " in warning


def refused(tmp_path: Path, name: str) -> str:
    with pytest.raises(FabricError) as error:
        read_program(tmp_path / name)
    return str(error.value)


def test_mistakes_and_files_that_are_none_are_said_in_a_sentence(small: Path, tmp_path: Path) -> None:
    small.write_text(SMALL.replace("egress_spec", "egres_spec"))
    text = refused(tmp_path, "small.p4")
    assert "small.p4:12:37: error: " in text
    assert "did you mean 'egress_spec'?" in text
    assert text.endswith("small.p4 does not compile: correct it, and try again")
    assert "cannot be read" in refused(tmp_path, "none.p4")
    assert "none.json cannot be read: No such file" in refused(tmp_path, "none.json")
    assert "is no P4 program: give a .p4 file" in refused(tmp_path, "program.txt")
    (tmp_path / "half.json").write_text('{"pipelines": [')
    assert "half.json is no JSON: " in refused(tmp_path, "half.json")
    (tmp_path / "odd.json").write_text(
        '{"pipelines": [1, {"tables": [2, null], "action_profiles": 3}, {"tables": [{}]}]}'
    )
    assert read_program(tmp_path / "odd.json").tables() == {""}
    os.mkfifo(tmp_path / "pipe.json")
    assert "It is a pipe" in refused(tmp_path, "pipe.json")


def test_the_committed_build_is_what_runs_here() -> None:
    assert saved_program(p4src.BUILD).json == (p4src.BUILD / "fabric.json").read_text()


def test_a_fabric_that_reroutes_needs_the_tables_of_routes() -> None:
    rerouting = replace(FABRIC, reroute_ns=1)
    check_reroutes(rerouting, fabric_program().tables())
    check_reroutes(FABRIC, ())
    check_reroutes(rerouting.with_kernel_switches(["*"]), ())  # of which no program is asked for any
    with pytest.raises(FabricError, match=r"^reroute: mine\.p4 has no ecmp and no ipv6_route, so it has no routes to"):
        check_reroutes(rerouting, {"adaptive_route"}, "mine.p4")
