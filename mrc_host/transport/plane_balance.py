"""Keeps the planes of one queue pair balanced: none may be more than a burst of packets ahead of another.

Each plane has a credit of that many packets. A plane without credit waits for the others; when no plane that could send
has any left, all are refilled. Retransmissions use credit too, but do not wait for other planes.

From one refill to the next is a *cycle*, in which every plane sends a burst. The time is measured for which the last
plane with credit was waited for while another asked for data that there was. A cycle in which that plane took much
longer per packet than the others, and kept them waiting for much of it, speaks for a slow port (``slow_ports``).
Only waiting and refilling cost anything, no packet does.
"""

from __future__ import annotations

from typing import Final

_FULL: Final = 4096  # payload of the packets that a burst consists of
# A plane is late that the others waited for during one fourth of a cycle, as they could have sent that much more, and
_PART: Final = 4
# whose packets took so many times as long as theirs. Ports that take turns at one processor are waited for, too.
_SLOWER: Final = 3, 2
NOBODY: Final = -1
UNKNOWN: Final = -2


class PlaneBalance:
    """Credit of each plane; `mask` has the planes with credit left."""

    __slots__ = (
        "_began",
        "_burst",
        "_credit",
        "_idle",
        "_idle_since",
        "_idled",
        "_left",
        "_since",
        "_stalled",
        "last",
        "mask",
        "stopped",
        "waited",
    )

    def __init__(self, burst: int, mtu: int, planes: int, mask: int) -> None:
        """`burst` is in packets of 4096 bytes, `planes` the number of planes, `mask` those in use."""
        # In bytes, as for full packets: a burst shorter than a turn of the scheduler would cut that turn off.
        self._burst = burst * max(1, _FULL // mtu)
        self._credit = [self._burst] * planes
        self.mask = mask
        self._began = 0  # the cycle; 0 before the first
        self._idle = True  # there was not always data in this cycle
        self._idle_since = 0  # there is none; 0 if there is
        self._idled = 0  # ns of this cycle in which there was none
        self._stalled = 0  # ns for which data waited for window or peer before this cycle
        self._since = 0  # then others began to wait for the last plane with credit; 0 when they do not
        self._left = 0  # what credit that had then
        self.last = 0  # that plane
        self.waited = 0  # ns for which they waited, in the cycle that has just ended
        self.stopped = False  # for much of it nothing left, as window or peer let nothing leave or there was no data

    def refill(self, mask: int) -> None:
        """Give every plane of `mask` full credit; these are in use."""
        self._credit = [self._burst] * len(self._credit)
        self.mask = mask

    def spend(self, plane: int) -> None:
        """A packet leaves on a plane with credit."""
        self._credit[plane] -= 1
        if not self._credit[plane]:
            self.mask &= ~(1 << plane)

    # ---- waiting for a slow plane -------------------------------------------------------------------------------

    def waits(self, planes: int, now: int) -> None:
        """A plane without credit has data to send, and waits for `planes`, which have credit."""
        if not self._since and not planes & (planes - 1):
            self._since = now
            self.last = planes.bit_length() - 1
            self._left = self._credit[self.last]

    def blocked(self) -> None:
        """Something else keeps data from leaving, like a full window: nobody waits for a plane."""
        self._since = 0

    def idle(self, now: int) -> None:
        """There is no data: this cycle does not show whether a plane is late."""
        self._since = 0
        self._idle = True
        self._idle_since = self._idle_since or now

    def resume(self, now: int) -> None:
        """There is data again."""
        if self._idle_since:
            self._idled += now - self._idle_since
            self._idle_since = 0

    def restart(self) -> None:
        """The planes have changed: forget this cycle."""
        self._since = self._began = self._idle_since = self._idled = 0

    def end_cycle(self, stalled: int, now: int) -> int:
        """All credit is used up. Returns the plane that was late, NOBODY or UNKNOWN; sets `last`, `waited`, `stopped`.

        `stalled` is for how long data has ever waited for the window or for what the peer accepts.
        """
        began, since, idle = self._began, self._since, self._idle
        lost = self._idled + stalled - self._stalled
        self._began, self._since, self._idled, self._idle = now, 0, 0, False
        self._stalled = stalled
        self.waited = now - since if since else 0
        self.stopped = began > 0 and _PART * lost >= now - began
        if not began or idle:
            return UNKNOWN
        more, less = _SLOWER
        if not since or _PART * self.waited < now - began:
            return NOBODY
        return self.last if less * self.waited * self._burst >= more * (since - began) * self._left else NOBODY
