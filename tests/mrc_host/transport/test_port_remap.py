"""With `port_remap` a NIC whose port loses its link sends nothing for that time, and only then leaves the port."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrc_host.config import PausePriorities, TransportSettings
from mrc_host.nic import Nic
from mrc_host.verbs_types import CompletionStatus, PortEvent, QpAttributes, QpType
from mrc_host.wire import pause
from tests.mrc_host.nic_world import MS, End, World, connect, make_config

REMAP = 2 * MS
SETTINGS = TransportSettings(port_remap=REMAP)


def busy_pair(planes: int = 2, kind: QpType = QpType.MRC) -> tuple[World, End, End]:
    """Two NICs in the middle of a write of 200 kB from the first to the second."""
    world = World(planes=planes, transport=SETTINGS)
    world.record = True
    a, b = connect(world, kind=kind, attributes=QpAttributes(retry_count=32))
    a.write(b, 200_000)
    world.run(duration=25_000)
    assert not a.poll()
    return world, a, b


def times(world: World, number: int = 0) -> list[int]:
    """When a NIC sent anything."""
    return [time for time, nic, _, _ in world.sent if nic == number]


def data_port(world: World) -> int:
    """The port on which the first NIC sent its latest data."""
    return [port for _, nic, port, frame in world.sent if nic == 0 and len(frame) > 500][-1]


def port_events(world: World, number: int) -> list[tuple[int, bool, bool]]:
    """Time, state and whether it is a port of its own, of a NIC's port events."""
    events = world.nics[number].async_events()
    return [(event.time, event.up, event.local) for event in events if isinstance(event, PortEvent)]


@pytest.mark.parametrize("kind", [QpType.MRC, QpType.RC])
def test_nothing_leaves_the_nic_until_it_has_left_the_port(kind: QpType) -> None:
    world, a, b = busy_pair(kind=kind)
    cut = world.now
    world.set_port(0, 1 - data_port(world), False)
    assert world.run(until=a.idle)
    assert a.done[0].status is CompletionStatus.SUCCESS
    assert b.buffer[:200_000] == a.buffer[:200_000]
    assert not [time for time in times(world) if cut < time < cut + REMAP]
    assert port_events(world, 0) == [(cut + REMAP, False, True)]
    told = port_events(world, 1)
    assert [event[1:] for event in told] == ([(False, False)] if kind is QpType.MRC else [])
    assert all(cut + REMAP < time < cut + REMAP + MS for time, _, _ in told)


def test_a_link_that_is_back_in_time_has_only_cost_the_silence() -> None:
    world, a, b = busy_pair()
    cut = world.now
    world.set_port(0, 1, False)
    world.at(cut + REMAP // 2, lambda: world.set_port(0, 1, True))
    assert world.run(until=a.idle)
    assert b.buffer[:200_000] == a.buffer[:200_000]
    assert not [time for time in times(world) if cut < time < cut + REMAP]
    assert port_events(world, 0) == []
    assert port_events(world, 1) == []
    assert world.nics[0].port_counters()[1]["link_downed"] == 0


def test_a_second_port_begins_the_time_anew_for_both() -> None:
    world, a, b = busy_pair(planes=3)
    cut = world.now
    world.set_port(0, 1, False)
    world.at(cut + REMAP // 2, lambda: world.set_port(0, 2, False))
    world.run(duration=2 * REMAP)
    assert a.idle()
    assert b.buffer[:200_000] == a.buffer[:200_000]
    assert not [time for time in times(world) if cut < time < cut + 3 * REMAP // 2]
    assert port_events(world, 0) == [(cut + 3 * REMAP // 2, False, True)] * 2


def test_a_peer_that_sends_meanwhile_gets_no_answer_and_goes_on_afterwards() -> None:
    world, a, b = busy_pair()
    assert world.run(until=a.idle)
    cut = world.now
    world.set_port(1, 0, False)
    a.write(b, 200_000)
    assert world.run(until=a.idle)
    assert [entry.status for entry in a.done] == [CompletionStatus.SUCCESS] * 2
    assert world.now > cut + REMAP
    assert not [time for time in times(world, 1) if cut < time < cut + REMAP]
    assert b.buffer[:200_000] == a.buffer[:200_000]


def test_a_nic_that_lost_all_ports_is_silent_until_they_are_back() -> None:
    world, a, _b = busy_pair()
    for port in range(2):
        world.set_port(0, port, False)
    back = world.now + 3 * REMAP
    for port in range(2):
        world.at(back, lambda port=port: world.set_port(0, port, True))  # type: ignore[misc]
    assert world.run(until=a.idle)
    assert a.done[0].status is CompletionStatus.SUCCESS
    assert world.now > back


def test_a_pause_that_ends_meanwhile_ends_no_silence_and_one_that_lasts_outlives_it() -> None:
    world = World(planes=2)
    configs = [replace(make_config(i, 2, 2, 4, SETTINGS), pause=PausePriorities()) for i in range(2)]
    world.nics = [Nic(config, seed=i) for i, config in enumerate(configs)]
    world.record = True
    a, b = connect(world, kind=QpType.RC, attributes=QpAttributes(retry_count=32))
    a.write(b, 100)
    assert world.run(until=a.idle)
    cut, port = world.now, next(port for _, nic, port, _ in world.sent if nic == 0)
    world.set_port(0, 1 - port, False)
    a.write(b, 20_000)
    half, quantum = REMAP // 2, 512  # ns at the assumed rate of 1 Gb/s
    pause_data(world, port, half // quantum)
    world.run(duration=REMAP - 1)
    assert not [time for time in times(world) if time > cut]
    pause_data(world, port, half // quantum)
    resumed = world.now + half // quantum * quantum
    assert world.run(until=a.idle)
    assert resumed == min(time for time, nic, _, frame in world.sent if time > cut and nic == 0 and len(frame) > 500)


def pause_data(world: World, port: int, quanta: int) -> None:
    """The neighbour of the first NIC's port pauses its data."""
    priorities = dict.fromkeys(PausePriorities().data, quanta)
    world.nics[0].receive(port, pause.build(bytes(6), priorities), world.now)
    world.pump(0)


def test_a_nic_without_queue_pairs_has_nothing_to_move() -> None:
    world = World(planes=2, transport=SETTINGS)
    world.set_port(0, 1, False)
    assert port_events(world, 0) == [(world.now, False, True)]
    a, b = connect(world)
    a.write(b, 20_000)
    assert world.run(until=a.idle, duration=MS)
