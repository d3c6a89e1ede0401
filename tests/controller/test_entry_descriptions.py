from __future__ import annotations

import dataclasses
import random

import pytest

from controller.entry_descriptions import describe, problems
from mrc_common.p4_match import Exact, Lpm, MemberRef
from topologies.clos import multi_plane_clos
from topologies.entries import Group, Member, SwitchEntries, TableAction, TableEntry, switch_entries
from topologies.entry_difference import compare, count

FABRIC = multi_plane_clos("described")
WANTED = switch_entries(FABRIC, FABRIC.switches[0])


def test_a_correct_switch_has_no_difference() -> None:
    difference = compare(WANTED, WANTED)
    assert len(difference) == 0
    assert list(problems(difference)) == []
    assert all(stage == ((), (), ()) for stage in difference.stages())


def test_an_empty_switch_is_missing_everything() -> None:
    difference = compare(WANTED, SwitchEntries("t0-0@p0", (), (), ()))
    assert len(difference.missing) == count(WANTED) == len(difference)


def test_order_of_members_groups_and_entries_does_not_matter() -> None:
    rng = random.Random(5)
    shuffled = [rng.sample(part, len(part)) for part in (WANTED.members, WANTED.groups, WANTED.entries)]
    assert len(compare(WANTED, SwitchEntries("t0-0@p0", *map(tuple, shuffled)))) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_applying_the_difference_corrects_the_switch_without_dangling_references(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    found = _disturbed(rng)
    held = {_key(entry): entry for entry in (*found.members, *found.groups, *found.entries)}
    for missing, wrong, superfluous in compare(WANTED, found).stages():
        for entry in missing:
            assert _key(entry) not in held
            held[_key(entry)] = entry
        for entry in wrong:
            assert _key(entry) in held
            held[_key(entry)] = entry
        for entry in superfluous:
            del held[_key(entry)]
        for entry in (*missing, *wrong):
            if isinstance(entry, Group):
                assert all((Member, entry.profile, member_id) in held for member_id, _ in entry.members)
    assert set(held.values()) == {*WANTED.members, *WANTED.groups, *WANTED.entries}


def test_problems_name_switch_table_and_key() -> None:
    some = next(entry for entry in WANTED.entries if entry.table == "usid_next")
    found = dataclasses.replace(WANTED, entries=tuple(entry for entry in WANTED.entries if entry != some))
    assert list(problems(compare(WANTED, found))) == ["t0-0@p0: entry fc00:0:6000::/48 of table usid_next is missing"]
    found = dataclasses.replace(WANTED, members=(), groups=(Group("ecmp", 1, ((1, 1),)), Group("ecmp", 9, ())))
    found_wrong = set(problems(compare(WANTED, found)))
    assert "t0-0@p0: member 1 of ecmp is missing" in found_wrong
    assert "t0-0@p0: group 1 of ecmp is not as it should be" in found_wrong
    assert "t0-0@p0: group 9 of ecmp should not be there" in found_wrong


def test_keys_are_printed_in_operators_notation() -> None:
    action = TableAction("x")
    assert describe(TableEntry("t", (Exact(46),), action)) == "entry 46 of table t"
    assert describe(TableEntry("t", (Lpm(0xFD00 << 112, 16),), MemberRef(1))) == "entry fd00::/16 of table t"
    assert describe(TableEntry("t", (Exact(0xFE80 << 112 | 1),), action)) == "entry fe80::1 of table t"
    assert describe(TableEntry("t", (Exact(1 << 200),), action)) == f"entry {1 << 200:#x} of table t"
    assert describe(TableEntry("t", (Lpm(0x0A000000, 8),), action)) == "entry 0xa000000/8 of table t"
    assert describe(TableEntry("t", (Lpm(1 << 200, 8),), action)) == f"entry {1 << 200:#x}/8 of table t"
    assert describe(Member("ecmp", 3, action)) == "member 3 of ecmp"


def _key(entry: object) -> object:
    if isinstance(entry, TableEntry):
        return entry.table, entry.match
    if isinstance(entry, Member):
        return Member, entry.profile, entry.member_id
    assert isinstance(entry, Group)
    return Group, entry.profile, entry.group_id


def _disturbed(rng: random.Random) -> SwitchEntries:
    """What the switch should hold with some entries lost, some changed and some added."""
    members = [m for m in WANTED.members if rng.random() < 0.8]
    members += [Member("ecmp", 100 + n, TableAction("set_egress")) for n in range(rng.randrange(3))]
    entries = [
        dataclasses.replace(entry, target=TableAction("other")) if rng.random() < 0.2 else entry
        for entry in WANTED.entries
        if rng.random() < 0.8
    ]
    entries += [TableEntry("usid_next", (Exact(n),), TableAction("set_egress")) for n in range(rng.randrange(3))]
    groups = [dataclasses.replace(group, members=()) for group in WANTED.groups if rng.random() < 0.5]
    return SwitchEntries(WANTED.switch, tuple(members), tuple(groups), tuple(entries))
