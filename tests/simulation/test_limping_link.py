"""A link that limps, at a fraction of its rate, costs no more than a dead one; recovered, it is used as before.

Two planes of 100 Gb/s with four uplinks a T0, and four NICs that write to four others, which fills every uplink. With
one uplink dead its plane carries three quarters, and so does the other plane, since planes are kept equal.
"""

from __future__ import annotations

from statistics import mean, median

import pytest

from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, Pair
from topologies.clos import multi_plane_clos

PLANES, UPLINKS, MTU = 2, 4, 4096
RATE = 100 * GIGA
EFFICIENCY = MTU / (MTU + 166)  # of a full packet with its headers, preamble and gap
FULL = PLANES * UPLINKS * RATE / GIGA * EFFICIENCY  # Gb/s, all flows together
DEAD = FULL * (UPLINKS - 1) / UPLINKS
LINK = "t0-0:t1-0@p0"
WARM, SETTLE, MEASURE = 20, 40, 30  # base round trips
MILLISECOND = 1_000_000


class Flows:
    """One queue pair from each NIC of the first T0 to one of the second, with work without end."""

    def __init__(self, world: SimulatedWorld, uplinks: int = UPLINKS) -> None:
        self.world = world
        self._uplinks = uplinks
        pairs = [Pair(world, f"h{n}", f"h{n + uplinks}", length=256 << 10) for n in range(1, uplinks + 1)]
        self.near, self.far = [pair.qp for pair in pairs], [pair.qp_far for pair in pairs]
        for pair in pairs:
            world.spawn(pair.write_without_end(16))

    def run(self, time: int) -> float:
        """Goodput of all flows together over so many ns, in Gb/s."""
        before = sum(qp.counters().data_received for qp in self.far)
        self.world.run(self.world.now + time)
        return (sum(qp.counters().data_received for qp in self.far) - before) * MTU * 8 / time

    def sent(self) -> list[int]:
        """Packets by path of plane 0, the paths over LINK first."""
        paths = [path for qp in self.near for path in qp.paths() if path.ev >> 10 == 0]
        return [sum(path.sent for path in paths if path.ev == uplink) for uplink in range(self._uplinks)]


def make(seed: int, uplinks: int = UPLINKS) -> SimulatedWorld:
    return SimulatedWorld(
        multi_plane_clos("limping", planes=PLANES, t0=2, t1=uplinks, hosts=2 * uplinks), seed=seed, rate=RATE
    )


@pytest.mark.parametrize(("share", "towards"), [(0.5, None), (0.25, None), (0.25, "t1-0@p0"), (0.1, None)])
def test_a_slow_link_reduces_goodput_no_more_than_a_dead_one(share: float, towards: str | None) -> None:
    with make(seed=1) as world:
        flows = Flows(world)
        trip = world.timing.round_trip
        flows.run(WARM * trip)
        world.faults.rate(LINK, round(share * RATE), towards=towards)
        flows.run(SETTLE * trip)
        assert flows.run(MEASURE * trip) >= 0.97 * DEAD
        assert all(qp.counters().timeouts == 0 for qp in flows.near)


def test_a_recovered_link_is_fully_used_within_a_millisecond() -> None:
    """Two uplinks, so that 0.55 to 0.61 of the full rate is left as long as one is avoided.

    Both are full then, and now and then packets are trimmed: of 2,600 worlds 7 % had less than 97 % in the time
    measured, and the mean was 99.2 % (6 % and 99.3 % while responders swept without need). That was with one entropy
    value a path. With 128 a mark takes effect when its value's turn comes, not with the next packet, so queues even out
    within some rotations: seeds 2 to 6 had 95.2 to 99.6 %.
    """
    goodputs, shares = zip(*(recovered(seed) for seed in range(2, 7)), strict=True)
    assert mean(goodputs) >= 0.97, goodputs
    assert mean(shares) >= 0.95, shares
    for values in (goodputs, shares):
        assert median(values) >= 0.98, values
        assert min(values) >= 0.9, values


def recovered(seed: int) -> tuple[float, float]:
    """Goodput, of the full rate, and what a link carries of the other's packets, a millisecond after it recovered."""
    uplinks = 2
    with make(seed, uplinks) as world:
        flows = Flows(world, uplinks)
        trip, full = world.timing.round_trip, FULL * uplinks / UPLINKS
        flows.run(WARM * trip)
        fault = world.faults.rate(LINK, RATE // 4)
        flows.run(SETTLE * trip)
        before = flows.sent()
        assert flows.run(MEASURE * trip) <= 0.7 * full
        limping, other = (now - then for now, then in zip(flows.sent(), before, strict=True))
        assert limping < 0.5 * other
        world.faults.clear(fault)
        flows.run(MILLISECOND)
        before = flows.sent()
        goodput = flows.run(4 * MEASURE * trip) / full
        carried, other = (now - then for now, then in zip(flows.sent(), before, strict=True))
        return goodput, carried / other
