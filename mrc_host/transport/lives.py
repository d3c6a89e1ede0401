"""Keeps packets of a queue pair's earlier lives out of its present one (docs/protocol.md §12).

A life lasts from RTR to RESET. Nothing on the wire identifies it, so PSNs must distinguish lives: each starts far from
the PSNs that earlier ones used. ``UsedPsns`` remembers those, one object for each direction of a queue pair. They must
not be reused until a packet lifetime has passed since the end of that life. PSNs of the latest life are never reused
with the same remote queue pair, because that may not know that this life has ended. Of a life from which nothing was
received, packets may still be on their way.

A first PSN is safe when it lies beyond the used PSNs and those that the other end may have sent after them, and when
the new life can use `ROOM` PSNs before it wraps around to the old ones. All PSNs here have 24 bits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from mrc_host.errors import StateError
from mrc_host.wire.psn import HALF, MASK

GUARD: Final = 1 << 16  # more than the widest window, 255 * 128: PSNs that may have been sent beyond those known
ROOM: Final = 1 << 22  # PSNs that a life may use within a packet lifetime
_JITTER_BITS: Final = 12


@dataclass(frozen=True, slots=True)
class UsedRange:
    """PSNs that one life used with one remote queue pair: `count` (0..2**23, the latest ones) from `first` on."""

    peer: bytes
    remote_qpn: int
    first: int
    count: int
    ended: int  # ns

    def contains(self, psn: int) -> bool:
        """Whether `psn` is one of these, or may have been sent beyond them."""
        return (psn - self.first) & MASK < self.count + GUARD

    def overlaps(self, first: int) -> bool:
        """Whether a life that starts at `first` could use these again; soon, if none is known to have been used."""
        room = ROOM if self.count else GUARD
        return (first - self.first + room) & MASK < room + self.count + GUARD

    def goes_on(self, first: int, remote_qpn: int) -> bool:
        """Whether the peer's life that starts at `first` may be this one, of which nothing has been received yet."""
        return not self.count and (first, remote_qpn) == (self.first, self.remote_qpn)


class UsedPsns:
    """PSNs that earlier lives of one queue pair used in one direction, oldest first; `lifetime` is in ns."""

    __slots__ = ("_lifetime", "_lives")

    def __init__(self, lifetime: int) -> None:
        self._lifetime = lifetime
        self._lives: list[UsedRange] = []

    def add(self, peer: bytes, remote_qpn: int, first: int, count: int, now: int) -> None:
        """A life ended that used `count` PSNs from `first` on."""
        if count > 0:
            skipped = max(count - HALF, 0)
            self._add(UsedRange(peer, remote_qpn, (first + skipped) & MASK, count - skipped, now))

    def add_unseen(self, peer: bytes, remote_qpn: int, first: int, now: int) -> None:
        """A life ended that would have received PSNs from `first` on, and received none."""
        self._add(UsedRange(peer, remote_qpn, first, 0, now))

    def _add(self, ended: UsedRange) -> None:
        latest = self.latest()
        self._lives = [life for life in self._lives if life is latest or ended.ended < life.ended + self._lifetime]
        self._lives.append(ended)

    def latest(self) -> UsedRange | None:
        """The latest life that used any, however old."""
        return next((life for life in reversed(self._lives) if life.count), None)

    def next_first(self, rng: random.Random) -> int:
        """A first PSN for the next life: just beyond the latest one's PSNs, so that wrapping around takes longest."""
        latest = self.latest()
        assert latest is not None, "some were used"
        return (latest.first + latest.count + GUARD + rng.getrandbits(_JITTER_BITS)) & MASK

    def check(
        self, name: str, qpn: int, first: int, peer: bytes, remote_qpn: int, now: int, *, told: bool = False
    ) -> None:
        """StateError when a life with `remote_qpn` of `peer` must not start at PSN `first` (attribute `name`).

        `told`: it is from the peer's endpoint. A NIC never chooses a first PSN again that it sent, so if it is that of
        an earlier life from which nothing has arrived, that one goes on or has sent nothing. An application may well
        choose one again.
        """
        latest = self.latest()
        for life in self._lives:
            if life.peer != peer or not life.overlaps(first) or (told and life.goes_on(first, remote_qpn)):
                continue
            left = life.ended + self._lifetime - now
            again = life is latest and life.remote_qpn == remote_qpn
            if left <= 0 and not again:
                continue
            last = (life.first + life.count - 1) & MASK
            psns = f"the PSNs {life.first} to {last}" if life.count else f"PSN {life.first}, the first"
            what = f"{name} {first} is too close to {psns} of an earlier connection"
            cure = (
                "connect to the peer's present endpoint, after a RESET there too, or choose another first PSN"
                if again
                else f"choose another, or wait {-(-left // 1_000_000)} ms until no packet of it can arrive any more"
            )
            raise StateError(f"Queue pair {qpn:#x}: {what}; {cure}.")
