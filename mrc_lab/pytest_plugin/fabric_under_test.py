"""The value of the fixture `mrc_fabric`: flows whose every byte is checked, faults, paths and counters.

A :class:`VerifiedFlow` is a queue pair between two hosts with memory at both ends. Writes of one flow follow each
other, those of several may be under way at once (:meth:`FabricUnderTest.write_all`). A write that does not arrive, or
arrives with wrong bytes, fails the test; everything else is a value to assert on. Times in simulation are virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, TypeVar

from mrc_common.units import parse_size, parse_time
from mrc_host.errors import MrcError
from mrc_host.verbs.context import Context
from mrc_host.verbs_types import PathInfo, QpAttributes, QpType
from mrc_lab.commands import fault_command
from mrc_lab.errors import ExperimentError
from mrc_lab.pytest_plugin.running_fabric import RunningFabric
from mrc_lab.workloads.verified_write import Transfer, WriteReport, usable_paths
from topologies.fabric import Fabric
from topologies.faults import Fault

T = TypeVar("T")
Recorder = Callable[[str, object], None]


class VerifiedFlow:
    """A queue pair from `source` to `destination`. Made by :meth:`FabricUnderTest.flow`."""

    def __init__(self, fabric: FabricUnderTest, source: str, destination: str, transfer: Transfer) -> None:
        self.source, self.destination = source, destination
        self._fabric = fabric
        self._transfer = transfer

    def write(self, size: int | str) -> WriteReport:
        """Write `size` bytes (``"1M"``) and compare all of them; the test fails unless all arrive unchanged."""
        return self._fabric.write_all([self], size)[0]

    def paths(self) -> tuple[PathInfo, ...]:
        """Every path with its state."""
        return self._transfer.paths()

    def usable_paths(self) -> dict[int, int]:
        """How many active paths may be used, by plane."""
        return usable_paths(self.paths())

    async def write_async(self, size: int) -> WriteReport:
        """As :meth:`write`, in a coroutine of :meth:`FabricUnderTest.run`."""
        report = await self._transfer.write_async(size)
        if report.wrong_bytes:
            raise AssertionError(
                f"{report.wrong_bytes} of {size} bytes that {self.source} wrote are wrong at {self.destination}"
            )
        return report


class InjectedFault:
    """A fault that was injected; in a `with` statement it is cleared at the end."""

    def __init__(self, clear: Callable[[], None]) -> None:
        self._clear: Callable[[], None] | None = clear

    def clear(self) -> None:
        """Undo it, unless that has happened."""
        clear, self._clear = self._clear, None
        if clear is not None:
            clear()

    def __enter__(self) -> InjectedFault:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


class FabricUnderTest:
    """A fabric that is up for one test. `backend` is ``sim`` or ``emulation``."""

    def __init__(self, world: RunningFabric, backend: str, record: Recorder = lambda name, value: None) -> None:
        self.backend = backend
        self._world = world
        self._record = record
        self._contexts: dict[str, Context] = {}
        self._closing = ExitStack()

    @property
    def fabric(self) -> Fabric:
        """What is up: its hosts, switches and links."""
        return self._world.fabric

    @property
    def now(self) -> int:
        """The time in ns."""
        return self._world.now()

    def open(self, host: str) -> Context:
        """Verbs on a host's NIC (docs/verbs.md), closed with the fabric."""
        if host not in self._contexts:
            self.fabric.nic(host)
            self._contexts[host] = self._closing.enter_context(self._world.open(host))
        return self._contexts[host]

    def attributes(self, **given: Any) -> QpAttributes:
        """Attributes of queue pairs with timers that fit this fabric; `given` are fields of `QpAttributes`."""
        return replace(self._world.attributes(QpAttributes(**given)), **given)

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of your own to its end."""
        return self._world.run(job)

    def flow(self, source: str, destination: str, *, transport: str = "mrc", **attributes: Any) -> VerifiedFlow:
        """Connect two hosts; `transport` is mrc or rc, `attributes` are fields of `QpAttributes`."""
        if source == destination:
            raise ExperimentError(f"a flow goes from one host to another, not from {source} to itself")
        kinds = [kind.value for kind in QpType]
        if transport not in kinds:
            raise ExperimentError(f"the transport is {' or '.join(kinds)}, not {transport!r}")
        transfer = Transfer(
            self.open(source),
            self.open(destination),
            qp_type=QpType(transport),
            attributes=self.attributes(**attributes),
            clock=lambda: self._world.now() / 1e9,
        )
        self._closing.callback(_close_quietly, transfer)
        return VerifiedFlow(self, source, destination, transfer)

    def write(self, source: str, destination: str, size: int | str, **options: Any) -> WriteReport:
        """Write over a new flow with these options of :meth:`flow`, and compare every byte."""
        return self.flow(source, destination, **options).write(size)

    def write_all(self, flows: Sequence[VerifiedFlow], size: int | str) -> list[WriteReport]:
        """Write `size` bytes over each flow, all at the same time, and compare; reports in the order of `flows`."""
        if len(set(flows)) < len(flows):
            raise ExperimentError("a flow has one write at a time: make another flow between the same hosts")
        nbytes = parse_size(size) if isinstance(size, str) else size

        async def together() -> list[WriteReport]:
            return await asyncio.gather(*(flow.write_async(nbytes) for flow in flows))

        reports = self.run(together())
        for flow, report in zip(flows, reports, strict=True):
            self._record(f"{flow.source}>{flow.destination} b/s", round(report.bits_per_second))
            self._record(f"{flow.source}>{flow.destination} retransmitted", report.counters.retransmitted)
        return reports

    def fault(self, fault: str | Fault) -> InjectedFault:
        """Inject a fault, as the words of the command ``fault`` or as a value of `topologies.faults`.

        ``"t0-0:t1-1@p0 down at +20us for 1ms"`` begins in 20 us and ends by itself. Raises an error for a wrong one.
        """
        request = fault_command.parse(fault.split()) if isinstance(fault, str) else fault_command.FaultRequest(fault)
        injected = InjectedFault(self._world.inject(request.fault, request.after_ns, request.duration_ns))
        self._closing.callback(injected.clear)
        return injected

    def wait(self, time: str) -> None:
        """Let a time such as ``"200us"`` pass, for example until probes have restored a path."""
        self._world.pass_time(parse_time(time))

    def link_bytes(self) -> dict[str, int]:
        """Bytes over each link so far, by its name, both directions together."""
        return self._world.link_bytes()

    def close(self) -> None:
        """Clear faults, close flows and contexts."""
        self._closing.close()


def _close_quietly(transfer: Transfer) -> None:
    """Close what a failed write may have left unusable."""
    with suppress(MrcError):
        transfer.close()
