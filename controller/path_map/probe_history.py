"""Fates of all probes: the reports of all agents together, slice by slice of time.

A probe counts as lost when its receiver has reported a while (`grace`) after its sender, and has not seen it. So
neither clocks nor rounds need to agree. While a receiver is silent no loss is counted on the way to it: after
`report_timeout`, or when the receiver has been away for half of that, the probe is forgotten. A report that comes later
corrects the count, so that a machine that stood still leaves no trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.path_map.plane_model import Floats
from mrc_host.path_probes import ProbeReport
from topologies import addressing
from topologies.probe_plan import FabricProbePlan

_Counts = NDArray[np.int32]
_ROUNDS_KEPT = 64  # of each host


class _Slice:
    """Probes judged at one time."""

    __slots__ = ("lossy", "lost", "sent", "time")

    def __init__(self, time: int, routes: int) -> None:
        self.time = time
        self.lossy = False
        self.sent: _Counts = np.zeros(routes, dtype=np.int32)
        self.lost: _Counts = np.zeros(routes, dtype=np.int32)


class _Sent:
    """Probes of one host and round, to one receiver, that are not judged yet."""

    __slots__ = ("host", "learned", "paths", "receiver", "round")

    def __init__(self, host: str, receiver: str, number: int, paths: int, learned: int) -> None:
        self.host = host
        self.receiver = receiver
        self.round = number
        self.paths = paths
        self.learned = learned


class ProbeHistory:
    """Counts by route (in the order of `FabricProbePlan.all_routes`) over the last `keep_ns`."""

    def __init__(self, plan: FabricProbePlan, *, grace_ns: int, report_timeout_ns: int, keep_ns: int) -> None:
        self._plan = plan
        self._grace = grace_ns
        self._report_timeout = report_timeout_ns
        self._keep = keep_ns
        self._names = {addressing.nic_address(plan.fabric, nic).packed: nic.name for nic in plan.fabric.nics}
        self._begins: dict[str, int] = {}
        self._receivers: dict[str, dict[str, int]] = {}
        count = 0
        for host, routes in plan.routes.items():
            self._begins[host] = count
            count += len(routes)
            sets: dict[str, int] = {}
            for number, route in enumerate(routes):
                sets[route.target] = sets.get(route.target, 0) | 1 << number
            self._receivers[host] = sets
        self.routes = count
        self._waiting: deque[_Sent] = deque()
        self._arrived: dict[tuple[str, int], int] = {}  # by sender and round
        self._lost: dict[tuple[str, int], dict[int, _Slice]] = {}  # judged so: by path, where it was counted
        self._last_reports: dict[str, int] = {}
        self._slices: deque[_Slice] = deque()
        self.late = 0  # probes that arrived after they had been judged lost

    def last_report(self, host: str) -> int | None:
        """When a host last reported."""
        return self._last_reports.get(host)

    def absorb(self, host: str, report: ProbeReport, now: int, asked: int | None = None) -> None:
        """A host's agent has reported; it was asked for it at `asked` (`now`, if that took no time)."""
        last_report = now if asked is None else asked
        if not report.probing or last_report > self._last_reports.get(host, last_report) + self._report_timeout // 2:
            # It was away: what came meanwhile may have been seen by nobody.
            self._waiting = deque(sent for sent in self._waiting if sent.receiver != host)
        self._last_reports[host] = last_report
        known = (1 << len(self._plan.routes[host])) - 1
        for sent in report.sent:
            for receiver, paths in self._receivers[host].items():
                if sent.paths & paths & known:
                    self._waiting.append(_Sent(host, receiver, sent.round, sent.paths & paths, now))
        for arrived in report.arrived:
            source = self._names.get(arrived.source)
            if source is not None:
                key = source, arrived.round
                self._arrived[key] = self._arrived.get(key, 0) | arrived.paths
                self._put_right(key, arrived.paths)

    def judge(self, now: int) -> None:
        """Decide about all probes whose time has come."""
        current = _Slice(now, self.routes)
        still: deque[_Sent] = deque()
        for sent in self._waiting:
            if self._last_reports.get(sent.receiver, -1) >= sent.learned + self._grace:
                self._count(sent, current)
            elif now < sent.learned + self._report_timeout:
                still.append(sent)
        self._waiting = still
        self._slices.append(current)
        while self._slices and self._slices[0].time < now - self._keep:
            self._slices.popleft()
        self._forget_old()

    def counts(self, since: int) -> tuple[Floats, Floats]:
        """Probes sent and lost, by route, of those judged at `since` or later."""
        return self.counts_since([since])[0]

    def counts_since(self, times: Sequence[int]) -> list[tuple[Floats, Floats]]:
        """:meth:`counts` since each of some times, the latest first."""
        sent, lost = np.zeros(self.routes, dtype=np.int32), np.zeros(self.routes, dtype=np.int32)
        slices = reversed(self._slices)
        part = next(slices, None)
        found = []
        for since in times:
            while part is not None and part.time >= since:
                sent += part.sent
                if part.lossy:
                    lost += part.lost
                part = next(slices, None)
            found.append((sent.astype(float), lost.astype(float)))
        return found

    def erase(self, routes: NDArray[np.bool_], before: int) -> None:
        """Forget what happened on some routes before a time: it was of a fault that is over."""
        for part in self._slices:
            if part.time < before:
                part.sent[routes] = 0
                part.lost[routes] = 0

    def _count(self, sent: _Sent, current: _Slice) -> None:
        key = sent.host, sent.round
        missing = sent.paths & ~self._arrived.get(key, 0)
        begin = self._begins[sent.host]
        current.sent[[begin + path for path in _bits(sent.paths)]] += 1
        for path in _bits(missing):
            current.lost[begin + path] += 1
            current.lossy = True
            self._lost.setdefault(key, {})[path] = current

    def _put_right(self, key: tuple[str, int], paths: int) -> None:
        judged = self._lost.get(key)
        if not judged:
            return
        for path in [path for path in judged if paths >> path & 1]:
            where = judged.pop(path)
            route = self._begins[key[0]] + path
            self.late += 1
            if where.lost[route]:
                where.lost[route] -= 1

    def _forget_old(self) -> None:
        """Bound what is kept for probes that may still turn up."""
        limit = _ROUNDS_KEPT * len(self._begins)
        books: tuple[dict[tuple[str, int], Any], ...] = (self._arrived, self._lost)
        for book in books:
            while len(book) > limit:
                del book[next(iter(book))]


def _bits(value: int) -> Iterator[int]:
    while value:
        low = value & -value
        value ^= low
        yield low.bit_length() - 1
