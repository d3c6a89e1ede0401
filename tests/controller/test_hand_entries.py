"""Entries changed by hand: words, the plan under them, the file."""

from __future__ import annotations

import re
from pathlib import Path

import finsy
import pytest
from finsy.proto import p4i
from google.protobuf import text_format

import p4compiler
from controller.errors import ControllerError
from controller.hand_entries import HandEntries, load, misfit, read_entry, save
from controller.values import EntryWords, TableChange
from mrc_common.p4_match import Exact, Lpm, Optional, Range, Ternary
from tests.topologies.test_p4_program import SMALL
from topologies.clos import multi_plane_clos
from topologies.entries import SwitchEntries, TableAction, TableEntry, switch_entries
from topologies.p4_program import fabric_program

FABRIC = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)


def schema_of(p4info: str) -> finsy.P4Schema:
    return finsy.P4Schema(text_format.Parse(p4info, p4i.P4Info()))


@pytest.fixture(scope="module")
def own() -> finsy.P4Schema:
    return schema_of(fabric_program().p4info)


@pytest.fixture(scope="module")
def kinds() -> finsy.P4Schema:
    return schema_of(p4compiler.compile_text(SMALL).p4info)


@pytest.fixture
def planned() -> SwitchEntries:
    return switch_entries(FABRIC, FABRIC.switch("t0-0@p0"))


def words(table: str, *match: str, action: str = "", args: str = "", priority: int = 0) -> EntryWords:
    return EntryWords(table, match, action, tuple(args.split()), priority)


def test_every_kind_of_match_is_read_as_simple_switch_cli_writes_it(kinds: finsy.P4Schema) -> None:
    given = words("usid_next", "02:00:00:00:00:01", "0x3&&&0x7", "0x800->0x86dd", "*", action="forward", args="5 10")
    assert read_entry(given, kinds) == TableEntry(
        "usid_next",
        (Exact(0x020000000001), Ternary(3, 7), Range(0x800, 0x86DD), Optional(None)),
        TableAction("forward", (("port", 5),)),
        10,
    )
    every = words("I.usid_next", "1", "*", "*", "0x5", action="I.forward", args="5", priority=3)
    assert read_entry(every, kinds).match == (Exact(1), Ternary(0, 0), Range(0, 0xFFFF), Optional(5))
    single = words("usid_next", "1", "*", "7", "*", action="NoAction", priority=1)
    assert read_entry(single, kinds).match[2] == Range(7, 7)
    masked = words("usid_next", "1", "0x1ff&&&0x7", "1->2", "*", action="NoAction", priority=1)
    assert read_entry(masked, kinds).match[1] == Ternary(7, 7)


def test_prefixes_and_addresses_of_the_fabrics_own_program(own: finsy.P4Schema) -> None:
    found = read_entry(words("traffic_class", "46", action="set_priority", args="7"), own)
    assert found == TableEntry("traffic_class", (Exact(46),), TableAction("set_priority", (("priority", 7),)))
    with pytest.raises(ControllerError, match="ipv6_route has members of an action profile"):
        read_entry(words("ipv6_route", "fd00::/64"), own)
    assert Lpm(0, 0) != Lpm(0, 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("table usid_next", "table usid_last", "no table usid_next"),
        ("forward", "pass_on", "no action forward there: it has pass_on"),
        ("bit<9> port", "bit<9> out_port", "out_port|port"),
        ("bit<9> port", "bit<4> port", "bitwidth 4"),
        ("type : range", "type : ternary", "of another kind there"),
        ("s.ingress_port : ternary; ", "", "has 3 key fields, not 4"),
        ("h.ethernet.dst : exact", 'h.ethernet.type : exact @name("x")', "bitwidth 16"),
    ],
)
def test_an_entry_that_another_program_cannot_have_is_named(
    kinds: finsy.P4Schema, old: str, new: str, says: str
) -> None:
    entry = read_entry(words("usid_next", "0x20000", "*", "1->2", "*", action="forward", args="500 10"), kinds)
    assert misfit([entry], kinds) == ""
    assert old in SMALL
    other = SMALL.replace(old, new).replace("usid_last.apply", "usid_next.apply").replace("= port;", "= 0;")
    other = other.replace("usid_next.apply", "usid_last.apply") if "usid_last" in new else other
    problem = misfit([entry], schema_of(p4compiler.compile_text(other).p4info))
    assert re.fullmatch(f"of table usid_next does not fit: .*({says}).*", problem), problem


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (words("usid_nxt", "1"), "the P4 program has no table usid_nxt: did you mean .*usid_next"),
        (
            words("usid_next", "1"),
            r"The key of table usid_next has 4 fields, not 1: .*\(exact\), .*\(ternary\), ",
        ),
        (words("usid_next", *"1***", action="forwar", priority=1), "no action forwar there: did you mean forward.$"),
        (
            words("usid_next", *"1***", action="forward", priority=1),
            r"forward has 1 parameter, not 0: port \(bit",
        ),
        (words("usid_next", *"1***", action="forward", args="512 1"), "'512' is no value of port"),
        (words("usid_next", *"1***", action="forward", args="5"), "needs a priority: add 'priority 10'"),
        (words("usid_next", *"1***", action="forward", args="5 2147483648"), "A priority is at most 2147483647"),
        (words("usid_next", "*", *"***", priority=1), "is exact, so .* is not its value: write a single value"),
        (words("usid_next", "1", "&&&", "*", "*", priority=1), "'&&&' cannot be matched with"),
        (words("usid_next", "1", "*", "1-9", "*", priority=1), "'1-9' cannot be matched with"),
        (words("usid_next", "1", "*", "9->1", "*", priority=1), "'9->1' cannot be matched with type: 9 is above 1"),
        (words("usid_next", "1", "*", "1&&&3", "*", priority=1), "type is a range, so .*: write 1->9, or a single"),
        (words("usid_next", "1&&&1", *"***", priority=1), "dst is exact, so '1&&&1' is not its value: write a single"),
        (words("usid_next", "1", "1->2", *"**", priority=1), "ingress_port is ternary, so .*: write value&&&mask"),
        (words("usid_next", "1", "*", "*", "1/2", priority=1), "src is optional, so .*: write a single value"),
        (words("usid_next", "99999999999999999999999", *"***", priority=1), "cannot be matched with"),
        (words("usid_next", "-1", *"***", priority=1), "cannot be matched with"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_write(kinds: finsy.P4Schema, given: EntryWords, says: str) -> None:
    with pytest.raises(ControllerError, match=says):
        read_entry(given, kinds)


def test_a_priority_where_there_are_none_and_an_action_for_the_default_alone_are_refused(own: finsy.P4Schema) -> None:
    with pytest.raises(ControllerError, match="has no priorities: leave 3 out"):
        read_entry(words("traffic_class", "1", action="set_priority", args="7", priority=3), own)
    with pytest.raises(ControllerError, match=r"no action best_effort there: did you mean set_priority.$"):
        read_entry(words("traffic_class", "1", action="best_effort"), own)


def test_changes_are_laid_over_the_plan_and_vanish_when_they_are_what_is_planned(planned: SwitchEntries) -> None:
    first = next(entry for entry in planned.entries if entry.table == "usid_next")
    other = TableEntry(first.table, first.match, TableAction("set_egress", (("port", 1), ("dmac", 2), ("smac", 3))))
    new = TableEntry("traffic_class", (Exact(55),), TableAction("set_priority", (("priority", 1),)))
    hand = HandEntries()
    with pytest.raises(ControllerError, match="has such an entry already: use 'table modify'"):
        hand.changed(TableChange.ADD, other, planned)
    with pytest.raises(ControllerError, match="has no such entry"):
        hand.changed(TableChange.MODIFY, new, planned)
    hand = hand.changed(TableChange.MODIFY, other, planned).changed(TableChange.ADD, new, planned)
    laid = hand.over(planned)
    assert {*laid.entries} == {*planned.entries} - {first} | {other, new}
    hand = hand.changed(TableChange.DELETE, other, planned)
    assert {*hand.over(planned).entries} == {*planned.entries} - {first} | {new}
    with pytest.raises(ControllerError, match="has no such entry"):
        hand.changed(TableChange.DELETE, other, planned)
    hand = hand.changed(TableChange.ADD, first, planned).changed(TableChange.DELETE, new, planned)
    assert not hand.changes
    assert hand.over(planned) is planned


def test_the_file_gives_back_what_was_saved(planned: SwitchEntries, kinds: finsy.P4Schema, tmp_path: Path) -> None:
    given = words("usid_next", "7", "3&&&7", "1->2", "*", action="forward", args="5 10")
    entry = read_entry(given, kinds)
    hand = HandEntries().changed(TableChange.ADD, entry, planned)
    hand = hand.changed(TableChange.DELETE, planned.entries[0], planned)
    file = tmp_path / "by_hand.json"
    save(file, {"t0-0@p0": hand, "t0-1@p0": HandEntries()})
    assert load(file) == {"t0-0@p0": hand}
    save(file, {"t0-0@p0": HandEntries()})
    assert not file.exists()
    assert load(file) == {}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"t0": [1]}', '{"t0": [{"match": [{"kind": "Evil"}]}]}'])
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    file = tmp_path / "by_hand.json"
    file.write_text(text)
    with pytest.raises(ControllerError, match=r"cannot be read .*: remove it, and entries are as planned"):
        load(file)
