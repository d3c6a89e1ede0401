"""Batches: all or nothing, and the error of each update, on a fake switch and on the engine."""

from __future__ import annotations

import pytest
from finsy.proto import p4r, rpc_code

from p4runtime_shim.server.rpc_errors import BatchError
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.entities import (
    ROLLBACK,
    Switch,
    default,
    exact,
    group,
    indirect,
    member,
    one_shot,
)
from tests.p4runtime_shim.server.world import delete, insert, modify

# --- all or nothing


def test_a_failed_batch_is_rolled_back_completely(switch: Switch) -> None:
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


def test_a_batch_without_errors_is_applied(switch: Switch) -> None:
    switch.write(insert(table_entry=exact(1)), insert(table_entry=exact(2)), atomicity=ROLLBACK)
    assert len(switch.entries()) == 2


def test_one_shot_groups_are_rolled_back(switch: Switch) -> None:
    switch.write(insert(table_entry=indirect(10, **one_shot(1, 2))))
    switch.refused(
        modify(table_entry=indirect(10, **one_shot(3))),
        delete(table_entry=indirect(10)),
        insert(table_entry=indirect(11, **one_shot(5))),
        delete(table_entry=exact(1)),
        atomicity=ROLLBACK,
    )
    assert switch.entries() == [indirect(10, **one_shot(1, 2))]
    assert [len(item) for item in switch.under.control_plane.profile("I.selector").groups().values()] == [2]


# --- error details


def test_error_details_have_one_error_per_update_even_when_large() -> None:
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
