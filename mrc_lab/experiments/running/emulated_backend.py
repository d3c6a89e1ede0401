"""The backend of emulation: real processes on a scaled fabric, the monotonic clock.

Rates and times are the file's divided and multiplied by a factor (`scaling`), which reports show. Faults go through the
controller. Whether the run can be trusted is watched meanwhile (`fidelity`), and it ends at once when a process of the
fabric crashes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from time import monotonic_ns
from typing import Any, TypeVar

import numpy as np

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.fault_limits import EMULATION
from mrc_host import verbs
from mrc_host.verbs.context import Context
from mrc_host.verbs_types import QpAttributes
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.flow_checks import expected_flows
from mrc_lab.experiments.files.model import Case, case_prefix
from mrc_lab.experiments.files.workloads import SizedFlows
from mrc_lab.experiments.running import fault_times, machine_delays, reroute_events, switch_counters, switch_management
from mrc_lab.experiments.running.fault_times import Deviation, FaultTimes
from mrc_lab.experiments.running.fidelity import FidelityWatch
from mrc_lab.experiments.running.machine_delays import Hop
from mrc_lab.experiments.running.queue_samples import QueueSampler
from mrc_lab.experiments.running.recording import Fidelity, RerouteRecord, Samples
from mrc_lab.experiments.running.scaling import NAME, scaled_attributes, scaled_fabric, scaled_fault, stretch_of
from mrc_lab.experiments.running.signal_samples import SignalSampler
from mrc_lab.fabric import event_traces
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.fabric.supervision import crash_message
from mrc_lab.workloads.collectives import PacingSettings
from topologies.emulation import link_counters, wire_kind
from topologies.emulation.process_watch import Crash
from topologies.emulation.switch_kind import SwitchKind, SwitchSelection
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults import Fault
from topologies.faults.delay import Delay
from topologies.p4_program import read_program

T = TypeVar("T")
LONGEST_S = 600.0  # of a run, scaled
MAX_QUEUE_PAIRS = 20_000  # of random flows: they take a minute
_CRASH_NOTICE_S = 0.5  # after what it broke
_TIME_TO_ORDER_NS = 300_000_000  # a fault, very generous
_SIGNAL_PERIOD_NS = 250_000_000  # every switch is asked for all its counters
_TIME_TO_MAKE_NS = 200_000_000  # generous, for the last of a run's faults


class EmulatedBackend:
    """A fabric that is up; see `mrc_lab.experiments.running.backend.Backend`."""

    link_delay = 0
    verbs_take_time = True

    def __init__(
        self, case: Case, world: EmulatedWorld, controller: ControllerClient, rate_scale: float, stack: ExitStack
    ) -> None:
        self._world = world
        self._controller = controller
        self._stack = stack
        self._watch = FidelityWatch(world.cpu_seconds, world.fabric, self._delays)
        self._stretch = stretch_of(case, world.fabric)
        faults = [scaled_fault(planned.fault, rate_scale) for planned in case.faults]
        self._losing = losing_switches(world.fabric, faults)
        self._lost: dict[str, int] = {}
        self._reroutes: list[RerouteRecord] = []
        if world.fabric.reroute_ns is not None:
            stack.enter_context(reroute_events.followed(controller, self._reroutes.append))
        self._ordered: dict[str, FaultTimes] = {}  # by the controller's id
        self._deviations: tuple[Deviation, ...] = ()  # of faults from their times
        self.rate_scale = rate_scale
        self.time_scale = 1 / rate_scale
        self.channels = tuple(f"{link.name}{mark}" for link in world.fabric.links for mark in "><")
        self._queues = QueueSampler(world.fabric, self.channels)
        self._signals = SignalSampler(world.fabric, self.channels)
        self.signal_period = _SIGNAL_PERIOD_NS

    @property
    def fabric(self) -> Fabric:
        """What is up."""
        return self._world.fabric

    def now(self) -> int:
        """CLOCK_MONOTONIC in ns."""
        return monotonic_ns()

    def open(self, host: str) -> Context:
        """Verbs on a host's NIC, through its agent."""
        return self._stack.enter_context(verbs.open(self._world.emulation.socket(host)))

    def attributes(self, given: Mapping[str, Any], ends: tuple[str, str] | None = None) -> QpAttributes:
        """Scaled, with an ACK timeout that outlasts full queues: at the rates here they hold a packet for long."""
        return scaled_attributes(given, self.fabric, self._stretch)

    def pacing(self) -> PacingSettings:
        """Nothing: the library takes its own time."""
        return PacingSettings()

    async def order_faults(self, faults: Sequence[PlannedFault]) -> int:
        """Give all to the controller, which makes and clears each at its time; the run begins when it has them.

        Those that are there from the beginning it makes at once. ExperimentError when all that takes too long.
        """
        begin = self.now() + len(faults) * _TIME_TO_ORDER_NS
        for planned in faults:
            fault = scaled_fault(planned.fault, self.rate_scale)
            at = begin + round(planned.at * self.time_scale)
            until = None if planned.until is None else begin + round(planned.until * self.time_scale)
            duration = 0 if until is None else until - (at if planned.at else self.now())
            start = at if planned.at else 0
            record = await asyncio.to_thread(self._controller.inject, fault, at_ns=start, duration_ns=duration)
            self._ordered[record.id] = FaultTimes(fault.in_words(), at, until)
        if self.now() > begin and faults:
            raise ExperimentError("the controller was too slow to take the faults", "Is the machine busy? Try again.")
        return begin

    def reroutes(self) -> Sequence[RerouteRecord]:
        """As the controller has reported them so far."""
        return self._reroutes

    async def check_faults(self, over: int) -> list[str]:
        """Sentences on faults that could not be made in a run that was `over` then; their times are for `fidelity`.

        What was due a moment before may still be made, so that is waited for.
        """
        due = [time for times in self._ordered.values() for time in (times.begin, times.end) if time and time < over]
        if not due:
            return []
        await asyncio.sleep(max(0, max(due) + _TIME_TO_MAKE_NS - self.now()) / 1e9)
        try:
            records = await asyncio.to_thread(self._controller.faults, cleared=True)
        except ControllerError as error:
            return [f"whether all faults were made as planned is not known: {error}"]
        self._deviations = fault_times.deviations(self._ordered, records, over)
        return fault_times.problems(self._ordered, records)

    async def sample_channels(self) -> Samples:
        """Packets and bytes by the interfaces' counters, what faults lost by the P4 program's.

        To ask a switch costs its processor a millisecond and ours more, so only those are asked that the run's faults
        let lose. One that does not answer has lost what it had when it last did.
        """
        carried = link_counters.read(self.fabric)
        self._lost.update(await asyncio.to_thread(self._read_lost))
        found = []
        for name, link in carried.items():
            directions = {f"{name}>": link.upward, f"{name}<": link.downward}
            found += [(sent.packets, sent.bytes, self._lost.get(channel, 0)) for channel, sent in directions.items()]
        return np.array(found, dtype=np.int64)

    def _read_lost(self) -> Mapping[str, int]:
        counters = [row for switch in self._losing for row in self._controller.counters(switch)]
        return switch_counters.lost(self.fabric, counters)

    async def sample_queues(self) -> Samples:
        """Of every port of the embedded switches; BMv2 and Linux have no such figures."""
        address = self._world.emulation.switches_address
        return self._queues.sample(await asyncio.to_thread(switch_management.sample_ports, self.fabric, address))

    async def sample_signals(self) -> Samples:
        """By the P4 program's counters; without the controller, which may be what a fault has taken, as they were."""
        try:
            return self._signals.sample(await asyncio.to_thread(self._controller.counters))
        except ControllerError:
            return self._signals.sample(())

    def trimmed(self) -> Mapping[str, int]:
        """Packets trimmed, by channel, by the P4 program's counters."""
        return switch_counters.trimmed(self.fabric, self._controller.counters())

    def drops(self) -> Mapping[str, int]:
        """Frames dropped, by reason and channel, without those that `sample_channels` counts as lost."""
        own = switch_management.read_counters(self.fabric, self._world.emulation.switches_address)
        return switch_counters.drops(self.fabric, self._controller.counters(), own)

    def traffic(self) -> AbstractAsyncContextManager[None]:
        """Watched."""
        return self._watch.traffic()

    def fidelity(self) -> Fidelity:
        """What the watch has seen."""
        return self._watch.judge(self._deviations)

    def traced(self, folder: Path, captures: Sequence[str]) -> AbstractContextManager[None]:
        """Event traces of all NICs meanwhile, written by their agents. Links are not captured here."""
        sockets = {nic.name: self._world.emulation.socket(nic.name) for nic in self.fabric.nics}
        return event_traces.recorded(sockets, folder)

    def _delays(self, measure: bool) -> Mapping[str, Hop]:
        emulation = self._world.emulation
        sockets = {nic.name: emulation.socket(nic.name) for nic in self.fabric.nics}
        return machine_delays.read(self.fabric, emulation.switches_address, sockets, measure=measure)

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. Raises ExperimentError as soon as a process of the fabric crashes."""

        async def prepared() -> T:
            await self._watch.prepare()
            return await self._while_all_live(job)

        return asyncio.run(prepared())

    async def _while_all_live(self, job: Coroutine[Any, Any, T]) -> T:
        work, loop, crash = asyncio.ensure_future(job), asyncio.get_running_loop(), asyncio.Event()
        watch = self._world.emulation.watch
        assert watch is not None, "a fabric that is up has one"
        waiting = asyncio.ensure_future(crash.wait())

        def notify(_: Crash) -> None:
            loop.call_soon_threadsafe(crash.set)

        try:
            with watch.listening(notify):
                await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
                if work.done() and work.exception() is not None:  # perhaps of a crash that is reported in a moment
                    await asyncio.wait((waiting,), timeout=_CRASH_NOTICE_S)
            if self._world.crashes():
                raise ExperimentError(*crash_message(self._world.crashes()))
            return await work
        finally:
            for task in (work, waiting):
                task.cancel()
            await asyncio.gather(work, waiting, return_exceptions=True)


def check(case: Case, scale: float, fabric: Fabric | None = None) -> None:
    """ExperimentError for anything in the case that only simulation can do; before anything starts.

    `fabric` is the case's, scaled, where switches were chosen for it.
    """
    for rule in case.fabric.links:
        if rule.delay_ns:
            raise ExperimentError(
                f"{case_prefix(case.name)}emulated links have no propagation delay, but fabric.links gives one to"
                f" {rule.links}",
                "Use --backend sim, or the fault delay.",
            )
    file = case.fabric.file
    if file is not None and any(link.delay_ns for link in file.fabric.links):
        raise ExperimentError(
            f"{case_prefix(case.name)}emulated links have no propagation delay, but {file.path} gives some one",
            "Use --backend sim, or leave the delays out.",
        )
    most = EMULATION.max_faults
    if most is not None and len(case.faults) > most:
        raise ExperimentError(
            f"{case_prefix(case.name)}there are {len(case.faults)} faults, but the controller of an emulated fabric"
            f" takes {most}",
            "Leave some out, or use --backend sim.",
        )
    _check_sized_flows(case)
    fabric = fabric or scaled_fabric(case, scale)
    if case.measure.queues and not fabric.p4_switches:
        raise ExperimentError(
            f"{case_prefix(case.name)}Linux does not say what waits at the ports of its switches",
            "Leave measure.queues out, or use --switch embedded for some.",
        )
    for fault in case.faults:
        _check_fault(fault, fabric, scale)
    seconds = case.duration / 1e9 / scale
    if seconds > LONGEST_S:
        raise ExperimentError(
            f"{case_prefix(case.name)}at the rates that this machine carries the run would last {seconds:.0f} s",
            f"Shorten its duration, or use fewer hosts and planes: {LONGEST_S:.0f} s is the most.",
        )


def _check_sized_flows(case: Case) -> None:
    """ExperimentError when the queue pairs of flows, which are made before the run, would take too long."""
    for tenant in case.tenants:
        load = tenant.workload
        if isinstance(load, SizedFlows) and load.connections == "own":
            flows = expected_flows(load, build_fabric(case.fabric), case.duration)
            if flows * tenant.transport.qps > MAX_QUEUE_PAIRS:
                raise ExperimentError(
                    f"{case_prefix(case.name)}about {flows:,.0f} flows would begin, whose queue pairs emulation makes"
                    f" before the run: {MAX_QUEUE_PAIRS:,} are the most",
                    "Give count, a shorter until, or connections: shared; or use --backend sim.",
                )


def losing_switches(fabric: Fabric, faults: Sequence[Fault]) -> tuple[str, ...]:
    """Switches whose P4 program makes some of the faults, and so counts what they lose."""
    each = (EMULATION.effect_of(fabric, fault) for fault in faults)
    return tuple(dict.fromkeys(switch for effect in each for switch in effect.switches))


def _check_fault(planned: PlannedFault, fabric: Fabric, scale: float) -> None:
    fault = scaled_fault(planned.fault, scale)
    try:
        EMULATION.effect_of(fabric, fault)
    except FabricError as error:
        raise ExperimentError(f"line {planned.line}: {error}", "Use --backend sim.") from None


@contextmanager
def emulated_backend(
    case: Case, scale: float, switch: str, name: str = NAME, wire: str = wire_kind.DEFAULT
) -> Iterator[EmulatedBackend]:
    """Bring the case's fabric up scaled, and take it down on leaving. Raises ExperimentError or EmulationError."""
    selection = SwitchSelection.parse(switch)
    fabric = selection.applied(scaled_fabric(case, scale, name))
    check(case, scale, fabric)
    if case.measure.queues and selection.program is SwitchKind.BMV2:
        raise ExperimentError(
            f"{case_prefix(case.name)}BMv2 does not say what waits in its queues",
            "Leave measure.queues out, or use --switch embedded.",
        )
    if selection.program is SwitchKind.BMV2:
        for planned in case.faults:
            if isinstance(planned.fault, Delay):
                raise ExperimentError(
                    f"line {planned.line}: links of BMv2 cannot be given a delay",
                    "Use --switch embedded, or --backend sim.",
                )
    program = None if case.p4 is None else read_program(Path(case.p4))
    with running(fabric, switch=selection.program.value, wire=wire, program=program) as world, ExitStack() as stack:
        controller = stack.enter_context(world.controller())
        yield EmulatedBackend(case, world, controller, scale, stack)
