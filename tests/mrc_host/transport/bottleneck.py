"""A packet-level model of one bottleneck that several greedy senders share, to close the loop around a controller.

Each sender has its own line and sends full packets while its window and its controller's pacing allow. All meet in one
queue, which marks by random early detection on the way out (as switches do), and, when full, trims (the sender sees
it after a base round trip) or drops (inferred lost a little after that). Every packet that passes is acknowledged on
its own after the rest of the base round trip. Marked packets also raise CNPs, one generator a flow, where asked for.
Time is integer nanoseconds; the only randomness is the marking, from the given seed.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.dcqcn import CnpGenerator, Dcqcn


@dataclass
class Sender:
    """One flow: its controller, when its line is free, and what has been acknowledged."""

    cc: CongestionControl
    rate_bps: int
    start: int = 0
    stop: int = 1 << 62
    free_at: int = 0
    delivered: int = 0
    trimmed: int = 0
    lost: int = 0
    asleep: bool = False
    cnp: CnpGenerator | None = None


@dataclass
class Bottleneck:
    """The queue, the senders and the event list. Rates in b/s, times in ns, sizes in bytes."""

    rate_bps: int
    base_rtt: int
    mtu: int
    seed: int
    mark_from: int
    mark_full: int
    limit: int
    mark_max: float = 1.0
    trimming: bool = True
    senders: list[Sender] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self._queue: deque[tuple[Sender, int]] = deque()
        self.queued = 0
        self._busy = False
        self.delays: list[tuple[int, int]] = []  # time, queueing delay of each packet that passed
        self.passed = 0

    def add(self, sender: Sender) -> Sender:
        """Let a sender start at its time."""
        self.senders.append(sender)
        self._at(max(sender.start, self.now), lambda: self._send(sender))
        return sender

    def run(self, until: int) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = until

    def mean_delay(self, since: int) -> float:
        """Mean queueing delay of the packets that passed after `since`."""
        seen = [delay for time, delay in self.delays if time >= since]
        return sum(seen) / len(seen)

    def _at(self, when: int, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._events, (when, self._serial, action))

    def _time(self, size: int, rate_bps: int) -> int:
        return size * 8_000_000_000 // rate_bps

    def _send(self, sender: Sender) -> None:
        cc, size = sender.cc, self.mtu
        while cc.inflight < cc.cwnd and self.now < sender.stop:
            allowed = sender.free_at
            if isinstance(cc, Dcqcn):
                allowed = max(allowed, cc.earliest_send(self.now))
            if allowed > self.now:
                if not sender.asleep:
                    sender.asleep = True
                    self._at(allowed, lambda: self._wake(sender))
                return
            sender.free_at = self.now + self._time(size, sender.rate_bps)
            cc.inflight += size
            if isinstance(cc, Dcqcn):
                cc.on_send(size, self.now)
            self._at(sender.free_at, partial(self._arrive, sender, self.now))

    def _wake(self, sender: Sender) -> None:
        sender.asleep = False
        self._send(sender)

    def _arrive(self, sender: Sender, sent: int) -> None:
        if self.queued + self.mtu > self.limit:
            if self.trimming:
                sender.trimmed += 1
                self._at(sent + self.base_rtt, lambda: self._trim(sender, sent))
            else:
                sender.lost += 1
                self._at(self.now + 2 * self.base_rtt, lambda: self._lose(sender))
            return
        self._queue.append((sender, sent))
        self.queued += self.mtu
        if not self._busy:
            self._serve()

    def _serve(self) -> None:
        if not self._queue:
            self._busy = False
            return
        self._busy = True
        self._at(self.now + self._time(self.mtu, self.rate_bps), self._leave)

    def _leave(self) -> None:
        sender, sent = self._queue.popleft()
        self.queued -= self.mtu
        self.passed += self.mtu
        chance = self.mark_max * (self.queued - self.mark_from) / (self.mark_full - self.mark_from)
        marked = self.queued > self.mark_full or self._rng.random() < chance
        # The base round trip holds one transmission on each line.
        waited = self.now - sent - self._time(self.mtu, self.rate_bps) - self._time(self.mtu, sender.rate_bps)
        self.delays.append((self.now, waited))
        self._at(sent + self.base_rtt + waited, lambda: self._acknowledge(sender, sent, marked))
        self._serve()

    def _acknowledge(self, sender: Sender, sent: int, marked: bool) -> None:
        cc, size = sender.cc, self.mtu
        cc.inflight -= size
        sender.delivered += size
        if sender.cnp is not None and isinstance(cc, Dcqcn) and sender.cnp.on_packet(marked, self.now):
            cc.on_cnp(self.now)
        cc.on_ack(size, size, self.now - sent, marked, self.now)
        self._send(sender)

    def _trim(self, sender: Sender, sent: int) -> None:
        sender.cc.inflight -= self.mtu
        sender.cc.on_trim(self.mtu, self.now)
        self._send(sender)

    def _lose(self, sender: Sender) -> None:
        sender.cc.inflight -= self.mtu
        sender.cc.on_loss(self.mtu, self.now)
        self._send(sender)


def bottleneck(rate_bps: int, base_rtt: int, mtu: int, seed: int, *, trimming: bool = True) -> Bottleneck:
    """A queue with the thresholds Ultra Ethernet advises: marks at 0.2..0.8, trims at 1, drops at 5 of the BDP."""
    bdp = rate_bps * base_rtt // 8_000_000_000
    return Bottleneck(
        rate_bps,
        base_rtt,
        mtu,
        seed,
        mark_from=bdp // 5,
        mark_full=bdp * 4 // 5,
        limit=max(bdp * (1 if trimming else 5), 2 * mtu),
        trimming=trimming,
    )
