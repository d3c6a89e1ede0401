"""The two backends of a fabric under test: the same few operations in simulation and in emulation.

Each is a context manager that brings a fabric up and yields its :class:`RunningFabric`. Modules of a backend are
imported when it is used: simulation needs no Mininet.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mrc_host import verbs
from mrc_host.verbs.context import Context
from mrc_host.verbs_types import QpAttributes
from mrc_lab.errors import ExperimentError
from topologies import addressing
from topologies.fabric import Fabric
from topologies.faults import Fault

if TYPE_CHECKING:
    from mrc_lab.fabric.emulation import EmulatedWorld
    from simulation.world import SimulatedWorld
    from topologies.p4_program import P4Program

T = TypeVar("T")
NEVER_GIVE_UP = 255  # QpAttributes.retry_count


class RunningFabric(Protocol):
    """A fabric that is up."""

    @property
    def fabric(self) -> Fabric:
        """What is up."""

    def now(self) -> int:
        """The time in ns."""

    def open(self, host: str) -> Context:
        """Verbs on a host's NIC, to be closed."""

    def attributes(self, base: QpAttributes) -> QpAttributes:
        """Attributes of queue pairs with timers that fit this world."""

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""

    def pass_time(self, ns: int) -> None:
        """Let time pass."""

    def inject(self, fault: Fault, after_ns: int, duration_ns: int) -> Callable[[], None]:
        """Have a fault happen after a time, for a time (0: until cleared); returns what clears it, once."""

    def link_bytes(self) -> dict[str, int]:
        """Bytes over each link so far, both directions."""


class _Simulation:
    """A simulated world; see :class:`RunningFabric`."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self.fabric = world.fabric
        self.open = world.open
        self.attributes = world.attributes

    def now(self) -> int:
        return self._world.now

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        return self._world.run(job)  # type: ignore[return-value]

    def pass_time(self, ns: int) -> None:
        self._world.run(self._world.now + ns)

    def inject(self, fault: Fault, after_ns: int, duration_ns: int) -> Callable[[], None]:
        faults, begin = self._world.faults, self._world.now + after_ns
        number = faults.add(fault, at=begin, until=begin + duration_ns if duration_ns else None)

        def clear() -> None:
            if any(listed.id == number for listed in faults.list()):  # else its time is over
                faults.clear(number)

        return clear

    def link_bytes(self) -> dict[str, int]:
        names = (link.name for link in self.fabric.links)
        return {name: sum(way.bytes for way in self._world.link_stats(name)) for name in names}


class _Emulation:
    """An emulated fabric; see :class:`RunningFabric`. As links are slow, queue pairs never give up; writes do."""

    def __init__(self, world: EmulatedWorld) -> None:
        self._world = world
        self.fabric = world.fabric
        self.link_bytes = world.link_bytes

    def now(self) -> int:
        return time.monotonic_ns()

    def open(self, host: str) -> Context:
        return verbs.open(self._world.emulation.socket(host))

    def attributes(self, base: QpAttributes) -> QpAttributes:
        return replace(base, retry_count=NEVER_GIVE_UP)

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(job)

    def pass_time(self, ns: int) -> None:
        time.sleep(ns / 1e9)

    def inject(self, fault: Fault, after_ns: int, duration_ns: int) -> Callable[[], None]:
        with self._world.controller() as client:
            number = client.inject(fault, after_ns=after_ns, duration_ns=duration_ns).id

        def clear() -> None:
            with self._world.controller() as client:
                if any(record.id == number for record in client.faults()):
                    client.clear(number)

        return clear


@contextmanager
def simulated(fabric: Fabric, *, seed: int, program: P4Program | None = None) -> Iterator[RunningFabric]:
    """A simulated fabric; with `program`, its switches run that. Raises SimulationError or MrcError."""
    from simulation.world import SimulatedWorld, load_program

    pipeline = load_program(program) if program is not None else None
    with SimulatedWorld(fabric, seed=seed, pipeline=pipeline) as world:
        yield _Simulation(world)


@contextmanager
def emulated(fabric: Fabric, *, program: P4Program | None = None) -> Iterator[RunningFabric]:
    """An emulated fabric with its controller; with `program`, its switches run that.

    Raises ExperimentError or EmulationError.
    """
    if os.geteuid() != 0:
        raise ExperimentError("an emulated fabric needs root: run pytest with sudo, or use --mrc-backend sim")
    from mrc_lab.fabric.emulation import running
    from topologies.emulation import requirements, switch_kind

    requirements.check(switch=switch_kind.DEFAULT)
    with running(fabric, program=program) as world:
        yield _Emulation(world)


def free_name() -> str:
    """A fabric's name that only this process uses, and whose interfaces no fabric that is up has."""
    from topologies.emulation.run_directory import existing

    taken = {addressing.tag(name) for name in existing()}
    names = (f"pytest-{os.getpid():x}-{number}" for number in itertools.count())
    return next(name for name in names if addressing.tag(name) not in taken)
