"""Entities of every family through `Forwarding`, on a fake switch and on the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from finsy.proto import p4r, rpc_code

from p4runtime_shim.server import p4info
from p4runtime_shim.server.errors import BatchError
from p4runtime_shim.server.forwarding import Forwarding
from p4runtime_shim.server.target import Target
from p4runtime_shim.values import ActionCall, CounterValue, Entry, Exact, GroupRef, Lpm, MemberRef, MeterConfig, Replica
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.world import delete, insert, modify

ROLLBACK = p4r.WriteRequest.ROLLBACK_ON_ERROR
SCHEMA = p4info.build(sample.p4info())
SET = ActionCall("I.set", (3, 0x020000000001))


class Switch:
    """A forwarding state with shorthand; `under` is the switch under it."""

    def __init__(self, under: Target) -> None:
        self.under = under
        self.state = Forwarding(SCHEMA, under)

    def write(self, *updates: p4r.Update, atomicity: int = 0) -> None:
        self.state.write(updates, atomicity)

    def refused(self, *updates: p4r.Update, atomicity: int = 0) -> list[int]:
        with pytest.raises(BatchError) as caught:
            self.state.write(updates, atomicity)
        return [0 if item is None else item.code for item in caught.value.results]

    def read(self, **entity: Any) -> list[Any]:
        (kind,) = entity
        return [getattr(item, kind) for item in self.state.read([p4r.Entity(**entity)])]

    def entries(self) -> list[p4r.TableEntry]:
        """All table entries but the constant ones."""
        return [item for item in self.read(table_entry={}) if not item.is_const]


@pytest.fixture(params=[sample.fake, sample.real], ids=["fake", "engine"])
def switch(request: pytest.FixtureRequest) -> Iterator[Switch]:
    under = request.param()
    yield Switch(under)
    under.close()


def set_action(port: int = 3) -> p4r.Action:
    params = [{"param_id": 1, "value": b"\x02\x00\x00\x00\x00\x01"}, {"param_id": 2, "value": bytes([port])}]
    return p4r.Action(action_id=sample.SET, params=params)


def exact(mac: int = 1, **more: Any) -> p4r.TableEntry:
    more.setdefault("action", {"action": set_action()})
    return p4r.TableEntry(table_id=sample.EXACT, match=[{"field_id": 1, "exact": {"value": bytes([mac])}}], **more)


def kinds(e: int = 1, priority: int = 10, **more: Any) -> p4r.TableEntry:
    more.setdefault("action", {"action": {"action_id": sample.DROP}})
    match = [
        {"field_id": 1, "exact": {"value": bytes([e])}},
        {"field_id": 2, "ternary": {"value": b"\x01", "mask": b"\x0f"}},
    ]
    return p4r.TableEntry(table_id=sample.KINDS, match=match, priority=priority, **more)


def indirect(prefix: int, **action: Any) -> p4r.TableEntry:
    match = [{"field_id": 1, "lpm": {"value": bytes([prefix, 0, 0, 0]), "prefix_len": 8}}]
    return p4r.TableEntry(table_id=sample.INDIRECT, match=match, action=action)


# --- table entries


def test_an_entry_is_inserted_modified_read_and_deleted(switch: Switch) -> None:
    entry = exact(metadata=b"cookie", controller_metadata=5)
    switch.write(insert(table_entry=entry))
    assert switch.under.table_entries("I.exact_") == [Entry((Exact(1),), SET)]
    assert switch.read(table_entry={"table_id": sample.EXACT}) == [_canonical(entry)]
    changed = exact(action={"action": {"action_id": sample.DROP}})
    switch.write(modify(table_entry=changed))
    assert switch.entries() == [changed]
    switch.write(delete(table_entry=exact(action={"action": {"action_id": 77}}, metadata=b"ignored")))
    assert switch.entries() == []


def _canonical(entry: p4r.TableEntry) -> p4r.TableEntry:
    """Parameters in the order of the P4 source."""
    params = sorted(entry.action.action.params, key=lambda item: -item.param_id)
    result = p4r.TableEntry()
    result.CopyFrom(entry)
    del result.action.action.params[:]
    result.action.action.params.extend(params)
    return result


def test_modify_without_action_keeps_it(switch: Switch) -> None:
    switch.write(insert(table_entry=exact(metadata=b"a")))
    only_key = exact(metadata=b"b")
    only_key.ClearField("action")
    switch.write(modify(table_entry=only_key))
    (read,) = switch.read(table_entry={"table_id": sample.EXACT})
    assert (read.metadata, read.action.action.action_id) == (b"b", sample.SET)


@pytest.mark.parametrize(
    ("update", "code"),
    [
        (insert(table_entry={"table_id": 99}), rpc_code.NOT_FOUND),
        (insert(table_entry={}), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=exact(action={})), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=exact(priority=1)), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=kinds(priority=0)), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=kinds(priority=-4)), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=exact(is_const=True)), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=exact(idle_timeout_ns=1)), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=exact(action={"action": {"action_id": 77}})), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=kinds(action={"action": {"action_id": sample.SET_ENTRY}})), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=exact(action={"action": {"action_id": sample.SET_DEFAULT}})), rpc_code.PERMISSION_DENIED),
        (insert(table_entry=exact(action={"action": {"action_id": sample.SET}})), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=exact(action={"action_profile_member_id": 1})), rpc_code.INVALID_ARGUMENT),
        (modify(table_entry=exact()), rpc_code.NOT_FOUND),
        (delete(table_entry=exact()), rpc_code.NOT_FOUND),
        (insert(table_entry={"table_id": sample.KEYLESS}), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry={"table_id": sample.CONST}), rpc_code.PERMISSION_DENIED),
        (delete(table_entry={"table_id": sample.CONST}), rpc_code.PERMISSION_DENIED),
        (insert(table_entry=exact(meter_config={"cir": 1})), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=kinds(meter_counter_data={})), rpc_code.UNIMPLEMENTED),
        (insert(table_entry=exact(counter_data={"packet_count": -1})), rpc_code.INVALID_ARGUMENT),
        (p4r.Update(entity={"table_entry": exact()}), rpc_code.INVALID_ARGUMENT),
        (p4r.Update(type=p4r.Update.INSERT), rpc_code.INVALID_ARGUMENT),
        (insert(extern_entry={}), rpc_code.UNIMPLEMENTED),
        (insert(value_set_entry={}), rpc_code.UNIMPLEMENTED),
    ],
)
def test_wrong_updates_have_their_code_and_change_nothing(switch: Switch, update: p4r.Update, code: int) -> None:
    assert switch.refused(update) == [code]
    assert switch.entries() == []


def test_a_double_insert_leaves_the_first(switch: Switch) -> None:
    switch.write(insert(table_entry=exact(metadata=b"first")))
    assert switch.refused(insert(table_entry=exact(metadata=b"second"))) == [rpc_code.ALREADY_EXISTS]
    assert switch.entries()[0].metadata == b"first"


def test_errors_do_not_stop_a_batch(switch: Switch) -> None:
    codes = switch.refused(insert(table_entry=exact(1)), insert(table_entry=exact(1)), insert(table_entry=exact(2)))
    assert codes == [0, rpc_code.ALREADY_EXISTS, 0]
    assert len(switch.entries()) == 2


# --- filters


def test_filters_of_a_read(switch: Switch) -> None:
    switch.write(
        insert(table_entry=kinds(1, 10, metadata=b"a")),
        insert(table_entry=kinds(1, 20, controller_metadata=9)),
        insert(table_entry=kinds(2, 20, action={"action": set_action()})),
        insert(table_entry=exact()),
    )

    def found(**wanted: Any) -> list[tuple[bytes, int]]:
        entries = switch.read(table_entry=wanted)
        return sorted((item.match[0].exact.value, item.priority) for item in entries)

    assert len(found()) == 6  # with the two constant ones
    assert len(found(table_id=sample.KINDS)) == 3
    assert found(table_id=sample.KINDS, priority=20) == [(b"\x01", 20), (b"\x02", 20)]
    assert found(table_id=sample.KINDS, metadata=b"a") == [(b"\x01", 10)]
    assert found(table_id=sample.KINDS, controller_metadata=9) == [(b"\x01", 20)]
    assert found(table_id=sample.KINDS, action={"action": {"action_id": sample.SET}}) == [(b"\x02", 20)]
    key = list(kinds(1).match)
    assert found(table_id=sample.KINDS, match=key) == [(b"\x01", 10), (b"\x01", 20)]
    assert found(table_id=sample.KINDS, match=key, priority=20) == [(b"\x01", 20)]
    assert found(table_id=sample.KINDS, match=key, priority=30) == []


def test_wrong_reads_have_their_code_and_the_others_are_answered(switch: Switch) -> None:
    switch.write(insert(table_entry=exact()))
    wanted = [
        p4r.Entity(table_entry={"table_id": 99}),
        p4r.Entity(table_entry={"table_id": sample.EXACT}),
        p4r.Entity(),
        p4r.Entity(direct_counter_entry={"table_entry": exact(9)}),
    ]
    found = []
    with pytest.raises(BatchError) as caught:
        found.extend(switch.state.read(wanted))  # what was found before the error is kept
    assert len(found) == 1
    codes = [item and item.code for item in caught.value.results]
    assert codes == [rpc_code.NOT_FOUND, None, rpc_code.INVALID_ARGUMENT, rpc_code.NOT_FOUND]


# --- default entries


def default(table: int, **more: Any) -> p4r.TableEntry:
    return p4r.TableEntry(table_id=table, is_default_action=True, **more)


def test_a_default_entry_is_modified_read_and_reset(switch: Switch) -> None:
    switch.under.table_set_default("I.exact_", ActionCall("I.drop"))
    switch.state = Forwarding(SCHEMA, switch.under)
    action = {"action": {"action_id": sample.SET_DEFAULT}}
    switch.write(modify(table_entry=default(sample.EXACT, action=action, metadata=b"m")))
    assert switch.under.table_default("I.exact_") == ActionCall("I.set_default")
    (read,) = switch.read(table_entry=default(sample.EXACT))
    assert (read.action.action.action_id, read.metadata, read.is_default_action) == (sample.SET_DEFAULT, b"m", True)
    switch.write(modify(table_entry=default(sample.EXACT)))
    assert switch.under.table_default("I.exact_") == ActionCall("I.drop")
    assert switch.read(table_entry=default(sample.EXACT))[0].metadata == b""


@pytest.mark.parametrize(
    ("update", "code"),
    [
        (insert(table_entry=default(sample.EXACT)), rpc_code.INVALID_ARGUMENT),
        (delete(table_entry=default(sample.EXACT)), rpc_code.INVALID_ARGUMENT),
        (modify(table_entry=default(sample.EXACT, priority=1)), rpc_code.INVALID_ARGUMENT),
        (modify(table_entry=default(sample.EXACT, match=exact().match)), rpc_code.INVALID_ARGUMENT),
        (modify(table_entry=default(sample.LPM)), rpc_code.PERMISSION_DENIED),
        (modify(table_entry=default(sample.INDIRECT)), rpc_code.PERMISSION_DENIED),
        (
            modify(table_entry=default(sample.EXACT, action={"action": {"action_id": sample.SET_ENTRY}})),
            rpc_code.PERMISSION_DENIED,
        ),
    ],
)
def test_wrong_updates_of_default_entries(switch: Switch, update: p4r.Update, code: int) -> None:
    assert switch.refused(update) == [code]


# --- direct counters and meters


def test_direct_counters_with_the_entry_and_alone(switch: Switch) -> None:
    switch.write(
        insert(table_entry=exact(counter_data={"packet_count": 2, "byte_count": 200})), insert(table_entry=exact(2))
    )
    assert not switch.read(table_entry={"table_id": sample.EXACT})[0].HasField("counter_data")
    (one,) = switch.read(table_entry={"table_id": sample.EXACT, "match": exact().match, "counter_data": {}})
    assert (one.counter_data.packet_count, one.counter_data.byte_count) == (2, 200)
    switch.write(modify(direct_counter_entry={"table_entry": exact(2), "data": {"packet_count": 7}}))
    found = switch.read(direct_counter_entry={"table_entry": {"table_id": sample.EXACT}})
    assert sorted(item.data.packet_count for item in found) == [2, 7]
    assert len(switch.read(direct_counter_entry={})) == 4  # with those of the two constant entries
    switch.write(modify(table_entry=exact(2)))  # unset: not changed
    (one,) = switch.read(direct_counter_entry={"table_entry": exact(2)})
    assert one.data.packet_count == 7
    assert switch.refused(insert(direct_counter_entry={"table_entry": exact(2)})) == [rpc_code.INVALID_ARGUMENT]
    missing = modify(direct_counter_entry={"table_entry": exact(3), "data": {}})
    assert switch.refused(missing) == [rpc_code.NOT_FOUND]
    without = modify(direct_counter_entry={"table_entry": {"table_id": sample.LPM}})
    assert switch.refused(without) == [rpc_code.INVALID_ARGUMENT]


def test_direct_meters_with_the_entry_and_alone(switch: Switch) -> None:
    config = {"cir": 10, "cburst": 1, "pir": 20, "pburst": 2}
    switch.write(insert(table_entry=kinds(meter_config=config)))
    (entry,) = switch.read(table_entry={"table_id": sample.KINDS, "meter_config": {}})
    assert entry.meter_config == p4r.MeterConfig(**config)
    switch.write(modify(direct_meter_entry={"table_entry": kinds(), "config": {**config, "pir": 30}}))
    assert switch.read(direct_meter_entry={"table_entry": kinds()})[0].config.pir == 30
    switch.write(modify(table_entry=kinds()))  # unset: back to all green
    assert not switch.read(direct_meter_entry={})[0].HasField("config")
    for wrong in ({"cir": 5, "pir": 4}, {"cir": -1}, {"eburst": 1}):
        update = modify(direct_meter_entry={"table_entry": kinds(), "config": wrong})
        assert switch.refused(update) == [rpc_code.INVALID_ARGUMENT]


def test_the_counters_of_a_constant_table_can_be_written(switch: Switch) -> None:
    match = [{"field_id": 1, "exact": {"value": b"\x01"}}]
    switch.write(modify(table_entry={"table_id": sample.CONST, "match": match, "counter_data": {"packet_count": 4}}))
    (entry,) = switch.read(table_entry={"table_id": sample.CONST, "match": match, "counter_data": {}})
    assert entry.is_const
    assert entry.counter_data.packet_count == 4
    with_action = {"table_id": sample.CONST, "match": match, "action": {"action": {"action_id": sample.DROP}}}
    assert switch.refused(modify(table_entry=with_action)) == [rpc_code.PERMISSION_DENIED]


# --- action profiles


def member(id_: int, port: int = 3, profile: int = sample.SELECTOR) -> p4r.ActionProfileMember:
    return p4r.ActionProfileMember(action_profile_id=profile, member_id=id_, action=set_action(port))


def group(id_: int, *members: int, max_size: int = 8, weight: int = 1) -> p4r.ActionProfileGroup:
    items = [{"member_id": item, "weight": weight} for item in members]
    return p4r.ActionProfileGroup(action_profile_id=sample.SELECTOR, group_id=id_, members=items, max_size=max_size)


def test_members_and_groups_live_and_die_in_order(switch: Switch) -> None:
    switch.write(insert(action_profile_member=member(1)), insert(action_profile_member=member(2)))
    switch.write(insert(action_profile_group=group(5, 1, 2)))
    switch.write(insert(table_entry=indirect(10, action_profile_group_id=5)))
    assert switch.under.table_entries("I.indirect") == [Entry((Lpm(0x0A000000, 8),), GroupRef(5))]
    assert switch.under.groups("I.selector") == {5: ((1, 1), (2, 1))}
    for early in (delete(action_profile_member=member(1)), delete(action_profile_group=group(5))):
        assert switch.refused(early) == [rpc_code.FAILED_PRECONDITION]
    switch.write(modify(action_profile_group=group(5, 1)))
    switch.write(delete(action_profile_member=member(2)))
    assert switch.read(action_profile_group={}) == [group(5, 1)]
    assert [item.member_id for item in switch.read(action_profile_member={})] == [1]
    switch.write(delete(table_entry=indirect(10)))
    switch.write(delete(action_profile_group=group(5)), delete(action_profile_member=member(1)))
    assert switch.under.members("I.selector") == {}


def test_a_member_in_an_entry_is_held(switch: Switch) -> None:
    switch.write(insert(action_profile_member=member(1, profile=sample.PROFILE)))
    entry = {
        "table_id": sample.BY_MEMBER,
        "match": [{"field_id": 1, "exact": {"value": b"\x01"}}],
        "action": {"action_profile_member_id": 1},
    }
    switch.write(insert(table_entry=entry))
    assert switch.under.table_entries("I.by_member")[0].target == MemberRef(1)
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
        (
            insert(
                action_profile_group={
                    "action_profile_id": sample.SELECTOR,
                    "group_id": 5,
                    "max_size": 4,
                    "members": [{"member_id": 1, "weight": 1, "watch_port": b"\x01"}],
                }
            ),
            rpc_code.UNIMPLEMENTED,
        ),
    ],
)
def test_wrong_updates_of_profiles(switch: Switch, update: p4r.Update, code: int) -> None:
    switch.write(insert(action_profile_member=member(1)))
    assert switch.refused(update) == [code]
    assert switch.under.groups("I.selector") == {}


def one_shot(*ports: int, weight: int = 1, **more: Any) -> dict[str, Any]:
    actions = [{"action": _canonical_action(port), "weight": weight} for port in ports]
    return {"action_profile_action_set": {"action_profile_actions": actions, **more}}


def _canonical_action(port: int) -> p4r.Action:
    params = [{"param_id": 2, "value": bytes([port])}, {"param_id": 1, "value": b"\x02\x00\x00\x00\x00\x01"}]
    return p4r.Action(action_id=sample.SET, params=params)


def test_an_action_set_makes_and_removes_its_group(switch: Switch) -> None:
    switch.write(insert(table_entry=indirect(10, **one_shot(1, 2))), insert(table_entry=indirect(11, **one_shot(3))))
    assert sorted(len(item) for item in switch.under.groups("I.selector").values()) == [1, 2]
    assert switch.read(action_profile_member={}) == []
    assert switch.read(action_profile_group={}) == []
    found = switch.read(table_entry={"table_id": sample.INDIRECT})
    assert found == [indirect(10, **one_shot(1, 2)), indirect(11, **one_shot(3))]
    switch.write(modify(table_entry=indirect(10, **one_shot(4, 4, 4))))
    assert sorted(len(item) for item in switch.under.groups("I.selector").values()) == [1, 3]
    assert len(switch.under.members("I.selector")) == 4
    assert switch.refused(insert(action_profile_member=member(1))) == [rpc_code.INVALID_ARGUMENT]
    switch.write(delete(table_entry=indirect(10)), delete(table_entry=indirect(11)))
    assert switch.under.groups("I.selector") == {}
    assert switch.under.members("I.selector") == {}
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
def test_wrong_action_sets_leave_nothing(switch: Switch, action: dict[str, Any], code: int) -> None:
    assert switch.refused(insert(table_entry=indirect(10, **action))) == [code]
    assert switch.under.groups("I.selector") == {}


def test_a_refused_entry_leaves_no_group_of_its_action_set(switch: Switch) -> None:
    switch.write(insert(table_entry=indirect(10, **one_shot(1))))
    assert switch.refused(insert(table_entry=indirect(10, **one_shot(1, 2)))) == [rpc_code.ALREADY_EXISTS]
    assert len(switch.under.groups("I.selector")) == 1
    assert len(switch.under.members("I.selector")) == 1


# --- arrays


def test_counters_registers_and_meters(switch: Switch) -> None:
    switch.write(
        modify(counter_entry={"counter_id": sample.COUNTER, "index": {"index": 2}, "data": {"packet_count": 5}}),
        modify(register_entry={"register_id": sample.REGISTER, "index": {}, "data": {"bitstring": b"\x0a\xbc"}}),
        modify(register_entry={"register_id": sample.SIGNED, "index": {}, "data": {"bitstring": b"\xff"}}),
        modify(meter_entry={"meter_id": sample.METER, "index": {"index": 1}, "config": {"cir": 1, "pir": 2}}),
    )
    assert switch.under.counter_read("I.a_counter", 2) == CounterValue(5, 0)
    assert switch.under.register_read("I.a_signed", 0) == 0xFFF
    assert switch.under.meter_read("I.a_meter", 1) == MeterConfig(1, 0, 2, 0)
    assert [item.data.packet_count for item in switch.read(counter_entry={"counter_id": sample.COUNTER})] == [
        0,
        0,
        5,
        0,
    ]
    (one,) = switch.read(counter_entry={"counter_id": sample.COUNTER, "index": {"index": 2}})
    assert (one.index.index, one.data.packet_count) == (2, 5)
    values = [item.data.bitstring for item in switch.read(register_entry={"register_id": sample.REGISTER})]
    assert values == [b"\x0a\xbc", b"\x00", b"\x00", b"\x00", b"\x00"]
    assert switch.read(register_entry={"register_id": sample.SIGNED})[0].data.bitstring == b"\xff"
    assert [item.HasField("config") for item in switch.read(meter_entry={})] == [False, True, False]
    switch.write(modify(counter_entry={"counter_id": sample.COUNTER, "data": {"byte_count": 1}}))
    assert [item.data.byte_count for item in switch.read(counter_entry={})] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("update", "code"),
    [
        (insert(counter_entry={"counter_id": sample.COUNTER}), rpc_code.INVALID_ARGUMENT),
        (delete(register_entry={"register_id": sample.REGISTER}), rpc_code.INVALID_ARGUMENT),
        (modify(counter_entry={"counter_id": 99}), rpc_code.NOT_FOUND),
        (modify(counter_entry={"counter_id": sample.COUNTER, "index": {"index": -1}}), rpc_code.INVALID_ARGUMENT),
        (modify(counter_entry={"counter_id": sample.COUNTER, "index": {"index": 4}}), rpc_code.OUT_OF_RANGE),
        (modify(meter_entry={"meter_id": sample.METER, "index": {"index": 3}}), rpc_code.OUT_OF_RANGE),
        (modify(meter_entry={"meter_id": sample.METER, "counter_data": {}}), rpc_code.UNIMPLEMENTED),
        (
            modify(register_entry={"register_id": sample.REGISTER, "data": {"bitstring": b"\x10\x00\x00"}}),
            rpc_code.OUT_OF_RANGE,
        ),
        (modify(register_entry={"register_id": sample.REGISTER, "data": {"bool": True}}), rpc_code.INVALID_ARGUMENT),
        (modify(register_entry={"register_id": sample.REGISTER}), rpc_code.INVALID_ARGUMENT),
    ],
)
def test_wrong_updates_of_arrays(switch: Switch, update: p4r.Update, code: int) -> None:
    assert switch.refused(update) == [code]


# --- packet replication


def test_multicast_groups_and_clone_sessions(switch: Switch) -> None:
    flood = {
        "multicast_group_id": 1,
        "replicas": [{"port": b"\x01", "instance": 1}, {"egress_port": 2}],
        "metadata": b"m",
    }
    mirror = {"session_id": 7, "replicas": [{"port": b"\x01\xfe"}], "packet_length_bytes": 64}
    switch.write(
        insert(packet_replication_engine_entry={"multicast_group_entry": flood}),
        insert(packet_replication_engine_entry={"clone_session_entry": mirror}),
    )
    assert switch.under.multicast_groups() == {1: (Replica(1, 1), Replica(2, 0))}
    assert switch.under.clone_sessions()[7].max_length == 64
    everything = switch.read(packet_replication_engine_entry={})
    assert everything == [
        p4r.PacketReplicationEngineEntry(multicast_group_entry=flood),
        p4r.PacketReplicationEngineEntry(clone_session_entry=mirror),
    ]
    assert switch.read(packet_replication_engine_entry={"clone_session_entry": {"session_id": 8}}) == []
    switch.write(
        delete(packet_replication_engine_entry={"multicast_group_entry": {"multicast_group_id": 1}}),
        delete(packet_replication_engine_entry={"clone_session_entry": {"session_id": 7}}),
    )
    assert switch.under.multicast_groups() == {}
    assert switch.under.clone_sessions() == {}


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"multicast_group_entry": {"multicast_group_id": 0}}, rpc_code.INVALID_ARGUMENT),
        ({"multicast_group_entry": {"multicast_group_id": 70000}}, rpc_code.INVALID_ARGUMENT),
        ({"multicast_group_entry": {"multicast_group_id": 1, "replicas": [{}]}}, rpc_code.INVALID_ARGUMENT),
        (
            {"multicast_group_entry": {"multicast_group_id": 1, "replicas": [{"port": b"\x02\x00"}]}},
            rpc_code.OUT_OF_RANGE,
        ),
        (
            {"multicast_group_entry": {"multicast_group_id": 1, "replicas": [{"port": b"\x01"}, {"egress_port": 1}]}},
            rpc_code.INVALID_ARGUMENT,
        ),
        ({"clone_session_entry": {"session_id": 0}}, rpc_code.INVALID_ARGUMENT),
        ({"clone_session_entry": {"session_id": 1, "class_of_service": 1}}, rpc_code.UNIMPLEMENTED),
        ({}, rpc_code.INVALID_ARGUMENT),
    ],
)
def test_wrong_replication_entries(switch: Switch, entry: dict[str, Any], code: int) -> None:
    assert switch.refused(insert(packet_replication_engine_entry=entry)) == [code]
    assert switch.under.multicast_groups() == {}


# --- all or nothing


def test_a_batch_rolls_back_whole(switch: Switch) -> None:
    switch.write(
        insert(action_profile_member=member(1)),
        insert(action_profile_group=group(5, 1)),
        insert(table_entry=exact(1, metadata=b"a", counter_data={"packet_count": 3})),
        insert(table_entry=exact(2)),
        insert(table_entry=indirect(10, action_profile_group_id=5)),
        insert(packet_replication_engine_entry={"multicast_group_entry": {"multicast_group_id": 1}}),
    )
    before = list(switch.state.entities(counts=True))
    codes = switch.refused(
        modify(table_entry=exact(1, action={"action": {"action_id": sample.DROP}}, counter_data={})),
        delete(table_entry=exact(2)),
        insert(table_entry=exact(3)),
        insert(action_profile_member=member(2)),
        modify(action_profile_group=group(5, 1, 2)),
        modify(action_profile_member=member(1, port=8)),
        delete(table_entry=indirect(10)),
        delete(action_profile_group=group(5)),
        modify(table_entry=default(sample.EXACT, action={"action": {"action_id": sample.SET_DEFAULT}})),
        modify(counter_entry={"counter_id": sample.COUNTER, "data": {"packet_count": 1}}),
        modify(register_entry={"register_id": sample.REGISTER, "data": {"bitstring": b"\x01"}}),
        modify(meter_entry={"meter_id": sample.METER, "config": {"cir": 1, "pir": 1}}),
        delete(packet_replication_engine_entry={"multicast_group_entry": {"multicast_group_id": 1}}),
        insert(digest_entry={"digest_id": sample.DIGEST, "config": {}}),
        insert(table_entry=exact(1)),
        insert(table_entry=exact(9)),
        atomicity=ROLLBACK,
    )
    assert codes == [rpc_code.ABORTED] * 14 + [rpc_code.ALREADY_EXISTS, rpc_code.ABORTED]

    def in_any_order(updates: list[p4r.Update]) -> list[str]:
        return sorted(str(item) for item in updates)

    assert in_any_order(switch.state.entities(counts=True)) == in_any_order(before)


def test_a_batch_without_errors_stays(switch: Switch) -> None:
    switch.write(insert(table_entry=exact(1)), insert(table_entry=exact(2)), atomicity=ROLLBACK)
    assert len(switch.entries()) == 2


def test_one_shots_roll_back(switch: Switch) -> None:
    switch.write(insert(table_entry=indirect(10, **one_shot(1, 2))))
    switch.refused(
        modify(table_entry=indirect(10, **one_shot(3))),
        delete(table_entry=indirect(10)),
        insert(table_entry=indirect(11, **one_shot(5))),
        delete(table_entry=exact(1)),
        atomicity=ROLLBACK,
    )
    assert switch.entries() == [indirect(10, **one_shot(1, 2))]
    assert [len(item) for item in switch.under.groups("I.selector").values()] == [2]


# --- error details


def test_details_hold_one_error_per_update_even_when_large() -> None:
    switch = Switch(sample.fake())
    with pytest.raises(BatchError) as caught:
        switch.write(*[insert(table_entry={"table_id": 99})] * 600)
    data = caught.value.details()
    assert data is not None
    assert len(data) <= 44 * 1024
    with pytest.raises(BatchError) as caught:
        switch.write(*[insert(table_entry={"table_id": 99})] * 5000)
    assert caught.value.details() is None
    assert "5000 of 5000" in caught.value.message
