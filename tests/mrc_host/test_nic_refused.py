"""Peers that send to a queue pair that has ended detect it at once, and nobody else can make them believe so."""

from __future__ import annotations

import pytest

from mrc_host.nic import Nic
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpState, QpType
from mrc_host.wire import control, opcodes
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.nic_world import MS, End, World, connect, make_config
from tests.mrc_host.test_nic_lives import SLOT, recorded, reset
from tests.mrc_host.transport.far_end import FAR_QPN, FIRST_IN, FarEnd, Packet

SOON = 5 * MS  # the ACK timeout alone is 16.8 ms, and there are 32 retries


def fails_soon(a: End) -> str:
    world, start = a.world, a.world.now
    assert world.run(60_000 * MS, until=lambda: a.nic.qp_state(a.qpn) is QpState.ERROR)
    assert world.now - start < SOON
    (done,) = a.poll()
    assert done.status is CompletionStatus.REMOTE_OPERATION_ERROR
    return done.reason


def test_a_nic_restart_is_detected_with_the_peers_next_packet() -> None:
    world = World(2, 2, 4)
    a, b = connect(world)
    world.run(5 * MS)
    world.nics[1] = Nic(make_config(1, 2, 2, 4), seed=7)
    a.write(b, SLOT)
    assert "its NIC has restarted" in fails_soon(a)


def test_a_destroyed_queue_pair_is_detected_even_by_an_idle_peer() -> None:
    world = World(2, 2, 4)
    a, b = connect(world, far_capacity=1)
    a.write(b, SLOT, imm=1)
    a.write(b, SLOT, imm=2)  # arrives, and is not completed: the queue is full
    world.run(50 * MS)
    assert len(a.poll()) == 1
    b.nic.destroy_qp(b.qpn, world.now)
    start = world.now
    assert world.run(60_000 * MS, until=lambda: a.nic.qp_state(a.qpn) is QpState.ERROR)
    assert world.now - start < 50 * MS  # the next probe
    assert [c.status for c in a.poll()] == [CompletionStatus.REMOTE_OPERATION_ERROR]


def test_a_reset_is_detected_by_the_other_end() -> None:
    world = World(2, 2, 4)
    a, b = connect(world)
    a.write(b, SLOT)
    world.run(50 * MS)
    a.poll()
    reset(b)
    a.write(b, SLOT)
    assert "NACK 0x19" in fails_soon(a)


def test_early_packets_of_a_connection_being_set_up_are_not_refused() -> None:
    world = World(2, 2, 4)
    a, b = connect(world)
    a.write(b, SLOT)
    world.run(50 * MS)
    reset(a, b)
    a.nic.connect_qp(a.qpn, b.nic.qp_address(b.qpn), world.now)
    a.write(b, SLOT)
    world.run(50 * MS)
    assert a.nic.qp_state(a.qpn) is QpState.RTS
    b.nic.connect_qp(b.qpn, a.nic.qp_address(a.qpn), world.now)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.SUCCESS


def test_a_lost_unexpected_event_nack_is_repeated() -> None:
    end = FarEnd()
    end.segment(0, length=1000, size=500)  # does not fit its message
    assert [p.nack.reason for p in end.drain() if p.opcode == opcodes.NACK] == [control.NACK_UNEXP_EVENT]
    end.pass_time(MS)
    end.segment(3, stamp=77)
    (again,) = [p.nack for p in end.drain() if p.opcode == opcodes.NACK]
    assert (again.reason, again.psn, again.timestamp) == (control.NACK_UNEXP_EVENT, FIRST_IN + 3, 77)
    end.probe(9)
    (again,) = [p.nack for p in end.drain() if p.opcode == opcodes.NACK]
    assert (again.reason, again.psn, again.timestamp) == (control.NACK_UNEXP_EVENT, 9, 7)


def test_spoofed_floods_are_answered_with_few_packets_and_responses_with_none() -> None:
    end = FarEnd()
    end.write(1000)
    (packet,) = end.data()
    qpn, end.qpn = end.qpn, end.qpn ^ 1
    for number in range(1000):
        end.segment(number)
        end.nack(packet, control.NACK_TRIMMED)
        end.ack(1)
        end.sack(0)
    assert len(refusals(end)) == 64
    end.pass_time(10 * MS)
    for number in range(1000):
        end.segment(number)
    assert len(refusals(end)) == 10
    end.qpn = qpn
    end.segment(0)
    assert any(p.opcode == opcodes.SACK or p.opcode == opcodes.TRANSPORT_ACK for p in end.drain())


def refusals(end: FarEnd) -> list[Packet]:
    return [p for p in end.drain() if p.opcode == opcodes.ENDPOINT_REQUEST and p.body[13] == control.OP_NO_QP]


@pytest.mark.parametrize("wrong", ["qpn", "number", "stamp"])
def test_a_nack_for_a_packet_never_sent_is_ignored(wrong: str) -> None:
    end = FarEnd()
    end.write(1000)
    (packet,) = end.data()
    for times in (1, 0):
        claimed = {"qpn": FAR_QPN, "number": packet.psn & 0xFFFF, "stamp": packet.stamp}
        claimed[wrong] += times
        request = control.EndpointRequest(control.OP_NO_QP, claimed["qpn"], claimed["stamp"])
        end.send(control.pack_endpoint_request(claimed["number"], request), dscp=46, ecn=0)
        assert (end.nic.qp_state(end.qpn) is QpState.ERROR) == (not times)


def test_rc_does_not_answer_for_unknown_queue_pairs() -> None:
    """As RoCE NICs are: the requester's retries run out."""
    world = World(2, 2, 4)
    a, b = connect(world, kind=QpType.RC, attributes=QpAttributes(timeout=8, retry_count=3))
    world.run(50 * MS)
    b.nic.destroy_qp(b.qpn, world.now)
    frames = recorded(world)
    a.write(b, SLOT)
    assert world.run(5000 * MS, until=lambda: a.nic.qp_state(a.qpn) is QpState.ERROR)
    assert a.poll()[0].status is CompletionStatus.RETRY_EXCEEDED
    assert not [f for f in frames if f[0] == 1 and f[2][SRV6_PREFIX] == opcodes.ENDPOINT_REQUEST]
