"""Table entries and default entries through `Forwarding`, on a fake switch and on the engine."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r, rpc_code

from mrc_common.p4_match import Exact
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.server.forwarding_state import ForwardingState
from p4runtime_shim.server.rpc_errors import BatchError
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.entities import (
    SCHEMA,
    SET,
    Switch,
    default,
    exact,
    kinds,
    set_action,
)
from tests.p4runtime_shim.server.world import delete, insert, modify

# --- table entries


def test_an_entry_is_inserted_modified_read_and_deleted(switch: Switch) -> None:
    entry = exact(metadata=b"cookie", controller_metadata=5)
    switch.write(insert(table_entry=entry))
    assert switch.under.control_plane.table("I.exact_").entries() == [Entry((Exact(1),), SET)]
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


def test_modify_without_an_action_keeps_the_action(switch: Switch) -> None:
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
        (insert(table_entry=exact(meter_counter_data={})), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=kinds(meter_counter_data={"red": {"packet_count": 1}})), rpc_code.INVALID_ARGUMENT),
        (insert(table_entry=exact(counter_data={"packet_count": -1})), rpc_code.INVALID_ARGUMENT),
        (p4r.Update(entity={"table_entry": exact()}), rpc_code.INVALID_ARGUMENT),
        (p4r.Update(type=p4r.Update.INSERT), rpc_code.INVALID_ARGUMENT),
        (insert(extern_entry={}), rpc_code.UNIMPLEMENTED),
        (insert(value_set_entry={}), rpc_code.INVALID_ARGUMENT),
    ],
)
def test_invalid_updates_have_their_status_code_and_change_nothing(
    switch: Switch, update: p4r.Update, code: int
) -> None:
    assert switch.refused(update) == [code]
    assert switch.entries() == []


def test_inserting_twice_keeps_the_first_entry(switch: Switch) -> None:
    switch.write(insert(table_entry=exact(metadata=b"first")))
    assert switch.refused(insert(table_entry=exact(metadata=b"second"))) == [rpc_code.ALREADY_EXISTS]
    assert switch.entries()[0].metadata == b"first"


def test_errors_do_not_stop_the_rest_of_a_batch(switch: Switch) -> None:
    codes = switch.refused(insert(table_entry=exact(1)), insert(table_entry=exact(1)), insert(table_entry=exact(2)))
    assert codes == [0, rpc_code.ALREADY_EXISTS, 0]
    assert len(switch.entries()) == 2


# --- filters


def test_reads_are_filtered(switch: Switch) -> None:
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


def test_invalid_reads_have_their_status_code_and_others_are_answered(switch: Switch) -> None:
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


def test_a_default_entry_is_modified_read_and_reset(switch: Switch) -> None:
    switch.under.control_plane.table("I.exact_").set_default(ActionCall("I.drop"))
    switch.state = ForwardingState(SCHEMA, switch.under.control_plane)
    action = {"action": {"action_id": sample.SET_DEFAULT}}
    switch.write(modify(table_entry=default(sample.EXACT, action=action, metadata=b"m")))
    assert switch.under.control_plane.table("I.exact_").default == ActionCall("I.set_default")
    (read,) = switch.read(table_entry=default(sample.EXACT))
    assert (read.action.action.action_id, read.metadata, read.is_default_action) == (sample.SET_DEFAULT, b"m", True)
    switch.write(modify(table_entry=default(sample.EXACT)))
    assert switch.under.control_plane.table("I.exact_").default == ActionCall("I.drop")
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
def test_invalid_default_entry_updates_are_refused(switch: Switch, update: p4r.Update, code: int) -> None:
    assert switch.refused(update) == [code]
