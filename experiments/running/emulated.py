"""The stage of the emulated world: real processes on a scaled fabric, the monotonic clock.

This machine does not carry the rates that files name, so all rates are divided by one factor and all times multiplied
by it: as many packets go by as in the file, and reports say the factor. Timers of the transport are those that suit
emulation, not the file's, since round trips do not scale. Faults go through the controller. Whether the run can be
trusted is watched meanwhile (`fidelity`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from time import monotonic_ns
from typing import Any, TypeVar

import numpy as np

from controller.client import ControllerClient
from experiments.capacity import carried_rate
from experiments.emulation import EmulatedWorld, running
from experiments.errors import ExperimentError
from experiments.files import faults as planned
from experiments.files.checks import build_fabric
from experiments.files.faults import PlannedFault
from experiments.files.kinds import suggest
from experiments.files.model import TIMERS, Case
from experiments.running.fidelity import Watch
from experiments.running.recording import Fidelity, Samples
from experiments.running.transport import settings_given
from mrc_host import verbs
from mrc_host.values import QpAttributes
from mrc_host.verbs.context import Context
from topologies.addressing import entropy_value
from topologies.fabric import Fabric

T = TypeVar("T")
LONGEST_S = 600.0  # of a run, scaled
FABRIC = "experiment"
_POSSIBLE = ("link_down", "port_down", "switch_dead", "switch_silent", "loss", "corruption", "path_loss")


class EmulatedStage:
    """A fabric that is up; see `experiments.running.stage.Stage`."""

    def __init__(self, world: EmulatedWorld, controller: ControllerClient, rate_scale: float, stack: ExitStack) -> None:
        self._world = world
        self._controller = controller
        self._stack = stack
        self._watch = Watch(world.cpu_seconds)
        self.rate_scale = rate_scale
        self.time_scale = 1 / rate_scale
        self.lines = tuple(f"{link.name}{mark}" for link in world.fabric.links for mark in "><")

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

    def attributes(self, base: QpAttributes) -> QpAttributes:
        """The defaults suit emulation; a path that is gone for long is no reason to give up."""
        return base

    async def play_faults(self, faults: Sequence[PlannedFault], begin: int) -> None:
        """Have the controller make and clear each at its time."""
        await asyncio.gather(*(self._play(fault, begin) for fault in faults))

    async def _play(self, fault: PlannedFault, begin: int) -> None:
        await self._sleep_until(begin + round(fault.at * self.time_scale))
        made = await asyncio.to_thread(lambda: [make() for make in inject(fault, self._controller, self.fabric)])
        if fault.until is not None:
            await self._sleep_until(begin + round(fault.until * self.time_scale))
            for one in made:
                await asyncio.to_thread(self._controller.clear, one.id)

    async def _sleep_until(self, when: int) -> None:
        await asyncio.sleep(max(0, when - self.now()) / 1e9)

    def sample_lines(self) -> Samples:
        """Packets and bytes by the interfaces' counters; what is lost on a line is not counted anywhere here."""
        rows = {link.name: link for link in self._controller.links()}
        found = []
        for name in (link.name for link in self.fabric.links):
            ways = (rows[name].upward, rows[name].downward)
            found += [(traffic.packets, traffic.bytes, 0) for traffic in ways]
        return np.array(found, dtype=np.int64)

    def trimmed(self) -> Mapping[str, int]:
        """Not asked of the switches yet."""
        return {}

    def drops(self) -> Mapping[str, int]:
        """Not asked of the switches yet."""
        return {}

    def fidelity(self) -> Fidelity:
        """What the watch has seen so far."""
        return self._watch.judge()

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, watched."""

        async def watched() -> T:
            watching = asyncio.ensure_future(self._watch.run())
            try:
                return await job
            finally:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching

        return asyncio.run(watched())


def inject(fault: PlannedFault, controller: ControllerClient, fabric: Fabric) -> list[Callable[[], Any]]:
    """What to call, in order, to make a fault; each call returns the controller's record of it."""
    if isinstance(fault, planned.LinkDown) and fault.towards is None:
        link = fault.link
        return [lambda: controller.link_down(link)]
    if isinstance(fault, planned.LinkDown):
        link, towards = fault.link, fault.towards or ""
        return [lambda: controller.lose(link, 1.0, towards=towards)]
    if isinstance(fault, planned.PortDown | planned.SwitchDead):
        names = [link.name for link in fault.build().effect(fabric).carrier]
        return [(lambda name=name: controller.link_down(name)) for name in names]  # type: ignore[misc]
    if isinstance(fault, planned.SwitchSilent):
        switch = fault.switch
        return [lambda: controller.silence(switch)]
    if isinstance(fault, planned.Loss | planned.Corruption):
        act = controller.lose if isinstance(fault, planned.Loss) else controller.corrupt
        where, chance, to = fault.link, fault.probability, fault.towards or ""
        return [lambda: act(where, chance, towards=to)]
    if isinstance(fault, planned.PathLoss):
        ev, chance = entropy_value(fault.plane, fault.uplink), fault.probability
        ends = ("" if fault.source == "*" else fault.source), ("" if fault.destination == "*" else fault.destination)
        return [lambda: controller.lose_on_path(ev, chance, source=ends[0], destination=ends[1])]
    raise ExperimentError(f"the emulated world cannot make a fault like {type(fault).__name__}", "Use --world sim.")


def check(case: Case) -> None:
    """ExperimentError for anything in the case that only the simulated world can do; before anything starts."""
    for fault in case.faults:
        kind = next(name for name, cls in planned.KINDS.items() if type(fault) is cls)
        if kind not in _POSSIBLE:
            raise ExperimentError(
                f"line {fault.line}: the emulated world cannot make the fault {kind}; {suggest(kind, _POSSIBLE)}",
                "Use --world sim.",
            )
    seconds = case.duration / 1e9 / scale_of(case)
    if seconds > LONGEST_S:
        raise ExperimentError(
            f"{case.name}: at the rates that this machine carries the run would last {seconds:.0f} s",
            f"Shorten its duration, or use fewer hosts and planes: {LONGEST_S:.0f} s is the most.",
        )


def scale_of(case: Case) -> float:
    """Rates here over those in the file, at most 1."""
    fastest = max(case.fabric.rate, case.fabric.uplink_rate or 0)
    return min(1.0, carried_rate(case.fabric.hosts, case.fabric.planes) / fastest)


def scaled_fabric(case: Case, scale: float) -> Fabric:
    """The file's fabric at the rates of this machine, with the file's settings that are not timers."""
    part = case.fabric
    uplink = None if part.uplink_rate is None else round(part.uplink_rate * scale)
    fabric = build_fabric(replace(part, rate=round(part.rate * scale), uplink_rate=uplink), FABRIC)
    given = {name: value for name, value in settings_given(case.transport).items() if name not in TIMERS}
    settings = fabric.settings
    return replace(fabric, settings=replace(settings, transport=replace(settings.transport, **given)))


@contextmanager
def emulated_stage(case: Case, switch: str) -> Iterator[EmulatedStage]:
    """Bring the case's fabric up, scaled, and take it down on leaving. Raises ExperimentError or EmulationError."""
    check(case)
    scale = scale_of(case)
    with running(scaled_fabric(case, scale), switch=switch) as world, ExitStack() as stack:
        controller = stack.enter_context(world.controller())
        yield EmulatedStage(world, controller, scale, stack)
