"""The backend of the simulation: virtual time, no root, the file's own rates and times."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from mrc_host.values import QpAttributes
from mrc_host.verbs.context import Context
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.files.transport import fitted_settings
from mrc_lab.experiments.running import simulated_switch_counters, switch_counters
from mrc_lab.experiments.running.recording import Fidelity, Samples
from simulation.world import SimulatedWorld
from topologies.fabric import Fabric

T = TypeVar("T")


class SimulatedBackend:
    """One simulated world; see `mrc_lab.experiments.running.backend.Backend`."""

    rate_scale = 1.0
    time_scale = 1.0

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._contexts: list[Context] = []
        ends = [(link.lower, link.upper, link.name) for link in world.fabric.links]
        self._sources = [end for lower, upper, _ in ends for end in (lower, upper)]
        self.channels = tuple(f"{name}{mark}" for *_, name in ends for mark in "><")
        self._watched = [world.channel(end) for end in self._sources]

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

    def attributes(self, given: Mapping[str, Any]) -> QpAttributes:
        """With the ACK timeout fitted, unless given."""
        return replace(self._world.attributes(), **given)

    async def order_faults(self, faults: Sequence[PlannedFault]) -> int:
        """Hand them to the world, which makes them happen by itself; the run begins now."""
        begin = self.now()
        for fault in faults:
            until = None if fault.until is None else begin + fault.until
            self._world.faults.add(fault.fault, at=begin + fault.at, until=until)
        return begin

    async def faults_made(self) -> None:
        """They cannot fail."""

    async def sample_channels(self) -> Samples:
        """Frames, bytes and losses of every channel so far."""
        return np.array([(channel.frames, channel.bytes, channel.lost) for channel in self._watched], dtype=np.int64)

    def trimmed(self) -> Mapping[str, int]:
        """Packets trimmed, by channel; only channels for which any were."""
        return switch_counters.trimmed(self.fabric, simulated_switch_counters.counted(self._world))

    def drops(self) -> Mapping[str, int]:
        """Frames dropped, by reason and channel; only what occurred."""
        counters, own = simulated_switch_counters.counted(self._world), simulated_switch_counters.told(self._world)
        return switch_counters.drops(self.fabric, counters, own)

    def traffic(self) -> AbstractAsyncContextManager[None]:
        """Virtual time needs no watching."""
        return nullcontext()

    def fidelity(self) -> Fidelity:
        """Virtual time is exact."""
        return Fidelity()

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self._world.run(job)  # type: ignore[return-value]


@contextmanager
def simulated_backend(case: Case, seed: int) -> Iterator[SimulatedBackend]:
    """Build the case's world, and free it on leaving. Raises SimulationError or MrcError with one sentence."""
    fabric = build_fabric(case.fabric)
    delay = case.fabric.delay
    transport = fitted_settings(case.transport, fabric, delay)
    with SimulatedWorld(fabric, seed=seed, delay=delay, transport=transport) as world:
        yield SimulatedBackend(world)
