"""What a collective operation sends on each stream, and how fast its chunks can go round.

A rank passes a chunk on as soon as it has arrived (`mrc_lab/workloads/collectives/algorithms.py`), so an operation of
several steps goes at the rate of the streams as long as a segment takes longer to send than a chunk takes to the next
rank; otherwise chunks are what it waits for. A sender is ahead of its receiver by no more than its slots, which are
given back by halves (`mrc_lab/workloads/collectives/stream.py`); the stream with the longest way waits most for them,
and the others for it.
"""

from __future__ import annotations

from dataclasses import dataclass

_SECOND = 1e9


@dataclass(frozen=True, slots=True)
class Passing:
    """One channel's part of an operation: `steps` segments of `segment` bytes each, in chunks of `chunk` at most.

    `slots` are chunks. `arrival` is what the last byte of a chunk takes from a rank to the next, on average over the
    ring, `way_and_back` what it and a credit take where that is longest, both in ns.
    """

    steps: int
    segment: int
    chunk: int
    slots: int
    arrival: float
    way_and_back: float

    @property
    def size(self) -> int:
        """Bytes that a rank sends to the next."""
        return self.steps * self.segment

    def most(self, rate: float) -> float:
        """The rate of a stream (b/s) over the whole operation, where its links would carry `rate`."""
        if not self.size:
            return rate
        rate = min(rate, self._by_slots(rate))
        return min(rate, self.size * 8 * _SECOND / self._by_chunks(rate))

    def _by_slots(self, rate: float) -> float:
        """What the slots allow: half of them are full while the other half is given back."""
        half = max(1, self.slots // 2)
        piece = min(self.chunk, self.segment) * 8
        turn = half * piece * _SECOND / rate + self.way_and_back
        return self.slots * piece * _SECOND / turn

    def _by_chunks(self, rate: float) -> float:
        """Time (ns) until the last byte is sent, if every chunk waits for the one that it is made of."""
        chunks = -(-self.segment // self.chunk)
        piece = min(self.chunk, self.segment) * 8 * _SECOND / rate
        whole = self.segment * 8 * _SECOND / rate
        if whole >= piece + self.arrival:
            return self.steps * whole
        return (self.steps - 1) * (piece + self.arrival) + chunks * piece


def passing_steps(operation: str, ranks: int) -> int:
    """Segments that a rank passes on in a ring of so many ranks; a segment is one rank's part, or all of it."""
    return {
        "all_reduce": 2 * (ranks - 1),
        "all_gather": ranks - 1,
        "reduce_scatter": ranks - 1,
        "all_to_all": 1,
        "send_receive": 1,
        "broadcast": 1,
    }[operation]
