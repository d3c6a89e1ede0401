"""Many paths fail at once: how soon one queue pair is back at what the others carry, in bytes placed in memory.

Four planes of 100 Gb/s with eight uplinks a T0. Goodput is what is newly placed at the receiver in each base round
trip.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import pytest

from mrc_host.verbs_types import QpCounters
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, Pair
from topologies.clos import multi_plane_clos

PLANES, UPLINKS, MTU = 4, 8, 4096
RATE = 100 * GIGA
EFFICIENCY = MTU / (MTU + 166)  # of a full packet with its headers, preamble and gap
MESSAGE = {1: 64 << 20, 64: 256 << 10, 256: 64 << 10}  # bytes, by how many writes are outstanding
WARM = 30  # base round trips


@dataclass(frozen=True)
class Run:
    goodput: list[float]  # Gb/s in each base round trip after the cut
    limit: float  # Gb/s that the line and the remaining paths carry
    before: QpCounters
    after: QpCounters
    answers: int  # SACKs and others that the receiver sent after the cut


def run(seed: int, outstanding: int, victims: Iterable[tuple[int, int]], trips: int, flap: bool = False) -> Run:
    """Write from h1 to h3 and take the `victims` (plane, uplink) of h1's T0 down; with `flap` for 200 us each."""
    victims = list(victims)
    with SimulatedWorld(
        multi_plane_clos("burst", planes=PLANES, t0=2, t1=UPLINKS, hosts=4), seed=seed, rate=RATE
    ) as world:
        pair = Pair(world, length=MESSAGE[outstanding])
        qp, far_qp = pair.qp, pair.qp_far
        task = world.spawn(pair.write_without_end(outstanding))
        trip = world.timing.round_trip
        start = WARM * trip
        world.run(start)
        before, answers = qp.counters(), far_qp.counters().acks_sent
        for plane, uplink in victims:
            world.faults.link_down(f"t0-0:t1-{uplink}@p{plane}", until=start + 200_000 if flap else None)
        placed = far_qp.counters().data_received
        goodput = []
        for number in range(trips):
            world.run(start + (number + 1) * trip)
            now = far_qp.counters().data_received
            goodput.append((now - placed) * MTU * 8 / trip)
            placed = now
        task.cancel()
        left = [UPLINKS - sum(plane == p for p, _uplink in victims) for plane in range(PLANES)]
        limit = sum(min(uplinks, 1) for uplinks in left) * RATE / GIGA * EFFICIENCY
        return Run(goodput, limit, before, qp.counters(), far_qp.counters().acks_sent - answers)


def some_uplinks(seed: int, count: int = 8) -> list[tuple[int, int]]:
    return Random(seed).sample([(plane, uplink) for plane in range(PLANES) for uplink in range(UPLINKS)], count)


def check(result: Run, since: int) -> None:
    assert min(result.goodput[since:]) >= 0.95 * result.limit, [round(g) for g in result.goodput]
    assert result.after.timeouts == 0
    assert result.after.spurious_retransmitted == 0


@pytest.mark.parametrize(("seed", "outstanding"), list(zip(range(1, 13), itertools.cycle(MESSAGE), strict=False)))
def test_goodput_recovers_when_a_quarter_of_the_uplinks_fails(seed: int, outstanding: int) -> None:
    result = run(seed, outstanding, some_uplinks(seed), 12)
    check(result, 3)
    assert result.after.lost - result.before.lost > 20, "the cut was felt"


@pytest.mark.parametrize("seed", [1, 2])
def test_goodput_recovers_when_two_t1s_of_every_plane_fail(seed: int) -> None:
    gone = Random(seed).sample(range(UPLINKS), 2)
    check(run(seed, 64, [(plane, uplink) for plane in range(PLANES) for uplink in gone], 12), 3)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_goodput_recovers_when_a_quarter_of_the_uplinks_flaps(seed: int) -> None:
    """They come back after 200 us, while the queue pair goes on: nothing is felt of that."""
    check(run(seed, 64, some_uplinks(seed), 40, flap=True), 3)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_plane_that_fails_is_left_without_a_timeout(seed: int) -> None:
    """All of one plane's uplinks: nothing on that plane shows that others came, so it takes longer, but no timeout."""
    result = run(seed, 64, [(0, uplink) for uplink in range(UPLINKS)], 16)
    check(result, 12)
    assert sum(result.goodput[3:12]) / 9 > 0.6 * result.limit


def test_goodput_recovers_when_half_of_the_uplinks_fail() -> None:
    for seed in (1, 2, 3):
        result = run(seed, 64, some_uplinks(seed, 16), 16)
        assert sum(result.goodput[6:]) / 10 >= 0.95 * result.limit, [round(g) for g in result.goodput]
        assert result.after.timeouts == 0


def test_answers_do_not_outnumber_packets_during_the_losses() -> None:
    """Sweeps do not flood: fewer answers than packets, even while half of the paths are being lost."""
    result = run(1, 64, some_uplinks(1, 16), 10)
    packets = result.after.data_sent + result.after.retransmitted
    assert result.answers < packets - result.before.data_sent
