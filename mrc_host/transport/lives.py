"""What keeps the packets of a queue pair's earlier lives out of its present one (docs/protocol.md §12).

A life lasts from RTR to RESET. Nothing on the wire names it, so PSNs must tell lives apart: each begins far from the
PSNs that earlier ones used. ``UsedPsns`` remembers those, one object for each direction of a queue pair. They stay
dangerous for a packet lifetime after the end of the life. Those of the latest life stay so for ever towards the same
remote queue pair, because it may not know that this life has ended.

A first PSN is safe when it lies behind what was used and what the other end may have sent beyond, and when the new life
can use `ROOM` PSNs before it comes round to the old ones. All PSNs here have 24 bits.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from mrc_host.errors import StateError
from mrc_host.wire.psn import HALF, MASK

GUARD: Final = 1 << 16  # more than the widest window, 255 * 128: what a life may have sent beyond what we know of
ROOM: Final = 1 << 22  # PSNs that a life may use within a packet lifetime
_JITTER_BITS: Final = 12


@dataclass(frozen=True, slots=True)
class Used:
    """PSNs that one life used: `count` (1..2**23, the latest) from `first` on, with one remote queue pair."""

    peer: bytes
    remote_qpn: int
    first: int
    count: int
    ended: int  # ns

    def holds(self, psn: int) -> bool:
        """Whether `psn` is one of these, or may have been sent beyond them."""
        return (psn - self.first) & MASK < self.count + GUARD

    def meets(self, first: int) -> bool:
        """Whether a life that begins at `first` could meet these."""
        return (first - self.first + ROOM) & MASK < ROOM + self.count + GUARD


class UsedPsns:
    """What earlier lives of one queue pair used in one direction, oldest first; `lifetime` is ns."""

    __slots__ = ("_lifetime", "_lives")

    def __init__(self, lifetime: int) -> None:
        self._lifetime = lifetime
        self._lives: list[Used] = []

    def add(self, peer: bytes, remote_qpn: int, first: int, count: int, now: int) -> None:
        """A life ends that used `count` PSNs from `first` on."""
        if count <= 0:
            return
        skipped = max(count - HALF, 0)
        self._lives = [life for life in self._lives if now < life.ended + self._lifetime]
        self._lives.append(Used(peer, remote_qpn, (first + skipped) & MASK, count - skipped, now))

    def latest(self) -> Used | None:
        """The newest life, however old."""
        return self._lives[-1] if self._lives else None

    def next_first(self, rng: random.Random) -> int:
        """A first PSN for the next life: behind all that the latest used, so that the way back to them is longest."""
        latest = self._lives[-1]
        return (latest.first + latest.count + GUARD + rng.getrandbits(_JITTER_BITS)) & MASK

    def check(self, name: str, qpn: int, first: int, peer: bytes, remote_qpn: int, now: int) -> None:
        """StateError when a life with `remote_qpn` of `peer` must not begin at PSN `first`, the attribute `name`."""
        for life in self._lives:
            if life.peer != peer or not life.meets(first):
                continue
            left = life.ended + self._lifetime - now
            again = life is self._lives[-1] and life.remote_qpn == remote_qpn
            if left <= 0 and not again:
                continue
            last = (life.first + life.count - 1) & MASK
            what = f"{name} {first} is too close to the PSNs {life.first} to {last} of an earlier connection"
            cure = (
                "connect to the peer's present endpoint, after a RESET there too, or choose another first PSN"
                if again
                else f"choose another, or wait {-(-left // 1_000_000)} ms until no packet of it can arrive any more"
            )
            raise StateError(f"Queue pair {qpn:#x}: {what}; {cure}.")
