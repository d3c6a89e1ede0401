"""Repeated endpoint probes on every path to a NIC, and their results: the measuring part of ``mrc_ping``.

A *round* sends one probe on each path, with small gaps so that probes do not queue behind each other. A round begins
every interval, whether or not the previous one has been answered. The responder chooses the path of each answer
(docs/protocol.md §3), so a broken reverse path shows as some loss on all paths, and a broken forward path as 100 % loss
on that path.

The coroutine uses only its loop's clock, so it runs on virtual time too.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from mrc_host.tools.session import ToolError
from mrc_host.verbs.controller import Controller
from mrc_host.verbs_types import DestinationInfo, ProbeEvent

MAX_WAITING = 1024  # probes in flight to one NIC
_GAP_S = 0.01  # at most, between two probes of a round


@dataclass(frozen=True, slots=True)
class PingPlan:
    """Which paths (entropy values) to probe, how often (None: until cancelled), and timeouts; times in seconds."""

    evs: tuple[int, ...]
    count: int | None = None
    interval_s: float = 1.0
    timeout_s: float = 1.0
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        """Raise ToolError if there could be more probes in flight than the NIC keeps track of."""
        rounds = math.ceil(self.timeout_s / self.interval_s)
        waiting = len(self.evs) * (rounds if self.count is None else min(rounds, self.count))
        if waiting > MAX_WAITING:
            raise ToolError(
                f"{waiting} probes could be in flight at once, but the limit is {MAX_WAITING}:"
                " raise -i, lower -W, or choose paths with --ev or --plane."
            )


@dataclass(slots=True)
class PathTally:
    """One path's figures so far; round-trip times in nanoseconds."""

    ev: int
    plane: int
    sent: int = 0
    rtts: list[int] = field(default_factory=list)
    service_time_known: bool = True

    @property
    def answered(self) -> int:
        """Probes answered in time."""
        return len(self.rtts)

    @property
    def loss(self) -> float:
        """Share of the probes that were not answered, 0 to 1."""
        return 1 - self.answered / self.sent if self.sent else 0.0


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Statistics of round-trip times as ping prints them, in nanoseconds; `mdev` is the standard deviation."""

    minimum: int
    average: float
    maximum: int
    mdev: float


def round_trips(times: list[int]) -> RoundTrips | None:
    """Statistics of round-trip times; None without any."""
    if not times:
        return None
    average = sum(times) / len(times)
    mdev = math.sqrt(sum((time - average) ** 2 for time in times) / len(times))
    return RoundTrips(min(times), average, max(times), mdev)


OnResult = Callable[[int, PathTally, ProbeEvent], None]


class Pinger:
    """Probes the paths of `plan` to one NIC; `on_result` gets each outcome with the number of its round, from 1."""

    def __init__(
        self, controller: Controller, destination: DestinationInfo, plan: PingPlan, on_result: OnResult | None = None
    ) -> None:
        planes = dict(zip(destination.evs, destination.planes, strict=True))
        self.tallies = [PathTally(ev, planes[ev]) for ev in plan.evs]
        self._controller = controller
        self._peer = destination.address
        self._plan = plan
        self._on_result = on_result or (lambda number, tally, event: None)
        self._waiting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Probe until the plan is complete and every probe was answered or timed out.

        When cancelled, probes still in flight are not counted as sent.
        """
        try:
            await asyncio.wait_for(self._send(), self._plan.deadline_s)
        except asyncio.TimeoutError:
            pass  # the deadline: like ping, do not wait for probes in flight
        finally:
            for task in self._waiting:
                task.cancel()
            await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _send(self) -> None:
        plan, loop = self._plan, asyncio.get_running_loop()
        start, number = loop.time(), 0
        gap = min(_GAP_S, plan.interval_s / len(self.tallies))
        while plan.count is None or number < plan.count:
            for position, tally in enumerate(self.tallies):
                due = start + number * plan.interval_s + position * gap
                await asyncio.sleep(max(0.0, due - loop.time()))
                probe = self._controller.probe(self._peer, tally.ev, round(plan.timeout_s * 1e9))
                tally.sent += 1
                task = loop.create_task(self._take(number + 1, tally, probe))
                self._waiting.add(task)
                task.add_done_callback(self._waiting.discard)
            number += 1
        while self._waiting:
            await asyncio.gather(*self._waiting)

    async def _take(self, number: int, tally: PathTally, probe: int) -> None:
        try:
            event = await self._controller.next_result(probe)
        except asyncio.CancelledError:
            tally.sent -= 1
            raise
        if event.rtt is not None:
            tally.rtts.append(event.rtt)
            tally.service_time_known &= event.service_time_subtracted
        self._on_result(number, tally, event)
