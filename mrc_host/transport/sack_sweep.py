"""A series of SACKs, the sweep: it covers what one bitmap cannot."""

from __future__ import annotations

from typing import Final

from mrc_host.wire import control

_MAX_CREDIT: Final = 512  # SACKs of a sweep: they show 32,768 PSNs, the widest window there is


class Sweep:
    """The sweep of one connection. Each packet that arrived gives credit for one SACK."""

    __slots__ = ("active", "credit", "doubted", "everything", "next_psn", "paid")

    def __init__(self, first_psn: int, arrived: int) -> None:
        """It starts at `first_psn`, and gives no credit for the first `arrived` packets."""
        self.active = False
        self.everything = False  # send every bitmap, not only those where something is missing
        self.next_psn = first_psn  # the next bitmap starts here or later
        self.credit = 0  # how many SACKs the peer's packets still allow
        self.paid = arrived  # arrivals for which credit was given, or none is due
        self.doubted = -1  # expected PSN when reverse paths were last doubted because of a hole

    def pay(self, arrived: int) -> None:
        """`arrived` packets have arrived: give credit for the new ones."""
        self.credit = min(self.credit + arrived - self.paid, _MAX_CREDIT)
        self.paid = arrived

    def begin(self, expected: int, newest: int, base: int, everything: bool) -> None:
        """Continue the sweep, or start it at the expected PSN; a SACK with a bitmap from `base` on leaves next.

        One of `everything` starts there, unless such a one is incomplete: SACKs that showed it before may be lost.
        """
        if (everything and not self.everything) or not (self.active or expected < self.next_psn <= newest):
            self.next_psn = expected
        if base == self.next_psn:
            self.next_psn += control.SACK_BITS
        self.everything = self.everything or everything
        self.active = True

    def end(self) -> None:
        """The sweep is complete."""
        self.active = self.everything = False

    def shown(self, base: int) -> None:
        """A SACK of the sweep with a bitmap from `base` on was sent."""
        self.credit -= 1
        self.next_psn = base + control.SACK_BITS
