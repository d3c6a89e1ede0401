"""Plays a scenario and lists everything that is not as it must be.

Applications use the verbs in coroutines, as anywhere else. What is checked, all from the outside, stands with those
that check: memory and completions (``write_checks``), failures and delays (``excused_failures``), how much was sent
where and when (``traffic_checks``), use of denied paths (``denylists``), and the end state (``final_checks``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import AsyncEvent, Completion, PathEvent, PathState, PortEvent
from simulation.errors import StalledError
from simulation.transport_timers import retry_budget
from simulation.world import SimulatedWorld
from tests.swarm.application_fault_player import Lives
from tests.swarm.application_faults import HOST_FAULTS, SharedQueue
from tests.swarm.applications import Applications
from tests.swarm.channel_faults import CHANNEL_FAULTS, ChannelFaults
from tests.swarm.denylists import Denied, DenylistChecker
from tests.swarm.excused_failures import Verdicts
from tests.swarm.final_checks import Afterwards
from tests.swarm.kept_planes import kept_planes
from tests.swarm.life_attributes import longest_retries
from tests.swarm.remaps import with_silences
from tests.swarm.scenario import FOREVER, HORIZON, Scenario
from tests.swarm.traffic_checks import Shares
from tests.swarm.traffic_counts import Flow, TrafficCounts
from tests.swarm.write_checks import Ledger

_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SwarmOutcome:
    """What came of a run. `violations` are sentences; none means that all is well."""

    seed: int
    violations: tuple[str, ...]
    trace: str
    frames: int
    packets: int
    failed_pairs: int
    end: int


def run(scenario: Scenario) -> SwarmOutcome:
    """Run it."""
    return SwarmRun(scenario).play()


class SwarmRun:
    """One run of a scenario; `applications` are what writes in it."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        once = min(1024 << pair.attributes.timeout for pair in scenario.pairs)
        self._counts = TrafficCounts(scenario.fabric, 2 * once)
        self._world = world = SimulatedWorld(
            scenario.fabric, seed=scenario.seed, delay=scenario.delay, queues=scenario.queues, trace=self._counts
        )
        self._violations: list[str] = []
        self._ledger = Ledger(self._report, lambda: world.now, lambda: self._counts.progress(world.now))
        self.applications = Applications(scenario, world, self._heard, self._happened)
        self._counts.kept_planes = kept_planes(scenario, self.applications, self._report)
        self._afterwards = Afterwards(scenario, world, self._report)
        self._snapshots: dict[Flow, int] = {}
        self._done = asyncio.Event()

    def play(self) -> SwarmOutcome:
        """Run to the end and look at everything."""
        scenario, world, applications = self._scenario, self._world, self.applications
        denylists = DenylistChecker(world, self._report)
        denials, channels = [], ChannelFaults(world)
        for planned in scenario.faults:
            if isinstance(planned.fault, Denied):
                denials.append((planned.fault, planned.start, planned.end))
            elif isinstance(planned.fault, CHANNEL_FAULTS):
                channels.plan(planned)
            elif not isinstance(planned.fault, HOST_FAULTS):
                until = None if planned.end >= FOREVER else planned.end
                world.faults.add(planned.fault, at=planned.start, until=until)
        denylists.plan(denials)
        verdicts = Verdicts(with_silences(scenario), self._transport(), self._report)
        shares = Shares(scenario, self._transport(), self._counts, self._report)
        with world:
            try:
                world.run(self._job(Lives(world, applications, denylists)))
            except (TimeoutError, asyncio.TimeoutError):
                self._report(f"{self._missing()} are missing after {world.now} ns")
            except StalledError:
                self._report(f"at {world.now} ns all is still, but {self._missing()} are missing")
            end = world.now
            self._counts.finish(end)
            self._ledger.check_memory(applications)
            failed = verdicts.failures(applications)
            verdicts.timeouts(applications)
            verdicts.throughput(applications)
            verdicts.delays(applications)
            verdicts.starvation(applications)
            shares.planes(applications)
            shares.floor(applications)
            shares.storms(applications)
            shares.fair(self._snapshots)
            if self._afterwards.wait():
                self._afterwards.rest()
                self._afterwards.paths(applications)
            self._afterwards.devices()
            self._afterwards.counters(applications, self._ledger)
            cut = self._counts.cut()
            packets = sum(end.qp.counters().data_sent for end, _ in applications.ends)
        return SwarmOutcome(scenario.seed, tuple(self._violations), cut.hash, cut.frames, packets, failed, end)

    def _report(self, text: str) -> None:
        self._violations.append(text)

    def _transport(self) -> TransportSettings:
        return self._world.fabric.settings.transport

    def _missing(self) -> str:
        waiting = [
            f"write {posted.number} of {end.nic} to {other.nic}"
            for end, other in self.applications.ends
            for posted in end.writes
            if not posted.settled()
        ]
        return f"completions or announcements of {len(waiting)} writes, first of {waiting[0] if waiting else 'none'},"

    # ---- the job --------------------------------------------------------------------------------------------------

    async def _job(self, lives: Lives) -> None:
        scenario, applications = self._scenario, self.applications
        applications.start()
        acts = lives.start(scenario)
        for act in acts:
            act.add_done_callback(lambda _: self._settle())
        times = [time for fault in scenario.faults for time in (fault.start, fault.end) if time < FOREVER]
        budgets = [retry_budget(longest_retries(pair), self._transport()) for pair in scenario.pairs]
        # Who shares a full queue may post only once another one's request has failed.
        shared = any(isinstance(planned.fault, SharedQueue) for planned in scenario.faults)
        budget = sum(budgets) if shared else max(budgets)
        deadline = 2 * (HORIZON + max(times, default=0) + 2 * budget) + _SECOND
        try:
            if not applications.all_settled():
                await asyncio.wait_for(self._done.wait(), deadline / _SECOND)
        finally:
            for task in [*applications.tasks(), *acts]:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    self._report(f"an application met {task.exception()!r}")
                task.cancel()

    def _heard(self, nic: str, completion: Completion) -> None:
        self._ledger.completed(self.applications, nic, completion)
        self._compare()
        self._settle()

    def _settle(self) -> None:
        if self.applications.all_settled():
            self._done.set()

    def _compare(self) -> None:
        """Once the first flow of a contest has delivered everything, note how far they all are."""
        contest = self._scenario.contest
        if not contest or self._snapshots:
            return
        ends = [self.applications.pairs[number] for number in contest]
        if any(all(posted.completions for posted in first.writes) for first, _ in ends):
            self._snapshots = {
                (first.nic, second.qp.qpn): self._counts.sent[first.nic, second.qp.qpn]
                for first, second in ends
                if first.writes
            }

    def _happened(self, nic: str, event: AsyncEvent) -> None:
        """Note which queue pairs had a reason to leave a path or a plane."""
        for end, other in self.applications.ends:
            if end.nic != nic:
                continue
            if isinstance(event, PortEvent):
                end.path_changed = True
            elif isinstance(event, PathEvent) and event.qpn == end.qp.qpn:
                end.path_changed |= event.new is not PathState.SKIP
                self._afterwards.good_news(end, other, event)
