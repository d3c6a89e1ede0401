"""Multicast groups and clone sessions, on a fake switch and on the engine."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r, rpc_code

from p4runtime_shim.entities import Replica
from tests.p4runtime_shim.server.entities import (
    Switch,
)
from tests.p4runtime_shim.server.world import delete, insert


def test_multicast_groups_and_clone_sessions_are_written_and_read(switch: Switch) -> None:
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
    assert switch.under.control_plane.replication.groups == {1: (Replica(1, 1), Replica(2, 0))}
    assert switch.under.control_plane.replication.sessions[7].max_length == 64
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
    assert switch.under.control_plane.replication.groups == {}
    assert switch.under.control_plane.replication.sessions == {}


def backed_up(first: bytes, second: bytes) -> dict[str, Any]:
    """A group with a replica to port 1 and two backups, and a replica to port 2."""
    backups = [{"port": first, "instance": 5}, {"port": second, "instance": 5}]
    replicas = [{"port": b"\x01", "backup_replicas": backups}, {"port": b"\x02", "instance": 5}]
    return {"multicast_group_entry": {"multicast_group_id": 1, "replicas": replicas}}


def test_backup_replicas_are_written_and_read(switch: Switch) -> None:
    switch.write(insert(packet_replication_engine_entry=backed_up(b"\x00\x04", b"\x03")))
    backups = (Replica(4, 5), Replica(3, 5))
    assert switch.under.control_plane.replication.groups == {1: (Replica(1, 0, backups), Replica(2, 5))}
    (found,) = switch.read(packet_replication_engine_entry={})
    assert found == p4r.PacketReplicationEngineEntry(**backed_up(b"\x04", b"\x03"))


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
        (backed_up(b"\x01", b"\x01"), rpc_code.INVALID_ARGUMENT),
        (backed_up(b"\x02", b"\x02"), rpc_code.INVALID_ARGUMENT),
        (backed_up(b"\x03", b"\x02\x00"), rpc_code.OUT_OF_RANGE),
        (backed_up(b"\x03", b""), rpc_code.OUT_OF_RANGE),
        ({"clone_session_entry": {"session_id": 0}}, rpc_code.INVALID_ARGUMENT),
        ({"clone_session_entry": {"session_id": 1, "class_of_service": 1}}, rpc_code.UNIMPLEMENTED),
        ({}, rpc_code.INVALID_ARGUMENT),
    ],
)
def test_invalid_replication_entries_are_refused(switch: Switch, entry: dict[str, Any], code: int) -> None:
    assert switch.refused(insert(packet_replication_engine_entry=entry)) == [code]
    assert switch.under.control_plane.replication.groups == {}
