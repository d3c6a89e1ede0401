"""The backend of the simulation: virtual time, no root, the file's own rates and times."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from controller.values import Count, PortCounters, SwitchCounters
from mrc_common import written_files
from mrc_host.agent.trace_file import TraceFile
from mrc_host.verbs.context import Context
from mrc_host.verbs_types import QpAttributes
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.running import switch_counters
from mrc_lab.experiments.running.fitted_fabric import fitted_fabric
from mrc_lab.experiments.running.psn_range import with_psn_range
from mrc_lab.experiments.running.queue_samples import QueueSampler
from mrc_lab.experiments.running.recording import SIGNAL_COUNTERS, Fidelity, RerouteRecord, Samples
from mrc_lab.experiments.running.signal_samples import SignalSampler
from mrc_lab.workloads.collectives import PacingSettings
from p4runtime_shim.entities import CounterValue
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.traffic_manager import PortStats
from p4src import DROP_REASONS, PORT_COUNTERS, port_drop
from simulation.link_capture import SimulatedCapture
from simulation.program_counters import ProgramCounters
from simulation.world import SimulatedWorld, load_program
from topologies.fabric import Fabric
from topologies.p4_program import read_program
from topologies.reroute_words import in_words

T = TypeVar("T")
_SIGNALS = tuple(f"{name}_packets" for name in SIGNAL_COUNTERS)


class SimulatedBackend:
    """One simulated world; see `mrc_lab.experiments.running.backend.Backend`."""

    rate_scale = 1.0
    time_scale = 1.0
    signal_period = 0
    verbs_take_time = False

    def __init__(self, world: SimulatedWorld, link_delay: int = 0) -> None:
        self.link_delay = link_delay
        self._world = world
        self._contexts: list[Context] = []
        ends = [(link.lower, link.upper, link.name) for link in world.fabric.links]
        self._sources = [end for lower, upper, _ in ends for end in (lower, upper)]
        self.channels = tuple(f"{name}{mark}" for *_, name in ends for mark in "><")
        self._watched = [world.channel(end) for end in self._sources]
        self._queues = QueueSampler(world.fabric, self.channels)
        self._signals = SignalSampler(world.fabric, self.channels)

    @property
    def fabric(self) -> Fabric:
        """What is up."""
        return self._world.fabric

    def now(self) -> int:
        """Virtual time in ns."""
        return self._world.now

    def open(self, host: str) -> Context:
        """Verbs on a host's NIC."""
        context = self._world.open(host)
        self._contexts.append(context)
        return context

    def attributes(self, given: Mapping[str, Any], ends: tuple[str, str] | None = None) -> QpAttributes:
        """With the ACK timeout and the range of PSNs fitted, unless given."""
        return replace(self._world.attributes(ends=ends), **with_psn_range(given, self.fabric))

    def pacing(self) -> PacingSettings:
        """As the file says."""
        timing = self._world.hardware
        return PacingSettings(timing.launch, timing.step, timing.copy_rate)

    async def order_faults(self, faults: Sequence[PlannedFault]) -> int:
        """Hand them to the world, which makes them happen by itself; the run begins now."""
        begin = self.now()
        for fault in faults:
            until = None if fault.until is None else begin + fault.until
            self._world.faults.add(fault.fault, at=begin + fault.at, until=until)
        return begin

    def reroutes(self) -> Sequence[RerouteRecord]:
        """Those of the world."""
        done = self._world.rerouting.done if self._world.rerouting is not None else ()
        return [RerouteRecord(one.time, one.plane, in_words(one.without, one.changes)) for one in done]

    async def check_faults(self, over: int) -> list[str]:
        """They cannot fail."""
        return []

    async def sample_channels(self) -> Samples:
        """Frames, bytes and losses of every channel so far."""
        lost = self._world.faults.counts.lost(self._watched)
        counted = [(channel.frames, channel.bytes, gone) for channel, gone in zip(self._watched, lost, strict=True)]
        return np.array(counted, dtype=np.int64)

    async def sample_queues(self) -> Samples:
        """Of every switch port, at this moment."""
        now, names = self._world.now, [switch.name for switch in self.fabric.switches]
        return self._queues.sample({name: (now, self._world.switch(name).sample_ports(now)) for name in names})

    async def sample_signals(self) -> Samples:
        """By the P4 program's counters, at this moment."""
        return self._signals.sample(_signal_counters(self._world))

    def trimmed(self) -> Mapping[str, int]:
        """Packets trimmed, by channel; only channels for which any were."""
        return switch_counters.trimmed(self.fabric, _signal_counters(self._world))

    def drops(self) -> Mapping[str, int]:
        """Frames dropped, by reason and channel; only what occurred."""
        counters, own = _program_counters(self._world), _queue_counters(self._world)
        return switch_counters.drops(self.fabric, counters, own)

    def traffic(self) -> AbstractAsyncContextManager[None]:
        """Virtual time needs no watching."""
        return nullcontext()

    @contextmanager
    def traced(self, folder: Path, captures: Sequence[str]) -> Iterator[None]:
        """Event traces of all NICs and captures of links meanwhile."""
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            traces = {
                nic.name: files.enter_context(closing(TraceFile(folder / f"{nic.name}.jsonl")))
                for nic in self.fabric.nics
            }
            self._world.trace_nics(traces)
            for link in captures:
                name = self.fabric.link(link).name
                file = open(written_files.create(folder / f"{name}.pcapng"), "wb")  # noqa: SIM115 - closed by the stack
                SimulatedCapture(self._world, name, files.enter_context(file))
            try:
                yield
            finally:
                self._world.trace_nics({})

    def fidelity(self) -> Fidelity:
        """Virtual time is exact."""
        return Fidelity()

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self._world.run(job)  # type: ignore[return-value]


@contextmanager
def simulated_backend(case: Case, seed: int) -> Iterator[SimulatedBackend]:
    """Build the case's world, and free it on leaving. Raises SimulationError or MrcError."""
    fabric = fitted_fabric(case)
    settings, timing = fabric.settings.transport, case.timing
    delay = case.fabric.delay
    program = None if case.p4 is None else load_program(read_program(Path(case.p4)))
    with SimulatedWorld(fabric, seed=seed, delay=delay, transport=settings, hardware=timing, pipeline=program) as world:
        yield SimulatedBackend(world, delay)


def _program_counters(world: SimulatedWorld) -> Iterator[SwitchCounters]:
    """What every switch's P4 program has counted, as the controller reports it in emulation (`switch_counters`)."""
    for description in world.fabric.switches:
        switch = world.switch(description.name)
        counters = ProgramCounters(switch)
        cells = {name: counters.cells(name) for name in (*PORT_COUNTERS, "port_drops", "drop_reasons")}
        ports = []
        for port in description.ports:
            counts = [_count(words, cells[words][port]) for words in PORT_COUNTERS]
            for reason, words in enumerate(DROP_REASONS[1:], 1):
                counts.append(_count(words, cells["port_drops"][port_drop(port, reason)]))
            ports.append(PortCounters(port, "", tuple(counts)))
        reasons = (_count(words, cells["drop_reasons"][cell]) for cell, words in enumerate(DROP_REASONS[1:], 1))
        yield SwitchCounters(description.name, tuple(reasons), tuple(ports))


def _signal_counters(world: SimulatedWorld) -> Iterator[SwitchCounters]:
    """Of `_program_counters` only the packets marked and trimmed, which are read in every time bin."""
    for description in world.fabric.switches:
        switch = world.switch(description.name)
        counters = ProgramCounters(switch)
        cells = {name: counters.cells(name) for name in _SIGNALS}
        ports = [
            PortCounters(port, "", tuple(Count(name, cells[name][port].packets, 0) for name in _SIGNALS))
            for port in description.ports
        ]
        yield SwitchCounters(description.name, (), tuple(ports))


def _queue_counters(world: SimulatedWorld) -> Iterator[pb.Switch]:
    """What every switch's traffic manager has counted, as the switches' own service reports it in emulation."""
    for description in world.fabric.switches:
        ports = world.switch(description.name).stats().ports
        yield pb.Switch(
            device_id=description.device_id,
            ports=[pb.Port(port=number, drops=_dropped(stats)) for number, stats in ports.items()],
        )


def _dropped(stats: PortStats) -> Mapping[str, int]:
    return {"queue_full": stats.queue_drops, "port_down": stats.down_drops, "no_headroom": stats.headroom_drops}


def _count(words: str, value: CounterValue) -> Count:
    return Count(words, value.packets, value.bytes)
