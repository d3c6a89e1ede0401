"""Byte-for-byte verification of a ring with known contents.

Every rank gathers from every other a block of pseudo-random bytes that follows from (round, rank) alone, makes the same
bytes itself, and compares. Unlike the CRC that goes with each chunk, this needs no information
from the sender, and counts exactly how many bytes differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrc_lab.workloads.collectives.ring import Ring


@dataclass(frozen=True, slots=True)
class PatternCheck:
    """Outcome of one verification on one rank: bytes compared (other ranks' blocks) and how many differed."""

    checked: int
    wrong: int


def pattern(round_number: int, rank: int, length: int) -> NDArray[np.uint8]:
    """The `length` bytes that `rank` contributes in round `round_number`."""
    return np.random.default_rng([round_number, rank]).integers(0, 256, length, dtype=np.uint8)


async def verify_pattern(ring: Ring, round_number: int, length: int) -> PatternCheck:
    """Gather `length` bytes a rank over `ring` and compare; collective, with the same arguments on every rank."""
    rows = await ring.all_gather(pattern(round_number, ring.rank, length))
    others = [rank for rank in range(ring.world) if rank != ring.rank]
    wrong = sum(int(np.count_nonzero(rows[rank] != pattern(round_number, rank, length))) for rank in others)
    return PatternCheck(checked=length * len(others), wrong=wrong)
