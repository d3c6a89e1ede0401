"""Queue pairs that keep to some of the planes: data, answers, windows, and what happens when these planes are gone."""

from __future__ import annotations

import pytest

from mrc_host.config import TransportSettings
from mrc_host.errors import InvalidArgumentError, UnknownDestinationError
from mrc_host.verbs_types import (
    ALL_PLANES,
    CompletionStatus,
    EvMode,
    EvProfile,
    QpAddress,
    QpAttributes,
    QpState,
    QpType,
)
from tests.mrc_host.nic_world import INNER, MS, End, World, address, connect

FIRST, SECOND = 1 << 0, 1 << 1
BTH_AFTER_IP, QPN_IN_BTH = 48, 5  # an IPv6 and a UDP header; opcode, flags, P_Key and a reserved byte


def planes_used(world: World, sender: End, receiver: End) -> set[int]:
    """Planes of what a NIC has sent to a queue pair: data or answers, but nothing that is between the NICs."""
    used = set()
    for _time, nic, port, frame in world.sent:
        at = (INNER if frame[20] == 41 else 14) + BTH_AFTER_IP + QPN_IN_BTH
        if nic == sender.number and frame[at : at + 3] == receiver.qpn.to_bytes(3, "big"):
            used.add(port)
    return used


@pytest.mark.parametrize("kind", QpType)
def test_data_and_answers_keep_to_the_planes(kind: QpType) -> None:
    world = World(planes=3, uplinks=4)
    one, two = connect(world, kind=kind, attributes=QpAttributes(planes=SECOND))
    world.record = True
    for _ in range(20):
        one.write(two, 1 << 16)
    assert world.run(until=one.idle)
    assert planes_used(world, one, two) == planes_used(world, two, one) == {1}


@pytest.mark.parametrize("kind", [QpType.MRC, QpType.UET])
def test_several_planes_take_turns(kind: QpType) -> None:
    world = World(planes=4, uplinks=4)
    one, two = connect(world, kind=kind, attributes=QpAttributes(planes=0b1010))
    world.record = True
    for _ in range(20):
        one.write(two, 1 << 16)
    assert world.run(until=one.idle)
    assert planes_used(world, one, two) == planes_used(world, two, one) == {1, 3}


def test_a_dark_plane_fails_the_queue_pair_that_has_no_other() -> None:
    world = World(planes=2, uplinks=4)
    attributes = QpAttributes(timeout=4, retry_count=7)
    bound, far = connect(world, attributes=QpAttributes(timeout=4, retry_count=7, planes=SECOND))
    free, other = connect(world, attributes=attributes)
    world.faults.dead_planes = {1}
    bound.write(far, 4096)
    for _ in range(20):
        free.write(other, 1 << 16)
    assert world.run(until=lambda: free.idle() and bool(bound.poll()))
    assert bound.done[0].status is CompletionStatus.RETRY_EXCEEDED
    assert {completion.status for completion in free.done} == {CompletionStatus.SUCCESS}


def test_a_port_without_a_link_fails_it_too_and_one_that_returns_in_time_does_not() -> None:
    world = World(planes=2, uplinks=4)
    one, two = connect(world, attributes=QpAttributes(timeout=8, retry_count=7, planes=SECOND))
    world.set_port(0, 1, False)
    one.write(two, 4096)
    world.run(1 * MS)
    assert not one.poll()
    world.set_port(0, 1, True)
    assert world.run(until=one.idle)
    assert one.done[0].status is CompletionStatus.SUCCESS
    world.set_port(1, 1, False)
    one.write(two, 4096)
    assert world.run(until=lambda: len(one.done) == 2 or bool(one.poll()))
    assert one.done[1].status is CompletionStatus.RETRY_EXCEEDED


def test_an_end_that_keeps_to_a_plane_works_with_one_that_does_not() -> None:
    world = World(planes=2, uplinks=4)
    one, two = connect(world, attributes=QpAttributes(planes=SECOND), far_attributes=QpAttributes())
    world.record = True
    for _ in range(20):
        one.write(two, 1 << 16)
        two.write(one, 1 << 16)
    assert world.run(until=lambda: one.idle() and two.idle())
    assert planes_used(world, one, two) == {1}
    assert planes_used(world, two, one) == {0, 1}


def test_probes_are_answered_on_the_planes_of_who_answers_wherever_they_arrive() -> None:
    world = World(planes=2, uplinks=4)
    one, two = connect(world, attributes=QpAttributes(timeout=10), far_attributes=QpAttributes(planes=SECOND))
    world.faults.dead_planes = {1}  # so that answers are lost, and probes are sent on both planes
    world.record = True
    one.write(two, 4096)
    world.run(1 * MS)
    assert planes_used(world, one, two) == {0, 1}
    assert planes_used(world, two, one) == {1}
    world.faults.dead_planes = set()
    assert world.run(until=one.idle)
    assert one.done[0].status is CompletionStatus.SUCCESS


@pytest.mark.parametrize("kind", QpType)
def test_a_life_keeps_to_its_planes_though_an_earlier_one_is_still_queued_at_another(kind: QpType) -> None:
    world = World(planes=2, uplinks=4)
    one, two = connect(world, kind=kind, attributes=QpAttributes(planes=SECOND))
    for _ in range(3):
        one.write(two, 1 << 16)
    assert one.qp.data_mask == SECOND
    for end in (one, two):
        end.nic.modify_qp(end.qpn, QpState.RESET, world.now)
    for end, other in ((one, two), (two, one)):
        remote = other.nic.qp_address(other.qpn)
        end.nic.modify_qp(end.qpn, QpState.INIT, world.now)
        end.nic.modify_qp(end.qpn, QpState.RTR, world.now, {"planes": FIRST}, remote=remote)
        end.nic.modify_qp(end.qpn, QpState.RTS, world.now)
    one.poll()
    world.record = True
    sent = one.write(two, 1 << 16)
    assert world.run(until=lambda: sent in {completion.wr_id for completion in one.poll()})
    assert planes_used(world, one, two) == planes_used(world, two, one) == {0}


def test_congestion_windows_are_shared_within_the_same_planes() -> None:
    world = World(planes=2, uplinks=4, transport=TransportSettings(congestion="nscc", base_rtt=200_000))
    ends = [connect(world, attributes=QpAttributes(planes=planes))[0] for planes in (1, 1, 2, ALL_PLANES)]
    first, second, third, fourth = (end.qp.requester.window.shared for end in ends)
    assert first is second
    assert len({id(first), id(third), id(fourth)}) == 3
    assert third.cc.cwnd == fourth.cc.cwnd // 2, "of one plane's rate"


def test_planes_that_lead_nowhere_are_refused() -> None:
    world = World(planes=2, uplinks=4)
    nic = world.nics[0]
    cq = nic.create_cq(8)
    with pytest.raises(InvalidArgumentError, match="planes must be between 1 and"):
        nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes(planes=0))
    qpn = nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes(planes=0b100))
    with pytest.raises(UnknownDestinationError, match="in the planes 0b100"):
        nic.connect_qp(qpn, QpAddress(address(1), 99, 0), world.now)
    number = nic.control.create_ev_profile(EvProfile(EvMode.EXPLICIT, evs=(0, 1)))
    qpn = nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes(planes=SECOND, ev_profile=number))
    with pytest.raises(InvalidArgumentError, match="None of the entropy values"):
        nic.connect_qp(qpn, QpAddress(address(1), 99, 0), world.now)
    assert nic.qp_state(qpn) is QpState.RESET
