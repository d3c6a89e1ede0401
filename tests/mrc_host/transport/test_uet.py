"""UET: which entropy value a packet takes (REPS), and what its queue pairs do not know.

Expectations are those of REPS (Bonato et al., arXiv 2407.21625) and of UEC's htsim, as docs/baselines.md has them.
"""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mrc_host.transport.path_selection import HOLD
from mrc_host.transport.uet import BUFFER, EXPLORED, FREEZE, Reps
from mrc_host.verbs_types import CompletionStatus, PathState, QpAttributes, QpType
from mrc_host.wire import opcodes
from tests.mrc_host.nic_world import MS, US, End, Faults, World, connect, path_events

PLANES = bytes([0, 0, 0, 0, 1, 1, 1, 1])  # paths 0 to 3 in plane 0
RING = [0, 1, 2, 3, 8, 9, 10, 11]  # two values to a path
START = 102  # of the BTH behind two IPv6 headers


class Clock(SimpleNamespace):
    """What REPS needs of its NIC."""

    now: int


def reps() -> tuple[Reps, Clock]:
    clock = Clock(now=0, rng=random.Random(1))
    return Reps(cast("Any", clock), PLANES), clock


def test_values_that_came_back_are_used_again_once_the_oldest_first() -> None:
    made, _ = reps()
    for value in (3, 8, 1):
        made.on_ack(value, 10 * US, False)
    assert [made.choose(0, RING) for _ in range(3)] == [3, 8, 1]
    drawn = Counter(made.choose(0, RING) for _ in range(4000))
    assert set(drawn) == set(RING)
    assert max(drawn.values()) < 1.25 * 4000 / len(RING)


def test_marked_values_are_not_used_again() -> None:
    made, _ = reps()
    made.on_ack(3, 10 * US, True)
    made.on_ack(8, 10 * US, False)
    assert made.choose(0, RING) == 8
    assert len({made.choose(0, RING) for _ in range(100)}) == len(RING), "at random"


def test_the_newest_eight_are_remembered() -> None:
    made, _ = reps()
    for value in [0, 1, 2, 3, 8, 9, 10, 11, 0, 1]:
        made.on_ack(value, 10 * US, False)
    assert [made.choose(0, RING) for _ in range(BUFFER)] == [2, 3, 8, 9, 10, 11, 0, 1]


def test_each_port_uses_what_came_back_on_it() -> None:
    made, _ = reps()
    made.on_ack(3, 10 * US, False)
    made.on_ack(4, 10 * US, False)
    assert made.choose(1, [4, 5, 6, 7]) == 4
    assert made.choose(0, RING) == 3


def test_after_a_loss_the_remembered_take_turns_and_nothing_else_is_tried() -> None:
    made, clock = reps()
    for value in (3, 8):
        made.on_ack(value, 10 * US, False)
    made.on_loss(1)
    assert [made.choose(0, RING) for _ in range(5)] == [3, 8, 3, 8, 3]
    assert made.choose(1, [4, 5, 6, 7]) == HOLD, "nothing came back there"
    made.on_ack(2, 10 * US, False)
    assert [made.choose(0, RING) for _ in range(3)] == [8, 2, 3], "what comes back joins them"
    clock.now = FREEZE + 1
    explored = [made.choose(0, RING) for _ in range(EXPLORED)]
    assert len(set(explored)) > 4
    made.on_ack(2, 10 * US, False)
    assert made.choose(0, RING) == 2, "as before"


def test_without_anything_that_came_back_a_frozen_sender_tries_all() -> None:
    made, _ = reps()
    made.on_loss(1)
    assert len({made.choose(0, RING) for _ in range(100)}) == len(RING)
    assert made.choose(1, [4, 5, 6, 7]) in (4, 5, 6, 7)


def test_losses_while_frozen_do_not_prolong_it() -> None:
    made, clock = reps()
    made.on_ack(3, 10 * US, False)
    made.on_loss(1)
    clock.now = FREEZE // 2
    made.on_loss(1)
    clock.now = FREEZE + 1
    assert len({made.choose(0, RING) for _ in range(EXPLORED)}) > 4


def test_a_loss_that_was_none_ends_the_freeze_and_forgets_nothing() -> None:
    made, _ = reps()
    for value in (3, 8):
        made.on_ack(value, 10 * US, False)
    made.on_loss(1)
    assert made.choose(0, RING) == 3
    made.on_false_loss(2)
    assert made.choose(1, [4, 5, 6, 7]) == HOLD, "still frozen: that was another loss"
    made.on_false_loss(1)
    assert made.choose(1, [4, 5, 6, 7]) in (4, 5, 6, 7), "it may explore again"
    assert made.choose(0, RING) == 8, "not used yet"


# ---- whole queue pairs ------------------------------------------------------------------------------------------


def pair(faults: Faults | None = None, **attributes: int) -> tuple[World, End, End]:
    world = World(planes=2, uplinks=8, faults=faults)
    world.record = True
    a, b = connect(world, size=1 << 20, kind=QpType.UET, attributes=QpAttributes(**attributes))
    return world, a, b


def done(world: World, a: End, b: End, number: int = 1, within: int = 1000 * MS) -> None:
    assert world.run(within, until=lambda: bool(a.poll()) and len(a.done) == number)
    assert all(c.status is CompletionStatus.SUCCESS for c in a.done)
    assert a.buffer == b.buffer


def data_paths(world: World, since: int = 0) -> Counter[tuple[int, int]]:
    """How many data packets took each plane and uplink."""
    return Counter(
        (port, int.from_bytes(frame[44:46], "big") & 0x3FF)
        for when, nic, port, frame in world.sent
        if nic == 0 and when >= since and opcodes.WRITE_FIRST <= frame[START] <= opcodes.WRITE_ONLY_IMM
    )


def test_it_sprays_over_all_paths_and_answers_each_packet() -> None:
    world, a, b = pair()
    a.write(b, 1 << 20)
    done(world, a, b)
    assert len(data_paths(world)) == 16
    assert b.nic.hw_counters(b.qpn, world.now)["tx_sacks"] >= 256
    assert a.nic.qp_counters(a.qpn).retransmitted == 0


def test_dead_paths_are_left_for_those_that_bring_acknowledgements_and_none_changes_state() -> None:
    dead = {(0, 0), (0, 1), (1, 2), (1, 3)}
    world, a, b = pair(Faults(dead_from={0: dead}))
    for _ in range(4):
        a.write(b, 1 << 20)
    done(world, a, b, 4)
    since = next(when for when, *_ in world.sent if when > world.now - (world.now - 1_000_000) // 2)
    taken = data_paths(world, since)
    share = sum(taken[path] for path in dead) / sum(taken.values())
    assert share < 0.1, "random choice would be a quarter"
    assert all(path.state is PathState.GOOD for path in a.nic.qp_paths(a.qpn))
    assert path_events(a.nic) == []


def test_a_dark_plane_is_left_though_nothing_is_known_of_planes() -> None:
    world, a, b = pair(Faults(dead_planes={1}))
    for _ in range(4):
        a.write(b, 1 << 20)
    done(world, a, b, 4)
    since = next(when for when, *_ in world.sent if when > world.now - (world.now - 1_000_000) // 2)
    taken = data_paths(world, since)
    assert sum(count for (plane, _), count in taken.items() if plane == 1) / sum(taken.values()) < 0.1


def test_a_port_of_its_own_without_a_link_is_not_used() -> None:
    world, a, b = pair()
    world.set_port(0, 1, False)
    a.write(b, 1 << 20)
    done(world, a, b)
    assert {plane for plane, _ in data_paths(world)} == {0}


def test_no_path_is_probed() -> None:
    world, a, b = pair(Faults(seed=2, loss=0.02))
    a.write(b, 1 << 20)
    done(world, a, b)
    world.run(200 * MS)
    probes = [f for _t, _n, _p, f in world.sent if f[START] == opcodes.ENDPOINT_REQUEST and f[START + 12] >> 4 == 1]
    assert probes == []


@pytest.mark.parametrize("seed", range(6))
def test_everything_arrives_once_whatever_the_network_does(seed: int) -> None:
    faults = Faults(seed, loss=0.05, duplicate=0.02, corrupt=0.01, delay=0.1, extra=50 * US, mark=0.1, trim=0.05)
    world, a, b = pair(faults)
    sizes = [1, 4095, 4096, 4097, 40_000, 0, 200_000]
    for number, size in enumerate(sizes):
        a.write(b, size, imm=number)
    assert world.run(4000 * MS, until=lambda: bool(a.poll()) and len(a.done) == len(sizes))
    assert [c.imm for c in b.poll()] == list(range(len(sizes)))
    assert a.buffer[:200_000] == b.buffer[:200_000]
