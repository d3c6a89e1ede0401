"""All switches of a fabric: connected, programmed and verified, concurrently and for as long as the controller lives.

Each switch has a task of its own that goes from session to session: wait until something listens at the switch's
address, connect with finsy, reconcile the entries (read, compare, repair, read again), and stay until the
connection is lost. So a switch that has been restarted is programmed again as soon as it is back. A switch that answers
nothing for some time during a change counts as lost: what it did of it shows when it answers again. One that is slow
but answers is waited for, as long as that many requests may take. What cannot be put right is kept as sentences with
the switch's state.

A switch is only dialled once something accepts connections there: gRPC waits a second and more before it tries an
address again that nobody listened on.

Kernel switches (``kernel_switch``) are in the fleet too. They have no entries and make no faults.

Requests of a session are cancelled when the session ends: gRPC raises CancelledError, as if the caller had been
cancelled. It was the session if its client is not the present one any more.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import Any

import finsy
from finsy.proto import p4i
from google.protobuf import text_format

from controller import reconcile, translate
from controller.errors import ControllerError
from controller.events import Events
from controller.kernel_switch import FleetKernelSwitch
from controller.reconcile import EntryDifference
from controller.values import CHANGE_REQUESTS, SWITCH_TIMEOUT_S, EventKind, FleetStatus, SwitchState, SwitchStatus
from controller.wire_delays import WireDelays
from topologies.entries import SwitchEntries, TableEntry, switch_entries
from topologies.fabric import Fabric, LinkEnd
from topologies.fault_targets import delaying_end
from topologies.p4_program import P4Program, with_tables

_DIAL_INTERVAL_S = 0.02
_SESSION_INTERVAL_S = 0.5  # at least, from the begin of one session to that of the next
TIMEOUT_S = SWITCH_TIMEOUT_S
_MAX_PROBLEMS = 20  # per switch, so that an empty switch does not fill the screen
_FINSY_LOG = logging.getLogger("finsy")


class FleetSwitch:
    """One switch of the fabric: what it should hold, and the finsy client while there is a connection.

    Of what is `planned` for it, `wanted` has what the program has tables for, and the entries of faults, which are thus
    there again when the switch has been restarted. `timeout_s` is how long the switch may answer nothing during a
    change.
    """

    def __init__(
        self,
        planned: SwitchEntries,
        address: str,
        device_id: int,
        program: P4Program,
        events: Events | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        wires: WireDelays | None = None,
    ) -> None:
        self._planned = planned
        self._device_id = device_id
        self._program = program
        self.wanted = self._static = with_tables(planned, program.tables())
        self.wires = wires
        self.address = address
        self.status = SwitchStatus(planned.switch, SwitchState.CONNECTING, reconcile.count(self.wanted))
        self.changed = asyncio.Event()
        self.timeout_s = timeout_s
        self._events = events or Events()
        self._lost = False
        self._silent = asyncio.Event()
        self._answered_at = 0.0  # by the loop's clock
        self._client: finsy.Switch | None = None
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Keep the switch connected; does not return."""
        while True:
            await _wait_until_listening(self.address)
            began = time.monotonic()
            # finsy cancels the task it is used from when it fails, so that must not be this one.
            session = asyncio.create_task(self._session(), name=self.wanted.switch)
            try:
                await asyncio.wait((session,))
            finally:
                session.cancel()
            if not session.cancelled() and session.exception() is not None:
                self.failed(f"could not be set up: {_reason(session.exception())}")
            await asyncio.sleep(max(0.0, _SESSION_INTERVAL_S - (time.monotonic() - began)))

    async def _session(self) -> None:
        client = finsy.Switch(self.wanted.switch, self.address, _options(self._program, self._device_id))
        self._silent = lost = asyncio.Event()
        client.ee.on(finsy.SwitchEvent.CHANNEL_DOWN, lambda _: lost.set())
        async with client:
            self._client = client
            try:
                if self.wires is not None:
                    await self.wires.renew()
                await self.reconcile()
                await lost.wait()
            finally:
                self._client = None
        if self.status.state is not SwitchState.FAILED:  # else the reason for closing it is known
            self._set(SwitchState.CONNECTING, problems=(f"{self.wanted.switch}: connection lost",))
        self._lost = True
        self._events.publish(EventKind.SWITCH_LOST, self.wanted.switch, "connection lost")

    async def reconcile(self) -> SwitchStatus:
        """Read, compare, repair and read again; returns and remembers the outcome."""
        async with self._lock:
            client = self._client
            if client is None:
                self.failed("is not reachable")
                return self.status
            self._set(SwitchState.PROGRAMMING)
            try:
                found = left = await self._compare(client)
                if found:
                    await self._repair(client, found)
                    left = await self._compare(client)
            except asyncio.CancelledError:
                if self._client is client:
                    raise
                # Its session was given up, which cancels what was asked in it; that is known already.
            except finsy.P4ClientError as error:
                self.failed(f"refused {_reason(error)}")
            except (ValueError, KeyError) as error:
                self.failed(f"does not run the fabric's P4 program: {error}")
            else:
                problems = tuple(left.problems())[:_MAX_PROBLEMS]
                self._set(SwitchState.FAILED if left else SwitchState.VERIFIED, len(found) - len(left), problems, left)
                self._notify(len(found) - len(left))
            return self.status

    async def read(self, requests: Iterable[Any]) -> list[Any]:
        """Entities that a switch holds now, and of the P4 program's names; ControllerError if that cannot be known."""
        client = self._client
        if client is None:
            raise ControllerError(f"Switch {self.wanted.switch} is not reachable.")
        try:
            answers: Any = client.read(list(requests))  # finsy's annotations call this a coroutine
            return [entity async for entity in self._noting(answers)]
        except asyncio.CancelledError:
            if self._client is client:
                raise
            raise ControllerError(f"Switch {self.wanted.switch} is not reachable.") from None
        except finsy.P4ClientError as error:
            raise ControllerError(f"Switch {self.wanted.switch} refused {_reason(error)}.") from None

    @property
    def schema(self) -> finsy.P4Schema:
        """Names of the P4 program; ControllerError if the switch is not reachable."""
        if self._client is None:
            raise ControllerError(f"Switch {self.wanted.switch} is not reachable.")
        return self._client.p4info

    def _notify(self, repaired: int) -> None:
        """Events of a switch that has been reconciled."""
        if repaired > 0:
            self._events.publish(EventKind.ENTRIES_REPAIRED, self.wanted.switch, f"{repaired} entries")
        if self._lost:
            self._lost = False
            self._events.publish(EventKind.SWITCH_RETURNED, self.wanted.switch)

    async def set_faults(self, entries: Iterable[TableEntry], *, later: bool = False) -> bool:
        """Hold these entries of faults and no others; ControllerError if that cannot be done now.

        What only takes faults away is put off until the switch is reachable again. With `later` everything is; the
        result is False when something was. A switch that does not answer this or an earlier request in time counts as
        unreachable.
        """
        before = self.wanted
        after = dataclasses.replace(self._static, entries=(*self._static.entries, *entries))
        difference = reconcile.compare(after, before)
        if not difference:
            return True
        adds = bool(difference.missing or difference.wrong)
        must = adds and not later
        try:
            done = await self._while_it_answers(self._hold(after, difference, must=must))
        except asyncio.TimeoutError as error:
            self._give_up(str(error))
            if must:
                raise ControllerError(f"Switch {self.wanted.switch} {error}, so it can make no fault.") from None
            self.wanted = after
            done = False
        count = reconcile.count(after)
        self.status = dataclasses.replace(self.status, entries=count, present=count if done else 0)
        return done or not adds

    async def _hold(self, after: SwitchEntries, difference: EntryDifference, *, must: bool) -> bool:
        """Make a change, now or in the next session; False if later. With `must` it is ControllerError if not now."""
        async with self._lock:
            before, name, client = self.wanted, self.wanted.switch, self._client
            if client is None:
                if must:
                    raise ControllerError(f"Switch {name} is not reachable, so it can make no fault.")
                self.wanted = after
                return False
            self.wanted = after
            try:
                await self._repair(client, difference)
            except asyncio.CancelledError:
                if must:
                    self.wanted = before
                if self._client is client:
                    self._give_up()
                    raise
                if must:
                    raise ControllerError(f"Switch {name} is not reachable, so it can make no fault.") from None
                return False
            except (finsy.P4ClientError, ValueError) as error:
                if must or not _is_away(error):
                    self.wanted = before
                    raise ControllerError(f"Switch {name} refused a fault: {_reason(error)}") from None
                self._set(SwitchState.CONNECTING, problems=(f"{name}: connection lost",))
                return False
            return True

    async def _while_it_answers(self, work: Coroutine[Any, Any, bool]) -> bool:
        """What `work` returns; asyncio.TimeoutError says what is wrong when the switch is not in time.

        It may answer nothing for `timeout_s`, and a whole change may take as long as if it did so before every answer:
        one that sends a bit of an answer now and then would else hold up all changes for ever.
        """
        clock = asyncio.get_running_loop().time
        began, task = clock(), asyncio.create_task(work)
        longest_s = self.timeout_s * CHANGE_REQUESTS
        try:
            while not task.done():
                left = min(max(began, self._answered_at) + self.timeout_s, began + longest_s) - clock()
                if left <= 0:
                    break
                await asyncio.wait((task,), timeout=left)
        finally:
            late = task.cancel()
            await asyncio.wait((task,))
        if late and task.cancelled():
            over = clock() - began >= longest_s
            raise asyncio.TimeoutError(f"is not ready after {longest_s:g} s" if over else "does not answer")
        return task.result()

    async def _noting(self, answers: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """What a switch answers; that it does is noted."""
        async for entity in answers:
            self._answered_at = asyncio.get_running_loop().time()
            yield entity
        self._answered_at = asyncio.get_running_loop().time()

    def _give_up(self, problem: str = "does not answer") -> None:
        """End a session in which the switch is not in time; the next one finds out what it holds."""
        self._client = None
        self._set(SwitchState.CONNECTING, problems=(f"{self.wanted.switch}: {problem}",))
        self._silent.set()

    async def verified(self) -> None:
        """Wait until the switch holds what it should."""
        while self.status.state is not SwitchState.VERIFIED:
            self.changed.clear()
            await self.changed.wait()

    def expect_faults(self, entries: Iterable[TableEntry]) -> None:
        """Hold these entries of faults from the first session on."""
        self.wanted = dataclasses.replace(self._static, entries=(*self._static.entries, *entries))
        self._set(self.status.state)

    def failed(self, problem: str) -> None:
        """Note why the switch is not as it should be."""
        self._set(SwitchState.FAILED, problems=(f"{self.wanted.switch}: {problem}",))

    async def _compare(self, client: finsy.Switch) -> EntryDifference:
        request = translate.wildcards(client.p4info)
        answers: Any = client.read(request)  # finsy's annotations call this a coroutine
        entities = [entity async for entity in self._noting(answers)]
        return reconcile.compare(self.wanted, translate.decode_all(self.wanted.switch, entities, client.p4info))

    async def _repair(self, client: finsy.Switch, difference: EntryDifference) -> None:
        schema = client.p4info
        for missing, wrong, superfluous in difference.stages():
            updates = [
                *(+translate.encode(entry, schema) for entry in missing),
                *(~translate.encode(entry, schema) for entry in wrong),
                *(-translate.encode(entry, schema) for entry in superfluous),
            ]
            if updates:
                await client.write(updates)
                self._answered_at = asyncio.get_running_loop().time()

    def _set(
        self, state: SwitchState, repaired: int = 0, problems: tuple[str, ...] = (), left: EntryDifference | None = None
    ) -> None:
        wanted = reconcile.count(self.wanted)
        present = missing = 0
        if left is not None:
            missing = len(left.missing)
            present = wanted - missing + len(left.superfluous)
        self.status = SwitchStatus(self.wanted.switch, state, wanted, repaired, problems, present, missing)
        self.changed.set()


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
            self._switches[name].failed(f"could not be set up: {_reason(error or record.getMessage())}")


def _options(program: P4Program, device_id: int) -> finsy.SwitchOptions:
    p4info, json = _parts(program)
    return finsy.SwitchOptions(p4info=p4info, p4blob=json, device_id=device_id)


@functools.lru_cache(maxsize=2)
def _parts(program: P4Program) -> tuple[Any, Any]:
    """P4Info and JSON of a program as finsy takes them, though not by its annotations: it need not read files then."""
    return text_format.Parse(program.p4info, p4i.P4Info()), program.json.encode()


async def _wait_until_listening(address: str) -> None:
    """Return when something accepts connections at a gRPC address (unix:PATH or host:port)."""
    while not await _listens(address):
        await asyncio.sleep(_DIAL_INTERVAL_S)


async def _listens(address: str) -> bool:
    try:
        if address.startswith("unix:"):
            _, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except OSError:
        return False
    writer.close()
    return True


def _is_away(error: Exception) -> bool:
    return isinstance(error, finsy.P4ClientError) and error.code is finsy.GRPCStatusCode.UNAVAILABLE


def _reason(error: object) -> str:
    """What went wrong, without the message's surroundings."""
    if not isinstance(error, finsy.P4ClientError):
        return str(error) or type(error).__name__
    details = "".join(f" ({detail.message})" for detail in list(error.details.values())[:1])
    return f"{error.message or error.code.name}{details}"
