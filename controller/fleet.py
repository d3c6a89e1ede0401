"""All switches of a fabric, concurrently: those that run the P4 program (``fleet_switch``) and kernel switches.

Kernel switches (``kernel_switch``) have no entries and make no faults.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

import finsy

from controller.errors import ControllerError
from controller.events import Events
from controller.fleet_switch import FleetSwitch, reason_of
from controller.hand_entries import HandEntries
from controller.kernel_switch import FleetKernelSwitch
from controller.values import SWITCH_TIMEOUT_S, FleetStatus, Replanned, SwitchState
from controller.wire_delays import WireDelays
from topologies.entries import TableEntry, switch_entries
from topologies.fabric import Fabric, LinkEnd
from topologies.fault_targets import delaying_end
from topologies.p4_program import P4Program

TIMEOUT_S = SWITCH_TIMEOUT_S
_Change = Callable[[str], Awaitable[None]]
_FINSY_LOG = logging.getLogger("finsy")


class Fleet:
    """Every switch of a fabric: `switches` are those that run the P4 program, `kernel` the kernel switches.

    `address` is the switches' gRPC address; ``{name}`` in it stands for the name of a switch that has an address of its
    own. `program` is installed on switches that run another or none. A switch that answers nothing for `timeout_s`
    during a change counts as lost.
    """

    def __init__(
        self,
        fabric: Fabric,
        address: str,
        program: P4Program,
        *,
        events: Events | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._fabric_name = fabric.name
        self.program = program
        self._changing = asyncio.Lock()
        self.kernel = {switch.name: FleetKernelSwitch(fabric, switch, events) for switch in fabric.kernel_switches}
        self.switches = {
            switch.name: FleetSwitch(
                switch_entries(fabric, switch),
                address.format(name=switch.name),
                switch.device_id,
                program,
                events,
                timeout_s=timeout_s,
                wires=WireDelays(
                    fabric, switch.name, switch.device_id, address.format(name=switch.name), timeout_s=timeout_s
                ),
            )
            for switch in fabric.p4_switches
        }
        managed: Mapping[str, FleetSwitch | FleetKernelSwitch] = {**self.kernel, **self.switches}
        self._all = {switch.name: managed[switch.name] for switch in fabric.switches}
        self._fabric = fabric
        self._tasks: list[asyncio.Task[None]] = []
        self._log = _ProblemCollector(self.switches)

    def start(self) -> None:
        """Begin to connect to all switches."""
        _FINSY_LOG.addHandler(self._log)
        _FINSY_LOG.propagate = False
        self._tasks = [asyncio.create_task(switch.run(), name=name) for name, switch in self._all.items()]

    async def stop(self) -> None:
        """Let go of all switches; their tables stay as they are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        _FINSY_LOG.removeHandler(self._log)

    async def wait_verified(self, timeout_s: float) -> bool:
        """Wait until every switch is verified or has failed, or time is up; True if all are verified."""
        waiting = [self._settled(switch) for switch in self._all.values()]
        try:
            await asyncio.wait_for(asyncio.gather(*waiting), timeout_s)
        except asyncio.TimeoutError:
            for switch in self._all.values():
                if switch.status.state in (SwitchState.CONNECTING, SwitchState.PROGRAMMING):
                    switch.failed(f"is still {switch.status.state.value} at {switch.address} after {timeout_s:g} s")
        return self.status.ready

    async def reconcile(self) -> None:
        """Reconcile every switch, concurrently."""
        await asyncio.gather(*(switch.reconcile() for switch in self._all.values()))

    def expect_faults(self, entries: Mapping[str, Iterable[TableEntry]]) -> None:
        """Before :meth:`start`: the entries of faults that switches hold, or are to hold."""
        for name, found in entries.items():
            self.switches[name].expect_faults(found)

    async def set_faults(self, entries: Mapping[str, Iterable[TableEntry]], *, later: bool = False) -> tuple[str, ...]:
        """Have each switch hold the entries of faults given for it, concurrently; ControllerError if one cannot.

        With `later` those that are not reachable do it when they are; returns their names.
        """
        wanted = [
            switch.set_faults(tuple(entries.get(name, ())), later=later) for name, switch in self.switches.items()
        ]
        outcomes = await asyncio.gather(*wanted, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return tuple(name for name, done in zip(self.switches, outcomes, strict=True) if not done)

    def expect_routes(self, without: frozenset[str]) -> None:
        """Before :meth:`start`: switches hold, or are to hold, routes over none of these links."""
        for switch in self._fabric.switches if without else ():
            if switch.name in self.switches:
                self.switches[switch.name].expect_planned(switch_entries(self._fabric, switch, without))
            else:
                self.kernel[switch.name].expect_routes(without)

    async def reroute(self, name: str, without: frozenset[str]) -> Replanned:
        """Have a switch route plain IPv6 over none of these links."""
        if name in self.kernel:
            return await self.kernel[name].reroute(without)
        return await self.switches[name].replan(switch_entries(self._fabric, self._fabric.switch(name), without))

    def expect_by_hand(self, changes: Mapping[str, HandEntries]) -> None:
        """Before :meth:`start`: changes by hand that switches hold, or are to hold."""
        for name, hand in changes.items():
            if name in self.switches:
                self.switches[name].expect_by_hand(hand)

    @property
    def by_hand(self) -> dict[str, HandEntries]:
        """The changes by hand of every switch."""
        return {name: switch.by_hand for name, switch in self.switches.items()}

    async def change_by_hand(self, changes: Mapping[str, HandEntries]) -> None:
        """Have switches hold other changes by hand, concurrently, or none of them; ControllerError if one cannot."""
        before = {name: self.switches[name].by_hand for name in changes}
        await self._all_or_none(
            changes,
            lambda name: self.switches[name].change_by_hand(changes[name]),
            lambda name: self.switches[name].change_by_hand(before[name]),
        )

    async def change_program(self, program: P4Program) -> None:
        """Have all switches run another program, with what they hold.

        ControllerError if one cannot; then all run the program of before.
        """
        if not program.p4info:
            raise ControllerError(
                f"{program.name} has no P4Info, which P4Runtime needs: put NAME.p4info.txtpb beside it."
            )
        async with self._changing:
            before = self.program
            await self._all_or_none(
                self.switches,
                lambda name: self.switches[name].change_program(program),
                lambda name: self.switches[name].change_program(before),
            )
            self.program = program

    @staticmethod
    async def _all_or_none(names: Iterable[str], change: _Change, undo: _Change) -> None:
        """Change switches concurrently; if one cannot, undo the others and raise its error."""
        chosen = list(names)
        outcomes = await asyncio.gather(*map(change, chosen), return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failed:
            done = [name for name, outcome in zip(chosen, outcomes, strict=True) if outcome is None]
            await asyncio.gather(*map(undo, done), return_exceptions=True)
            raise failed[0]

    async def set_delays(self, delays: Mapping[LinkEnd, int]) -> None:
        """Delay (ns) what leaves these ends, 0: no more than the fabric says; ControllerError if a switch cannot."""
        by_switch: dict[str, dict[LinkEnd, int]] = {}
        for end, delay in delays.items():
            at = delaying_end(self._fabric, end)
            if at is not None:
                by_switch.setdefault(at.node, {})[end] = delay
            elif delay:
                raise ControllerError(f"What leaves {end.node} cannot be delayed: the link has no end at a P4 switch.")
        for name, wanted in by_switch.items():
            wires = self.switches[name].wires
            assert wires is not None, "a fleet's switches have them"
            await wires.set(wanted)

    async def verified(self, names: Iterable[str]) -> None:
        """Wait until switches hold what they should."""
        await asyncio.gather(*(self._all[name].verified() for name in names))

    @property
    def status(self) -> FleetStatus:
        """State of every switch."""
        statuses = tuple(switch.status for switch in self._all.values())
        ready = all(status.state is SwitchState.VERIFIED for status in statuses)
        return FleetStatus(self._fabric_name, ready, statuses)

    @staticmethod
    async def _settled(switch: FleetSwitch | FleetKernelSwitch) -> None:
        while switch.status.state not in (SwitchState.VERIFIED, SwitchState.FAILED):
            switch.changed.clear()
            await switch.changed.wait()


class _ProblemCollector(logging.Handler):
    """Takes finsy's critical messages, its way to report that a pipeline was refused, as that switch's problem."""

    def __init__(self, switches: dict[str, FleetSwitch]) -> None:
        super().__init__(logging.ERROR)
        self._switches = switches

    def emit(self, record: logging.LogRecord) -> None:
        """Note the problem with the switch that finsy's task name speaks of (``fy:NAME|task``)."""
        error = record.exc_info[1] if record.exc_info else None
        text = " ".join(str(argument) for argument in record.args or ())
        name = text.removeprefix("fy:").partition("|")[0]
        # A switch that is slow to compile its program is tried again, by which time it has it.
        slow = isinstance(error, finsy.P4ClientError) and error.code is finsy.GRPCStatusCode.DEADLINE_EXCEEDED
        if name in self._switches and not slow:
            self._switches[name].failed(f"could not be set up: {reason_of(error or record.getMessage())}")
