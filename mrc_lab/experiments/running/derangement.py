"""Random permutations in which nobody is their own partner, from the seed of a run."""

from __future__ import annotations

from collections.abc import Sequence

from simulation.seeds import generator


def derangement(hosts: Sequence[str], seed: int) -> list[str]:
    """A partner for each host: another one, and for each a different one."""
    chance = generator(seed, "permutation")
    while True:  # a third of all permutations move everybody
        others = chance.sample(hosts, len(hosts))
        if all(a != b for a, b in zip(hosts, others, strict=True)):
            return others
