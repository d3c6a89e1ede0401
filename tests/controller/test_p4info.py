"""Programs with names of the same ending: finsy takes their P4Info, and their tables have different names."""

from __future__ import annotations

import finsy
import pytest
from finsy.proto import p4i
from google.protobuf import text_format

import p4compiler
from controller import translate
from controller.errors import ControllerError
from controller.hand_entries import HandEntries, read_entry
from controller.p4info import read_p4info
from controller.switch_reader import match_text
from controller.values import EntryWords
from mrc_common.p4_match import Exact, Ternary
from topologies.entries import TableAction, TableEntry
from topologies.p4_program import P4Program

ALIKE = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header tag_t { bit<48> src; bit<16> type; }
struct headers_t { ethernet_t ethernet; tag_t tag; }
struct meta_t {}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); p.extract(h.tag); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control Sub(inout headers_t h, inout standard_metadata_t s) {
    action set(bit<16> type) { h.tag.type = type; }
    table known { key = { h.ethernet.src : exact; h.tag.src : ternary; h.ethernet.type : exact; } actions = { set; } }
    table few { key = { h.tag.type : exact; } actions = { set; } entries = { 1 : set(2); } }
    apply { known.apply(); few.apply(); }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Sub() sub;
    apply { sub.apply(h, s); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Sub() sub;
    action set(bit<9> type) { s.egress_spec = type; }
    table known { key = { h.tag.type : exact; } actions = { set; } }
    apply { sub.apply(h, s); known.apply(); }
}
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


@pytest.fixture(scope="module")
def program() -> P4Program:
    compiled = p4compiler.compile_text(ALIKE)
    return P4Program("alike.p4", compiled.json, compiled.p4info)


@pytest.fixture(scope="module")
def schema(program: P4Program) -> finsy.P4Schema:
    return finsy.P4Schema(read_p4info(program.p4info))


def test_finsy_takes_fields_and_actions_whose_names_end_alike(program: P4Program, schema: finsy.P4Schema) -> None:
    with pytest.raises(ValueError, match=r"unpack|already exists"):
        finsy.P4Schema(text_format.Parse(program.p4info, p4i.P4Info()))
    names = [field.alias for field in schema.tables["I.sub.known"].match_fields]
    assert names == ["ethernet_src", "tag_src", "type"]


def test_entries_of_tables_that_are_called_alike_stay_apart(program: P4Program, schema: finsy.P4Schema) -> None:
    for name in ("E.known", "I.sub.known", "E.sub.known"):
        match = ("1",) if name == "E.known" else ("1", "*", "2")
        words = EntryWords(name, match, "set", ("3",), 0 if name == "E.known" else 9)
        entry = read_entry(words, schema)
        assert entry.table == name
        entity = translate.encode(entry, schema)
        assert isinstance(entity, finsy.P4TableEntry)
        back = finsy.P4TableEntry.decode(entity.encode(schema), schema)
        assert translate.decode_entry(back, schema) == entry
        hand = HandEntries({(entry.table, entry.match, entry.priority): entry})
        assert hand.within(program.tables()) == hand


def test_a_name_that_several_tables_have_is_refused_with_theirs(schema: finsy.P4Schema) -> None:
    with pytest.raises(ControllerError, match=r"several tables known: I\.sub\.known, E\.sub\.known, E\.known"):
        read_entry(EntryWords("known", ("1",), "set", ("3",)), schema)


def test_matches_of_everything_are_left_out_and_read_as_they_are_listed(schema: finsy.P4Schema) -> None:
    table = schema.tables["I.sub.known"]
    given = {"ethernet_src": 1, "type": 2}
    assert translate.match_values(table, (Exact(1), Ternary(0, 0), Exact(2))) == given
    assert match_text(table, given) == "ethernet_src=0x1 tag_src=* type=2"


def test_a_whole_range_and_an_empty_prefix_are_left_out() -> None:
    text = """
        pkg_info { arch: "v1model" }
        actions { preamble { id: 0x01000001 name: "NoAction" alias: "NoAction" } }
        tables {
            preamble { id: 0x02000001 name: "t" alias: "t" }
            match_fields { id: 1 name: "r" bitwidth: 8 match_type: RANGE }
            match_fields { id: 2 name: "p" bitwidth: 32 match_type: LPM annotations: "@format(IPV4_ADDRESS)" }
            action_refs { id: 0x01000001 }
        }
    """
    schema = finsy.P4Schema(read_p4info(text))
    for match, priority in (("0->255", "0/0"), 1), (("0->254", "10.0.0.0/8"), 2):
        entry = read_entry(EntryWords("t", match, "NoAction", (), priority), schema)
        sent = translate.encode(entry, schema).encode(schema)
        assert len(sent.table_entry.match) == 2 * (priority - 1)
        assert translate.decode_entry(finsy.P4TableEntry.decode(sent, schema), schema) == entry


def test_entries_that_the_program_brings_along_are_not_the_controllers(schema: finsy.P4Schema) -> None:
    given = TableEntry("I.sub.few", (Exact(1),), TableAction("set", (("type", 2),)))
    entity = translate.encode(given, schema)
    assert translate.decode_all("t0-0@p0", [entity], schema).entries == ()
    read = {wanted.table_id for wanted in translate.wildcards(schema) if isinstance(wanted, finsy.P4TableEntry)}
    assert read == {"I.sub.known", "E.known", "E.sub.known"}
