"""Keeps the planes of one queue pair balanced: none may be more than a burst of packets ahead of another.

Each plane has a credit of that many packets. A plane without credit waits for the others; when no plane that could send
has any left, all are refilled. Retransmissions use credit too, but do not wait for other planes.

From one refill to the next is a *cycle*, in which every plane sends a burst. When a plane without credit asks for data
that there is, it is noted for which planes it waits, and what every port has sent. At the end of the cycle such a
*wait* for at most half of the planes tells which are late: those that kept others waiting for much of the time that
they needed, and whose ports sent much less in that time than the port of the one that waits did before. All that ports
send counts: if queue pairs take turns at some ports and share others, each waits, but no port is slow. Late planes
speak for slow ports (``slow_ports``), whether or not they are as slow as each other. Only waiting and refilling cost
anything, no packet does.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.stats import NicPortStats

_FULL: Final = 4096  # payload of the packets that a burst consists of
# A plane is late that the others waited for during one fourth of a cycle, as they could have sent that much more, and
_PART: Final = 4
# whose port took so many times as long for what it sent. Ports that take turns at one processor are waited for, too.
_SLOWER: Final = 3, 2
NOBODY: Final = 0
UNKNOWN: Final = -1


class Wait:
    """From time `since` on, `plane`, which had no credit, waited for those of the mask `planes`."""

    __slots__ = ("plane", "planes", "sent", "since")

    def __init__(self, plane: int, planes: int, sent: list[int], since: int) -> None:
        self.plane = plane
        self.planes = planes
        self.sent = sent  # bytes that each port had sent
        self.since = since


class PlaneBalance:
    """Credit of each plane; `mask` has the planes with credit left."""

    __slots__ = (
        "_awaited",
        "_began",
        "_burst",
        "_credit",
        "_idle",
        "_idle_since",
        "_idled",
        "_ports",
        "_ran_out",
        "_sent",
        "_sent_until",
        "_stalled",
        "_waited",
        "_waits",
        "mask",
        "stopped",
    )

    def __init__(self, burst: int, mtu: int, mask: int, waited: list[int], ports: list[NicPortStats]) -> None:
        """`burst` is in packets of 4096 bytes, `mask` has the planes in use.

        `waited` has for each plane the ns for which data that could have left on others waited for it; this adds to it.
        `ports` counts what the ports of the planes send.
        """
        planes = len(waited)
        # In bytes, as for full packets: a burst shorter than a turn of the scheduler would cut that turn off.
        self._burst = burst * max(1, _FULL // mtu)
        self._credit = [self._burst] * planes
        self.mask = mask
        self._began = 0  # the cycle; 0 before the first
        self._idle = True  # there was not always data in this cycle
        self._idle_since = 0  # there is none; 0 if there is
        self._idled = 0  # ns of this cycle in which there was none
        self._stalled = 0  # ns for which data waited for window or peer before this cycle
        self._awaited = 0  # planes that were waited for when a plane last asked
        self._waits: list[Wait] = []  # of this cycle, with fewer and fewer planes
        self._ran_out = [0] * planes  # when a plane asked that had no credit left; 0 if it has not
        self._waited = waited
        self._ports = ports
        self._sent = [0] * planes  # bytes that each port had sent when the cycle began
        self._sent_until = [0] * planes  # the same of a plane that ran out, then
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

    def waits(self, plane: int, planes: int, now: int) -> None:
        """`plane` has data to send and no credit, and waits for those of the usable `planes` that have."""
        if not self._ran_out[plane]:
            self._ran_out[plane] = now
            self._sent_until[plane] = self._ports[plane].tx_bytes
        awaited = self.mask & planes
        if awaited != self._awaited:
            self._awaited = awaited
            if 2 * awaited.bit_count() <= planes.bit_count():
                self._waits.append(Wait(plane, awaited, self._all_sent(), now))

    def blocked(self) -> None:
        """Something else keeps data from leaving, like a full window: nobody waits for a plane."""
        if self._awaited:
            self._awaited = 0
            self._waits.clear()
            self._ran_out = [0] * len(self._ran_out)

    def idle(self, now: int) -> None:
        """There is no data: this cycle does not show whether a plane is late."""
        self.blocked()
        self._idle = True
        self._idle_since = self._idle_since or now

    def resume(self, now: int) -> None:
        """There is data again."""
        if self._idle_since:
            self._idled += now - self._idle_since
            self._idle_since = 0

    def restart(self) -> None:
        """The planes have changed: forget this cycle."""
        self.blocked()
        self._began = self._idle_since = self._idled = 0

    def end_cycle(self, stalled: int, now: int) -> int:
        """All credit is used up. Returns the mask of the planes that were late, NOBODY or UNKNOWN; sets `stopped`.

        `stalled` is for how long data has ever waited for the window or for what the peer accepts.
        """
        began, idle = self._began, self._idle
        lost = self._idled + stalled - self._stalled
        self._began, self._idled, self._idle = now, 0, False
        self._stalled = stalled
        self.stopped = began > 0 and _PART * lost >= now - began
        late = NOBODY
        if self._awaited:
            late = self._judge(began, now)
            self.blocked()
        self._sent = self._all_sent()
        return late if began and not idle else UNKNOWN

    def _judge(self, began: int, now: int) -> int:
        """The planes of the first wait in which all were late, or NOBODY. Adds up for how long they were waited for."""
        late = NOBODY
        wait: Wait | None = None
        for wait in self._waits:
            if self._all_late(wait, began, now):
                late = wait.planes
                break
        if wait is not None:
            for plane, ran_out in enumerate(self._ran_out):
                if wait.planes >> plane & 1:
                    self._waited[plane] += (ran_out or now) - wait.since
        return late

    def _all_late(self, wait: Wait, began: int, now: int) -> bool:
        """Whether each plane that was waited for was late, in a cycle that ends `now`."""
        if wait.planes & self.mask:
            return False  # it was lost in between
        more, less = _SLOWER
        usual, took = wait.sent[wait.plane] - self._sent[wait.plane], wait.since - began
        for plane, before in enumerate(wait.sent):
            if wait.planes >> plane & 1:
                ran_out = self._ran_out[plane]
                done, until = (ran_out, self._sent_until[plane]) if ran_out else (now, self._ports[plane].tx_bytes)
                waited = done - wait.since
                if _PART * waited < done - began or less * waited * usual < more * took * (until - before):
                    return False
        return True

    def _all_sent(self) -> list[int]:
        """Bytes that each port has sent."""
        return [port.tx_bytes for port in self._ports]
