"""Action profile members and groups, and one-shot action sets, on a fake switch and on the engine."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r, rpc_code

from mrc_common.p4_match import GroupRef, Lpm, MemberRef
from p4runtime_shim.entities import Entry
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.entities import (
    ROLLBACK,
    Switch,
    group,
    indirect,
    member,
    one_shot,
    set_action,
)
from tests.p4runtime_shim.server.fake_switch import FakeSwitch
from tests.p4runtime_shim.server.world import delete, insert, modify


def watching(id_: int, *watch: dict[str, Any]) -> p4r.ActionProfileGroup:
    """A group of members 1, 2 ... that watch ports."""
    members = [{"member_id": number, "weight": 1, **item} for number, item in enumerate(watch, 1)]
    return p4r.ActionProfileGroup(action_profile_id=sample.SELECTOR, group_id=id_, members=members, max_size=4)


def test_members_and_groups_are_created_and_deleted_in_order(switch: Switch) -> None:
    switch.write(insert(action_profile_member=member(1)), insert(action_profile_member=member(2)))
    switch.write(insert(action_profile_group=group(5, 1, 2)))
    switch.write(insert(table_entry=indirect(10, action_profile_group_id=5)))
    assert switch.under.control_plane.table("I.indirect").entries() == [Entry((Lpm(0x0A000000, 8),), GroupRef(5))]
    assert switch.under.control_plane.profile("I.selector").groups() == {5: ((1, 1), (2, 1))}
    for early in (delete(action_profile_member=member(1)), delete(action_profile_group=group(5))):
        assert switch.refused(early) == [rpc_code.FAILED_PRECONDITION]
    switch.write(modify(action_profile_group=group(5, 1)))
    switch.write(delete(action_profile_member=member(2)))
    assert switch.read(action_profile_group={}) == [group(5, 1)]
    assert [item.member_id for item in switch.read(action_profile_member={})] == [1]
    switch.write(delete(table_entry=indirect(10)))
    switch.write(delete(action_profile_group=group(5)), delete(action_profile_member=member(1)))
    assert switch.under.control_plane.profile("I.selector").members() == {}


def test_a_member_used_by_an_entry_cannot_be_deleted(switch: Switch) -> None:
    switch.write(insert(action_profile_member=member(1, profile=sample.PROFILE)))
    entry = {
        "table_id": sample.BY_MEMBER,
        "match": [{"field_id": 1, "exact": {"value": b"\x01"}}],
        "action": {"action_profile_member_id": 1},
    }
    switch.write(insert(table_entry=entry))
    assert switch.under.control_plane.table("I.by_member").entries()[0].target == MemberRef(1)
    dropped = delete(action_profile_member=member(1, profile=sample.PROFILE))
    assert switch.refused(dropped) == [rpc_code.FAILED_PRECONDITION]
    switch.write(modify(action_profile_member=member(1, port=9, profile=sample.PROFILE)))
    assert switch.read(action_profile_member={"action_profile_id": sample.PROFILE})[0].action.params[0].value == b"\x09"
    switch.write(delete(table_entry=entry))
    switch.write(dropped)


@pytest.mark.parametrize(
    ("update", "code"),
    [
        (insert(action_profile_member=member(0)), rpc_code.INVALID_ARGUMENT),
        (insert(action_profile_member=member(1)), rpc_code.ALREADY_EXISTS),
        (insert(action_profile_member=member(3, profile=99)), rpc_code.NOT_FOUND),
        (
            insert(action_profile_member={"action_profile_id": sample.SELECTOR, "member_id": 3}),
            rpc_code.INVALID_ARGUMENT,
        ),
        (modify(action_profile_member=member(3)), rpc_code.NOT_FOUND),
        (delete(action_profile_member=member(3)), rpc_code.NOT_FOUND),
        (insert(action_profile_group=group(0, 1)), rpc_code.INVALID_ARGUMENT),
        (insert(action_profile_group=group(5, 3)), rpc_code.NOT_FOUND),
        (insert(action_profile_group=group(5, 1, 1)), rpc_code.INVALID_ARGUMENT),
        (insert(action_profile_group=group(5, 1, weight=0)), rpc_code.INVALID_ARGUMENT),
        (insert(action_profile_group=group(5, 1, max_size=0)), rpc_code.INVALID_ARGUMENT),
        (insert(action_profile_group=group(5, 1, max_size=9)), rpc_code.INVALID_ARGUMENT),
        (insert(action_profile_group=group(5, 1, max_size=3, weight=4)), rpc_code.RESOURCE_EXHAUSTED),
        (modify(action_profile_group=group(5, 1)), rpc_code.NOT_FOUND),
        (delete(action_profile_group=group(5)), rpc_code.NOT_FOUND),
        (insert(table_entry=indirect(10, action_profile_group_id=5)), rpc_code.NOT_FOUND),
        (insert(table_entry=indirect(10, action_profile_member_id=5)), rpc_code.NOT_FOUND),
        (insert(table_entry=indirect(10, action=set_action())), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=indirect(10, action_profile_action_set={})), rpc_code.INVALID_ARGUMENT),
        (insert(action_profile_group=watching(5, {"watch": -1})), rpc_code.INVALID_ARGUMENT),
    ],
)
def test_invalid_profile_updates_are_refused(switch: Switch, update: p4r.Update, code: int) -> None:
    switch.write(insert(action_profile_member=member(1)))
    assert switch.refused(update) == [code]
    assert switch.under.control_plane.profile("I.selector").groups() == {}


def test_members_accept_both_forms_of_watch_port() -> None:
    switch = Switch(sample.fake())
    for id_ in (1, 2, 3, 4):
        switch.write(insert(action_profile_member=member(id_)))
    given = ({"watch_port": b"\x00\x02"}, {"watch": 1}, {"watch_port": b""}, {})
    group = watching(5, *given)
    switch.write(insert(action_profile_group=group))
    canonical = watching(5, {"watch_port": b"\x02"}, *given[1:])
    assert switch.read(action_profile_group={}) == [canonical]
    assert watched(switch) == [{1: 2, 2: 1}]
    other = watching(5, {"watch_port": b"\x03"})
    switch.write(modify(action_profile_group=other))
    assert watched(switch) == [{1: 3}]
    failing = delete(action_profile_member=member(9))
    for undone in (modify(action_profile_group=group), delete(action_profile_group=group)):
        assert switch.refused(undone, failing, atomicity=ROLLBACK)[1] == rpc_code.NOT_FOUND
        assert watched(switch) == [{1: 3}]


def test_actions_of_a_one_shot_set_accept_watch_ports() -> None:
    switch = Switch(sample.fake())
    action = one_shot(1, 2)["action_profile_action_set"]
    action["action_profile_actions"][1]["watch_port"] = b"\x00\x03"
    switch.write(insert(table_entry=indirect(10, action_profile_action_set=action)))
    (found,) = switch.read(table_entry={"table_id": sample.INDIRECT})
    assert found.action.action_profile_action_set.action_profile_actions[1].watch_port == b"\x03"
    (ports,) = watched(switch)
    assert list(ports.values()) == [3]


def watched(switch: Switch) -> list[dict[int, int]]:
    """What the groups under it watch; the engine's are seen in packets only (test_table_state.py)."""
    fake = switch.under
    assert isinstance(fake, FakeSwitch)
    profile = fake.control_plane.profile("I.selector")
    return [profile.watched[id_] for id_ in profile.groups()]


def test_watch_ports_must_exist() -> None:
    with sample.real() as under:
        switch = Switch(under)
        switch.write(insert(action_profile_member=member(1)))
        for wrong in ({"watch_port": b"\x09"}, {"watch_port": b"\x01\x00\x00\x00\x01"}, {"watch": 9}):
            refused = switch.refused(insert(action_profile_group=watching(5, wrong)))
            assert refused == [rpc_code.INVALID_ARGUMENT]
            assert switch.read(action_profile_group={}) == []


def test_an_action_set_creates_and_deletes_its_group(switch: Switch) -> None:
    switch.write(insert(table_entry=indirect(10, **one_shot(1, 2))), insert(table_entry=indirect(11, **one_shot(3))))
    assert sorted(len(item) for item in switch.under.control_plane.profile("I.selector").groups().values()) == [1, 2]
    assert switch.read(action_profile_member={}) == []
    assert switch.read(action_profile_group={}) == []
    found = switch.read(table_entry={"table_id": sample.INDIRECT})
    assert found == [indirect(10, **one_shot(1, 2)), indirect(11, **one_shot(3))]
    switch.write(modify(table_entry=indirect(10, **one_shot(4, 4, 4))))
    assert sorted(len(item) for item in switch.under.control_plane.profile("I.selector").groups().values()) == [1, 3]
    assert len(switch.under.control_plane.profile("I.selector").members()) == 4
    assert switch.refused(insert(action_profile_member=member(1))) == [rpc_code.INVALID_ARGUMENT]
    switch.write(delete(table_entry=indirect(10)), delete(table_entry=indirect(11)))
    assert switch.under.control_plane.profile("I.selector").groups() == {}
    assert switch.under.control_plane.profile("I.selector").members() == {}
    switch.write(insert(action_profile_member=member(1)))


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (one_shot(1, weight=0), rpc_code.INVALID_ARGUMENT),
        (one_shot(1, 2, 3, weight=3), rpc_code.INVALID_ARGUMENT),
        (one_shot(1, action_selection_mode=2), rpc_code.UNIMPLEMENTED),
        (one_shot(1, size_semantics=2), rpc_code.UNIMPLEMENTED),
    ],
)
def test_invalid_action_sets_leave_nothing(switch: Switch, action: dict[str, Any], code: int) -> None:
    assert switch.refused(insert(table_entry=indirect(10, **action))) == [code]
    assert switch.under.control_plane.profile("I.selector").groups() == {}


def test_a_refused_entry_leaves_no_group_of_its_action_set(switch: Switch) -> None:
    switch.write(insert(table_entry=indirect(10, **one_shot(1))))
    assert switch.refused(insert(table_entry=indirect(10, **one_shot(1, 2)))) == [rpc_code.ALREADY_EXISTS]
    assert len(switch.under.control_plane.profile("I.selector").groups()) == 1
    assert len(switch.under.control_plane.profile("I.selector").members()) == 1
