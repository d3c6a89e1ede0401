"""Verdicts: clone, multicast, resubmit, recirculate, truncate, drop, exit, and what metadata survive (copies.p4)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from p4runtime_shim.entities import CloneSession, Replica
from p4runtime_shim.errors import InvalidArgument
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.traffic_manager import QueueConfig
from tests.p4runtime_shim import programs
from tests.seeds import SEED

NORMAL, INGRESS_CLONE, EGRESS_CLONE, RECIRC, REPLICATION, RESUBMIT = 0, 1, 2, 4, 5, 6


@dataclass(frozen=True)
class Seen:
    """A packet that came out: the request, and what egress reported."""

    port: int
    value: int
    instance: int
    kept: int
    rid: int
    length: int
    passes: int
    ingress_port: int
    payload: bytes


@pytest.fixture
def switch() -> Iterator[EmbeddedSwitch]:
    with EmbeddedSwitch(programs.pipeline("copies"), ports=range(8), seed=0) as made:
        yield made


def send(switch: EmbeddedSwitch, what: int, argument: int = 1, value: int = 0, payload: bytes = b"0123456789") -> None:
    switch.receive(3, bytes([what, argument]) + value.to_bytes(2, "big") + payload, 0)


def drain(switch: EmbeddedSwitch) -> list[bytes]:
    """All frames, by port and then in order."""
    frames: list[tuple[int, bytes]] = []
    while ports := switch.ready():
        for port in ports:
            while (frame := switch.transmit(port, 0)) is not None:
                frames.append((port, frame))
    return [bytes([port]) + frame for port, frame in sorted(frames, key=lambda item: item[0])]


def outcome(switch: EmbeddedSwitch) -> list[Seen]:
    """The frames with their reports decoded."""
    seen = []
    for item in drain(switch):
        port, frame = item[0], item[1:]
        report = frame[4:15]
        seen.append(
            Seen(
                port=port,
                value=int.from_bytes(frame[2:4], "big"),
                instance=report[0],
                kept=report[1],
                rid=int.from_bytes(report[2:4], "big"),
                length=int.from_bytes(report[4:8], "big"),
                passes=report[8],
                ingress_port=int.from_bytes(report[9:11], "big") & 0x1FF,
                payload=frame[15:],
            )
        )
    return seen


def test_a_packet_passes_both_pipelines(switch: EmbeddedSwitch) -> None:
    send(switch, 0, argument=2, value=5)
    assert outcome(switch) == [Seen(2, 5, NORMAL, 0, 0, 14, 1, 3, b"0123456789")]


def test_ingress_clone_has_the_original_packet_and_the_preserved_fields(switch: EmbeddedSwitch) -> None:
    switch.control_plane.replication.session_set(5, CloneSession((Replica(4, 9),)))
    send(switch, 1, value=0x1234)
    plain, clone = outcome(switch)
    assert plain == Seen(1, 0xAAAA, NORMAL, 11, 0, 14, 1, 3, b"0123456789")
    assert clone == Seen(4, 0x1234, INGRESS_CLONE, 11, 9, 14, 0, 0, b"0123456789")


def test_egress_clone_has_the_changed_headers(switch: EmbeddedSwitch) -> None:
    switch.control_plane.replication.session_set(6, CloneSession((Replica(5),)))
    send(switch, 2)
    plain, clone = outcome(switch)
    assert (plain.port, plain.value, plain.instance) == (1, 0xCCCC, NORMAL)
    assert (clone.port, clone.value, clone.instance, clone.kept) == (5, 0xCCCC, EGRESS_CLONE, 22)
    assert clone.payload == b"0123456789"


def test_clones_go_to_several_ports_and_are_truncated(switch: EmbeddedSwitch) -> None:
    switch.control_plane.replication.session_set(5, CloneSession((Replica(4, 1), Replica(5, 2)), max_length=17))
    send(switch, 1)
    plain, *clones = outcome(switch)
    assert len(plain.payload) == 10
    assert [(clone.port, clone.rid, clone.payload) for clone in clones] == [(4, 1, b"01"), (5, 2, b"01")]


def test_clone_without_session_is_counted(switch: EmbeddedSwitch) -> None:
    send(switch, 1)
    assert [item.port for item in outcome(switch)] == [1]
    assert switch.stats().drops["no_session"] == 1


def test_multicast_replicates_to_all_ports_of_the_group(switch: EmbeddedSwitch) -> None:
    switch.control_plane.replication.group_set(7, (Replica(2, 20), Replica(4, 40), Replica(2, 21)))
    send(switch, 3, value=7)
    assert [(item.port, item.rid, item.instance) for item in outcome(switch)] == [
        (2, 20, REPLICATION),
        (2, 21, REPLICATION),
        (4, 40, REPLICATION),
    ]
    switch.control_plane.replication.group_delete(7)
    send(switch, 3, value=7)
    assert outcome(switch) == []
    assert switch.stats().drops["no_group"] == 1


def test_groups_are_found_whatever_others_came_and_went(switch: EmbeddedSwitch) -> None:
    rng = random.Random(SEED)
    print("seed", SEED)
    groups: dict[int, int] = {}  # the instance of its only replica
    for step in range(2000):
        group = rng.randrange(1, 200)
        if group in groups and rng.random() < 0.6:
            switch.control_plane.replication.group_delete(group)
            del groups[group]
        else:
            switch.control_plane.replication.group_set(group, [Replica(1, step)])
            groups[group] = step
        asked = rng.randrange(1, 200)
        send(switch, 3, value=asked)
        assert [seen.rid for seen in outcome(switch)] == [groups[item] for item in (asked,) if item in groups]
    assert 20 < len(groups) < 180


def test_a_backup_replica_serves_while_the_port_is_down(switch: EmbeddedSwitch) -> None:
    def places() -> list[tuple[int, int]]:
        send(switch, 3, value=7)
        return [(item.port, item.rid) for item in outcome(switch)]

    backups = (Replica(1, 21), Replica(4, 22))
    switch.control_plane.replication.group_set(
        7, (Replica(2, 20, backups), Replica(1, 10), Replica(4, 40, (Replica(2, 41),)))
    )
    assert places() == [(1, 10), (2, 20), (4, 40)]
    switch.port_changed(2, False, 0)
    assert places() == [(1, 10), (1, 21), (4, 40)] or places() == [(1, 21), (1, 10), (4, 40)]
    switch.port_changed(1, False, 0)
    assert places() == [(4, 22), (4, 40)]
    switch.port_changed(4, False, 0)
    assert places() == []  # each is dropped at its own port
    assert switch.stats().drops["port_down"] >= 3
    for port in (1, 2, 4):
        switch.port_changed(port, True, 0)
    assert places() == [(1, 10), (2, 20), (4, 40)]
    with pytest.raises(InvalidArgument, match="no backups of its own"):
        switch.control_plane.replication.group_set(7, (Replica(2, 0, (Replica(1, 0, (Replica(4),)),)),))


def test_resubmit_restarts_with_preserved_fields_only(switch: EmbeddedSwitch) -> None:
    send(switch, 4, value=0x0101)
    (item,) = outcome(switch)
    # instance_type becomes NORMAL again when the packet is queued, as in BMv2; two passes through ingress were counted.
    assert item == Seen(1, 0x0101, NORMAL, 44, 0, 14, 2, 0, b"0123456789")


@pytest.mark.parametrize("what", [4, 5])
def test_a_packet_passes_again_in_its_own_buffer(what: int) -> None:
    queues = QueueConfig(buffer_packets=1)
    with EmbeddedSwitch(programs.pipeline("copies"), ports=range(8), seed=0, queues=queues) as switch:
        send(switch, what, value=7)
        assert [(seen.kept, seen.passes) for seen in outcome(switch)] == [(11 * what, 2)]
        assert switch.stats().drops["no_buffer"] == 0


def test_recirculate_uses_the_deparsed_packet(switch: EmbeddedSwitch) -> None:
    send(switch, 5, argument=2)
    (item,) = outcome(switch)
    assert item == Seen(2, 0xDDDD, NORMAL, 55, 0, 14, 2, 0, b"0123456789")


def test_truncate_counts_headers_added_in_egress(switch: EmbeddedSwitch) -> None:
    send(switch, 6, value=17)
    (frame,) = drain(switch)
    assert len(frame) == 1 + 17
    assert frame[-2:] == b"01"


def test_truncate_longer_than_the_packet_changes_nothing(switch: EmbeddedSwitch) -> None:
    send(switch, 6, value=1000)
    assert outcome(switch)[0].payload == b"0123456789"


def test_drops_are_counted_by_reason(switch: EmbeddedSwitch) -> None:
    send(switch, 7)
    assert outcome(switch) == []
    send(switch, 0, argument=200)  # egress_spec without a port of that number
    send(switch, 0, argument=3)
    switch.receive(7, b"", 0)
    switch.receive(7, bytes(20000), 0)
    switch.receive(99, b"1234", 0)
    assert [item.port for item in outcome(switch)] == [3]
    drops = switch.stats().drops
    assert {reason: count for reason, count in drops.items() if count} == {
        "egress": 1,
        "no_port": 2,
        "frame_size": 2,
    }


def test_exit_ends_pipeline_processing(switch: EmbeddedSwitch) -> None:
    send(switch, 8, argument=2)
    assert [item.port for item in outcome(switch)] == [2]  # the assignments after exit did not run


def test_endless_resubmission_is_cut_off(switch: EmbeddedSwitch) -> None:
    send(switch, 9)
    assert outcome(switch) == []
    assert switch.stats().drops["loop_limit"] == 1


def test_short_packets_are_parsed_as_far_as_possible(switch: EmbeddedSwitch) -> None:
    switch.receive(3, b"\x00", 0)
    (frame,) = drain(switch)
    # the request header is invalid, so egress_spec is that of a zero field: port 0; the report stands before the byte
    assert frame[0] == 0
    assert frame[-1:] == b"\x00"


def test_a_down_port_runs_egress_and_drops(switch: EmbeddedSwitch) -> None:
    send(switch, 0, argument=2)
    switch.port_changed(2, False, 0)
    send(switch, 0, argument=2)
    assert switch.transmit(2, 0) is None
    stats = switch.stats()
    assert stats.drops["port_down"] == 2
    assert (stats.ports[2].down_drops, stats.ports[2].up) == (2, False)
    switch.receive(2, bytes(10), 0)
    assert switch.stats().drops["port_down"] == 3
    switch.port_changed(2, True, 0)
    send(switch, 0, argument=2)
    assert len(outcome(switch)) == 1


def test_the_packet_pool_runs_out_and_recovers() -> None:
    queues = QueueConfig(max_packets=0, buffer_packets=5)
    with EmbeddedSwitch(programs.pipeline("copies"), ports=range(8), seed=0, queues=queues) as switch:
        for _ in range(8):
            send(switch, 0, argument=2)
        assert switch.stats().drops["no_buffer"] == 3
        assert len(outcome(switch)) == 5
        for _ in range(5):
            send(switch, 0, argument=2)
        assert len(outcome(switch)) == 5


def test_frames_without_a_program_are_dropped_and_counted() -> None:
    with EmbeddedSwitch(None, ports=[1], seed=0) as switch:
        switch.receive(1, b"12345678", 0)
        assert switch.transmit(1, 0) is None
        assert switch.stats().drops["no_pipeline"] == 1
        switch.set_pipeline(programs.pipeline("copies"))
        switch.receive(1, bytes([0, 1]) + bytes(8), 0)
        assert len(outcome(switch)) == 1
        switch.receive(1, bytes([0, 1]) + bytes(8), 0)
        switch.set_pipeline(None)  # with a packet queued
        assert switch.transmit(1, 0) is None
