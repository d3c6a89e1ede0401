"""Random path lengths: one flow must fill its links whatever the lengths of its paths, also when these change.

A world has 1 to 4 planes with 1 to 4 T1s each. The links between T0s and T1s take 0.5 to 50 us each, one value for all,
for each plane, or for each T1. In half of the worlds some or all of them take up to 25 us longer from 0.3 ms on. From
2 ms after that the flow must have 0.95 of the line rate of its ports.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from mrc_host.verbs_types import QpType
from simulation.world import SimulatedWorld
from tests.congestion.flows import US, Flow, fabric_of, line_rate

_DELAYS = (500, 1_000, 1_000, 5_000, 10_000, 25_000, 50_000)  # ns
_LONGER = (5_000, 10_000, 25_000)
_CHANGE = 300 * US
_SETTLED = 2_000 * US
_MEASURED = 500 * US
LEAST = 0.95


@dataclass(frozen=True)
class Lengths:
    """A world: what the links of each (plane, T1) take, and what some take longer from `_CHANGE` on, in ns."""

    planes: int
    t1: int
    links: dict[tuple[int, int], int]
    longer: int
    where: str  # links that become longer

    @classmethod
    def random(cls, seed: int) -> Lengths:
        """The world of a seed."""
        rng = random.Random(seed)
        planes, t1 = rng.choice((1, 2, 4)), rng.choice((1, 2, 4))
        # With one plane, answers that come back over a long T1 have no other plane that overtakes them.
        unlike = rng.choice(("none", "planes", "planes", "T1s" if planes > 1 else "planes"))
        same = rng.choice(_DELAYS)
        by_plane = [rng.choice(_DELAYS) for _ in range(planes)]
        links = {
            (plane, uplink): {"none": same, "planes": by_plane[plane], "T1s": rng.choice(_DELAYS)}[unlike]
            for plane in range(planes)
            for uplink in range(t1)
        }
        plane, uplink = rng.choice(("*", rng.randrange(planes))), rng.choice(("*", "*", rng.randrange(t1)))
        longer = rng.choice(_LONGER) if rng.random() < 0.5 else 0
        return cls(planes, t1, links, longer, f"t0-*:t1-{uplink}@p{plane}")


def share(lengths: Lengths, seed: int) -> float:
    """Which share of the line rate the flow has in the end."""
    fabric = fabric_of(lengths.planes, lengths.t1)
    delays = {
        link.name: lengths.links[plane, uplink]
        for (plane, uplink) in lengths.links
        for link in fabric.links
        if link.name.endswith(f":t1-{uplink}@p{plane}")
    }
    fabric = replace(
        fabric, links=tuple(replace(link, delay_ns=delays.get(link.name, link.delay_ns)) for link in fabric.links)
    )
    with SimulatedWorld(fabric, seed=seed) as world:
        flow = Flow(world, "h1", "h2", replace(world.attributes(), mpr=128, mpr_dest=128), QpType.MRC)
        world.run(_CHANGE)
        if lengths.longer:
            world.faults.delay(lengths.where, lengths.longer)
        world.run(_CHANGE + _SETTLED)
        before = flow.received()
        world.run(_CHANGE + _SETTLED + _MEASURED)
        got = (flow.received() - before) * 8e9 / _MEASURED
    return got / (lengths.planes * line_rate(fabric.links[0].rate_bps))


def check(seed: int) -> str:
    """Run the world of a seed: what is wrong with it, or nothing."""
    lengths = Lengths.random(seed)
    got = share(lengths, seed)
    if got >= LEAST:
        return ""
    return f"{got:.3f} of the line rate, less than {LEAST}: {lengths}"
