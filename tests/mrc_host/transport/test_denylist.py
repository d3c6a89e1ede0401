"""What a controller forbids carries no answers, and these find another way or wait."""

import pytest

from mrc_host.transport.denylist import Denylist
from mrc_host.verbs_types import CompletionStatus, PathReason, QpAttributes, QpEvent, QpState
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import EndpointRequest
from tests.mrc_host.nic_world import MS, World, address, connect
from tests.mrc_host.transport.far_end import FIRST_IN, FIRST_OUT, FarEnd, Packet

PATHS = 4  # a plane


def deny(end: FarEnd, *evs: int, denied: bool = True) -> None:
    for ev in evs:
        end.nic.set_path_denied(address(1), ev, denied, end.now)


def plane(number: int) -> range:
    """Entropy values of a plane's paths."""
    return range(number << 10, (number << 10) + PATHS)


def receive(end: FarEnd, psn: int) -> None:
    """The NIC gets a packet that asks for an answer."""
    end.segment(psn, msn=psn, flags=headers.ACK_REQUEST)


def sacks(packets: list[Packet]) -> list[Packet]:
    return [packet for packet in packets if packet.opcode == opcodes.SACK]


def probed(packets: list[Packet]) -> list[Packet]:
    return [
        packet
        for packet in packets
        if packet.opcode == opcodes.ENDPOINT_REQUEST
        and control.parse_endpoint_request(packet.body, 12).op == control.OP_EV_PROBE
    ]


def answer(end: FarEnd, probe: Packet) -> None:
    request = control.parse_endpoint_request(probe.body, 12)
    response = control.EndpointResponse(request.op, request.timestamp)
    end.send(control.pack_endpoint_response(probe.psn, response), plane=probe.port, dscp=46, ecn=0)


def test_a_plane_is_usable_while_one_of_its_paths_is_allowed() -> None:
    members = [[0, 1], [2], []]
    denylist = Denylist(3)
    assert denylist.open(0b011, members) == 0b011
    for index, number in ((0, 0), (0, 0), (2, 1)):
        denylist.set(index, number, True)
    assert list(denylist) == [0, 2]
    assert denylist.open(0b011, members) == 0b001, "the same path twice is one path"
    denylist.set(1, 0, True)
    assert denylist.open(0b011, members) == 0
    for _ in range(2):
        denylist.set(2, 1, False)
    assert denylist.open(0b011, members) == 0b010
    assert denylist.open(0b001, members) == 0


def test_acks_are_sent_at_once_with_all_paths_of_a_plane_denied() -> None:
    end = FarEnd(planes=4, uplinks=PATHS)
    deny(end, *plane(1), *plane(2), *plane(3)[1:])
    allowed = {*plane(0), plane(3)[0]}
    for psn in range(50):
        receive(end, psn)
        (sack,) = sacks(end.drain())
        assert sack.sack.cack_psn == FIRST_IN + psn
        assert sack.ev in allowed
        end.wait(MS)


def test_endpoint_requests_are_answered_with_all_paths_of_a_plane_denied() -> None:
    end = FarEnd(planes=2, uplinks=PATHS)
    deny(end, *plane(1))
    for number in range(20):
        end.send(control.pack_endpoint_request(number, EndpointRequest(control.OP_EV_PROBE, 0, 0)), dscp=46, ecn=0)
        (response,) = end.only(opcodes.ENDPOINT_RESPONSE)
        assert response.port == 0


@pytest.mark.parametrize("number", [0, 1])
def test_a_queued_ack_moves_to_another_plane_when_its_plane_is_denied(number: int) -> None:
    end = FarEnd(planes=2, uplinks=PATHS)
    for psn in range(20):
        receive(end, psn)  # the port of the answer is settled, but nothing has left yet
        deny(end, *plane(number))
        (sack,) = sacks(end.drain())
        assert sack.port == 1 - number
        deny(end, *plane(number), denied=False)
        end.wait(MS)


def test_acks_wait_while_all_paths_are_denied_and_leave_once_one_is_allowed() -> None:
    end = FarEnd(planes=2, uplinks=PATHS)
    deny(end, *plane(0), *plane(1))
    receive(end, 0)
    end.send(control.pack_endpoint_request(7, EndpointRequest(control.OP_EV_PROBE, 0, 0)), dscp=46, ecn=0)
    assert not end.wait(1000 * MS)
    deny(end, 0x402, denied=False)
    out = end.drain()
    assert {packet.opcode for packet in out} >= {opcodes.SACK, opcodes.ENDPOINT_RESPONSE}
    assert {packet.ev for packet in out} == {0x402}


def test_a_plane_with_only_bad_and_denied_paths_carries_no_acks() -> None:
    end = FarEnd(planes=2, uplinks=PATHS)
    end.write(8 * 4096)
    victim = next(packet for packet in end.data() if packet.port == 1)
    end.sack(victim.psn - FIRST_OUT - 1, of=victim, mark=control.MARK_ALWAYS_SKIP)
    deny(end, *(ev for ev in plane(1) if ev != victim.ev))
    for psn in range(20):
        receive(end, psn)
        (sack,) = sacks(end.drain())
        assert sack.port == 0


def test_reverse_paths_are_not_probed_while_denied_and_used_again_once_allowed() -> None:
    end = FarEnd(planes=2, uplinks=PATHS)
    out: list[Packet] = []
    for psn in range(300):  # probes on plane 1 are lost: it is distrusted
        receive(end, psn)
        new = end.wait(MS)
        for probe in probed(new):
            if probe.port == 0:
                answer(end, probe)
        out += new
    assert {sack.port for sack in sacks(out[-20:])} == {0}
    deny(end, *plane(1))
    out.clear()
    for psn in range(300, 500):
        receive(end, psn)
        new = end.wait(MS)
        for probe in probed(new):
            answer(end, probe)
        out += new
    assert probed(out)
    assert {probe.port for probe in probed(out)} == {0}
    deny(end, 0x401, denied=False)
    out.clear()
    for psn in range(500, 520):
        receive(end, psn)
        out += sacks(end.drain())
    assert {sack.ev for sack in out if sack.port == 1} == {0x401}


@pytest.mark.parametrize(("planes", "uplinks"), [(8, 1), (3, 1), (3, 4)])
def test_one_allowed_reverse_path_is_enough_to_avoid_timeouts(planes: int, uplinks: int) -> None:
    world = World(planes=planes, uplinks=uplinks)
    a, b = connect(world, size=1 << 16)
    evs = [number << 10 | uplink for number in range(planes) for uplink in range(uplinks)]
    for ev in evs[1:]:
        b.nic.set_path_denied(address(0), ev, True, world.now)
    for _ in range(10):
        a.write(b, 1 << 16)
        assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    for ev in evs[1:]:
        b.nic.set_path_denied(address(0), ev, False, world.now)
    b.nic.set_path_denied(address(0), evs[0], True, world.now)
    for _ in range(10):
        a.write(b, 1 << 16)
        assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert a.nic.qp_counters(a.qpn).timeouts == 0
    assert a.nic.qp_counters(a.qpn).retransmitted == 0


@pytest.mark.parametrize("posted", ["before", "after"])
def test_a_request_fails_when_all_paths_stay_denied(posted: str) -> None:
    """With nothing on the way there is still a timer: a retry budget later the request fails."""
    world = World(planes=2, uplinks=2)
    a, b = connect(world, size=1 << 16, attributes=QpAttributes(retry_count=7, congestion_window=4096))
    world.run(5 * MS)
    a.nic.async_events()
    evs = (0, 1, 1 << 10, 1 << 10 | 1)
    if posted == "before":
        a.write(b, 512, imm=1)
        world.run(5 * MS, until=lambda: a.nic.qp_counters(a.qpn).acks_received > 0)
        a.poll()
    for ev in evs:
        a.nic.set_path_denied(address(1), ev, True, world.now)
    a.write(b, 512)
    assert world.run(1000 * MS, until=lambda: a.nic.qp_state(a.qpn) is QpState.ERROR)
    (failed,) = [done for done in a.poll() if done.status is not CompletionStatus.SUCCESS]
    assert failed.status is CompletionStatus.RETRY_EXCEEDED
    assert "denied" in failed.reason
    assert any(isinstance(event, QpEvent) for event in a.nic.async_events())


def test_a_request_is_sent_when_a_path_is_allowed_in_time() -> None:
    world = World(planes=2, uplinks=2)
    a, b = connect(world, size=1 << 16, attributes=QpAttributes(retry_count=7))
    evs = (0, 1, 1 << 10, 1 << 10 | 1)
    for ev in evs:
        a.nic.set_path_denied(address(1), ev, True, world.now)
    a.write(b, 1 << 16)
    world.run(10 * MS)
    assert not a.poll()
    a.nic.set_path_denied(address(1), evs[2], False, world.now)
    assert world.run(100 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.SUCCESS
    assert bytes(b.buffer) == bytes(a.buffer)


def test_data_uses_bad_paths_rather_than_wait_for_a_denied_plane() -> None:
    """Every path of plane 0 is denied and every other one bad: data tries the bad ones and waits for no denied one."""
    world = World(planes=2, uplinks=2)
    a, b = connect(world, size=1 << 16)
    for ev in (0, 1):
        a.nic.set_path_denied(address(1), ev, True, world.now)
    paths = a.qp.requester.paths
    for index in (2, 3):
        paths.retire(index, PathReason.LOSS, None, world.now)
    a.write(b, 1 << 16)
    assert world.run(20 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.SUCCESS
