"""Computing times of ranks: jitter and stragglers, drawn from the seed.

Every rank draws from a generator of its own, in the order of its computings, so that its times depend on nothing but
the seed and the rank.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mrc_lab.experiments.files.host_names import select_hosts
from mrc_lab.experiments.files.workloads import Collective, Training
from simulation.seeds import generator
from topologies.fabric import Fabric


class ComputingTimes:
    """Computing times of the ranks on `hosts`; `part` is what a computing takes (s) without jitter and stragglers."""

    def __init__(
        self, load: Collective | Training, hosts: Sequence[str], fabric: Fabric, seed: int, part: float
    ) -> None:
        self._part = part
        self._jitter = load.jitter
        self._draws = [generator(seed, "computing", rank) for rank in range(len(hosts))]
        self._slow: list[list[tuple[float, float]]] = [[] for _ in hosts]  # by rank: slowdown and share
        for straggler in load.stragglers:
            chosen = set(select_hosts(straggler.hosts, fabric))
            for rank, host in enumerate(hosts):
                if host in chosen:
                    self._slow[rank].append((straggler.slowdown, straggler.share))

    def next(self, rank: int) -> float:
        """Seconds that the rank's next computing takes."""
        draw = self._draws[rank]
        time = self._part
        if self._jitter:
            time *= 1 + self._jitter * draw.uniform(-1, 1)
        for slowdown, share in self._slow[rank]:
            if _by_chance(draw, share):
                time *= slowdown
        return time


def _by_chance(draw: random.Random, share: float) -> bool:
    return draw.random() < share
