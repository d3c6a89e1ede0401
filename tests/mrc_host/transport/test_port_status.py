"""Port status updates reach a peer whose word about its own ports is out of date."""

import itertools
from dataclasses import replace

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import CompletionStatus, PortEvent
from mrc_host.wire import control, opcodes
from mrc_host.wire.control import EndpointRequest, EndpointResponse
from tests.mrc_host.nic_world import MS, World, address, connect
from tests.mrc_host.transport.far_end import FarEnd, Packet

SETTINGS = TransportSettings()


def updates(packets: list[Packet]) -> list[Packet]:
    """Port status updates among what was sent."""
    asked = [p for p in packets if p.opcode == opcodes.ENDPOINT_REQUEST]
    return [p for p in asked if control.parse_endpoint_request(p.body, 12).op == control.OP_PORT_STATUS_UPDATE]


def acknowledge(end: FarEnd, update: Packet) -> None:
    stamp = control.parse_endpoint_request(update.body, 12).timestamp
    response = EndpointResponse(control.OP_PORT_STATUS_UPDATE, stamp)
    end.send(control.pack_endpoint_response(update.psn, response), dscp=46, ecn=0)


def settled(planes: int, uplinks: int = 4, reported: int = -1, transport: TransportSettings = SETTINGS) -> FarEnd:
    """A NIC whose updates are answered; its peer has reported the ports in mask `reported` as up."""
    end = FarEnd(planes=planes, uplinks=uplinks, transport=transport)
    acknowledge(end, updates(end.wait(30 * MS))[-1])
    if reported >= 0:
        request = EndpointRequest(control.OP_PORT_STATUS_UPDATE, reported, 0)
        end.send(control.pack_endpoint_request(3, request), dscp=46, ecn=0)
    assert not updates(end.wait(5000 * MS))
    return end


@pytest.mark.parametrize("uplinks", [1, 4])
@pytest.mark.parametrize("deny", [False, True])
@pytest.mark.parametrize("silence", [0, 400 * MS])
def test_a_plane_both_ends_believe_down_recovers_with_all_others_dead(silence: int, deny: bool, uplinks: int) -> None:
    """Its ports come up again, and it works `silence` later; no other plane carries that word."""
    world = World(planes=3, uplinks=uplinks)
    a, b = connect(world)
    world.run(100 * MS)
    for number in (0, 1):
        world.set_port(number, 0, False)
    world.run(100 * MS)
    for one in (a, b):
        reported = [e for e in one.nic.async_events() if isinstance(e, PortEvent) and not e.local]
        assert [(e.port, e.up) for e in reported] == [(0, False)], "each holds the other's word"
    world.faults.dead_planes |= {0, 1} if deny else {0, 1, 2}
    if deny:
        for one, other in ((a, b), (b, a)):
            for ev in one.nic.config.destinations[0].evs:
                if ev >> 10 == 2:
                    one.nic.set_path_denied(address(other.number), ev, True, world.now)
    for number in (0, 1):
        world.set_port(number, 0, True)
    a.write(b, 4096)
    world.run(silence)
    world.faults.dead_planes.discard(0)
    assert world.run(max(200 * MS, silence), until=lambda: bool(a.poll())), "as long again as it was silent"
    assert [c.status for c in a.done] == [CompletionStatus.SUCCESS]
    assert a.buffer[:4096] == b.buffer[:4096]
    world.run(1000 * MS)
    for one in (a, b):
        reported = [e for e in one.nic.async_events() if isinstance(e, PortEvent) and not e.local]
        assert [(e.port, e.up) for e in reported] == [(0, True)]


@pytest.mark.parametrize("seed", range(1, 21))
def test_recovery_time_of_such_a_plane_depends_only_on_its_outage(seed: int) -> None:
    """The port status update may come one turn late, since intervals double; then data waits for no timeout of its own.

    Turns of one plane are as far apart as the time that has passed and one wait a plane. What the word brings may still
    lose its answer to a dead plane: then the next question is due, within the ACK timeout of that moment.
    """
    silence, first = 400 * MS, SETTINGS.port_status_retry
    world = World(planes=3, uplinks=4, seed=seed)
    a, b = connect(world)
    world.run(100 * MS)
    for number in (0, 1):
        world.set_port(number, 0, False)
    world.run(100 * MS)
    world.faults.dead_planes |= {0, 1, 2}
    for number in (0, 1):
        world.set_port(number, 0, True)
    a.write(b, 4096)
    world.run(silence)
    world.faults.dead_planes.discard(0)
    question = 8 * (1024 << 14)  # seven timeouts, then twice and four times as long: asked in between
    assert world.run(silence + 3 * first + question, until=lambda: bool(a.poll())), f"seed {seed}"
    assert a.buffer[:4096] == b.buffer[:4096]


def test_repetitions_rotate_over_planes_with_a_port_and_back_off_per_round() -> None:
    end = settled(planes=5, reported=0b00010)
    start = end.now
    end.nic.port_changed(4, False, end.now)
    sent = updates(end.wait(310 * MS))
    assert sent[0].port == 1, "the first goes where both ends have a port"
    assert len({p.psn for p in sent}) == 1
    assert [(p.time - start) // MS for p in sent] == [0, 10, 20, 30, 40, 60, 80, 100, 120, 160, 200, 240, 280]
    for round_ in (sent[:4], sent[4:8], sent[8:12]):
        assert sorted(p.port for p in round_) == [0, 1, 2, 3], "each plane once a round, and never the one that is down"
    acknowledge(end, sent[-1])
    assert not updates(end.wait(10_000 * MS))


def test_repetitions_continue_at_the_longest_interval_until_answered() -> None:
    end = settled(planes=3, transport=replace(SETTINGS, port_status_max=40 * MS))
    end.nic.port_changed(0, False, end.now)
    end.wait(1000 * MS)
    sent = updates(end.wait(60_000 * MS))
    assert {b.time - a.time for a, b in itertools.pairwise(sent)} == {40 * MS}
    assert {(a.port, b.port) for a, b in itertools.pairwise(sent)} == {(1, 2), (2, 1)}


def test_a_repetition_uses_any_allowed_path_of_its_plane_or_waits() -> None:
    end = settled(planes=2, transport=replace(SETTINGS, port_status_max=10 * MS))
    evs = end.nic.config.destinations[0].evs
    for ev in evs:
        end.nic.set_path_denied(address(1), ev, True, end.now)
    end.nic.port_changed(0, False, end.now)
    assert not end.wait(1000 * MS)
    allowed = {ev for ev in evs if ev >> 10 == 1 and ev & 1}
    for ev in allowed:
        end.nic.set_path_denied(address(1), ev, False, end.now)
    (at_once,) = updates(end.drain())
    assert at_once.ev in allowed
    assert {p.ev for p in updates(end.wait(1000 * MS))} == allowed


def test_a_paused_plane_only_delays_its_own_repetition() -> None:
    end = settled(planes=3)
    end.nic.port_changed(2, False, end.now)
    out: list[Packet] = []
    for _ in range(30):
        end.now += 10 * MS
        end.nic.tick(end.now)
        out += updates(end.drain(ports=(1,)))
    assert len(out) >= 3, "port 0 never asks for a frame"


def test_without_a_queue_pair_updates_are_not_repeated() -> None:
    end = settled(planes=2)
    end.nic.port_changed(1, False, end.now)
    assert len(updates(end.wait(40 * MS))) == 3
    end.nic.destroy_qp(end.qpn, end.now)
    assert not updates(end.wait(10_000 * MS))
