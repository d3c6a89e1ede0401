"""Go-back-N: which PSN is sent next, which are acknowledged, and to which request each belongs.

PSNs from ``una`` on are unacknowledged; ``send`` is the next to be sent and falls back to ``una`` when something is
lost. Requests are cut into packets from their PSN range each time, so going back needs no record of packets. The bytes
in flight are those of the PSNs from ``una`` to ``send``; the congestion controller counts them.

PSNs are unbounded integers here (see ``wire.psn``).
"""

from __future__ import annotations

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.work import SendQueue, Wqe


class GoBackN:
    """The packets of one RC queue pair, sent in order."""

    __slots__ = ("_cc", "_first", "_index", "_mtu", "_sends", "max", "next", "send", "una")

    def __init__(self, sends: SendQueue, cc: CongestionControl, mtu: int, first_psn: int) -> None:
        self._sends = sends
        self._cc = cc
        self._mtu = mtu
        self._first = first_psn
        self._index = 0  # which outstanding request `send` belongs to
        self.una = first_psn
        self.send = first_psn
        self.max = first_psn  # first PSN not sent yet
        self.next = first_psn  # first PSN not assigned to a request yet

    def psns_used(self) -> int:
        """How many PSNs were sent."""
        return self.max - self._first

    def pending(self) -> bool:
        """Whether there is anything to send; not if the oldest request has no valid local range."""
        if self.send < self.next:
            return True
        waiting = self._sends.waiting
        return bool(waiting) and waiting[0].view is not None

    def request(self) -> Wqe:
        """The request that `send` belongs to; if all requests are sent, starts the oldest waiting one."""
        psn = self.send
        if psn == self.next:
            self._start()
        outstanding = self._sends.outstanding
        wqe = outstanding[self._index]
        while psn > wqe.last_psn:
            self._index += 1
            wqe = outstanding[self._index]
        return wqe

    def _start(self) -> None:
        wqe = self._sends.start()
        wqe.first_psn = self.next
        self.next += -(-wqe.length // self._mtu) or 1
        wqe.last_psn = self.next - 1
        self._index = len(self._sends.outstanding) - 1

    def transmitted(self, size: int) -> None:
        """The packet with PSN `send` leaves, with `size` bytes of payload."""
        self.send += 1
        if self.max < self.send:
            self.max = self.send
        self._cc.inflight += size

    def acknowledge(self, arrived: int) -> int:
        """All PSNs before `arrived` have arrived: complete requests; returns how many of their bytes were in flight.

        `arrived` is after `una` and not after `max`; it is after `send` when a late answer covers what was given up.
        """
        acked = self._bytes(self.una, min(arrived, self.send))
        self.una = arrived
        self._cc.inflight -= acked
        outstanding = self._sends.outstanding
        done = 0
        while done < len(outstanding) and outstanding[done].last_psn < arrived:
            done += 1
        if done:
            self._index = max(0, self._index - done)
            self._sends.complete(done)
        if self.send < arrived:
            self.send = arrived
            self._index = 0
        return acked

    def _bytes(self, start: int, end: int) -> int:
        """Payload bytes of the PSNs from `start` up to `end`, which belong to outstanding requests."""
        size = 0
        for wqe in self._sends.outstanding:
            base = wqe.first_psn
            if base >= end:
                break
            first, behind = max(start, base), min(end, wqe.last_psn + 1)
            if first < behind:
                size += min(wqe.length, (behind - base) * self._mtu) - (first - base) * self._mtu
        return size

    def go_back(self) -> bool:
        """Send again from `una` on; returns whether anything was in flight."""
        if self.send == self.una:
            return False
        self._cc.inflight = 0
        self.send = self.una
        self._index = 0
        return True
