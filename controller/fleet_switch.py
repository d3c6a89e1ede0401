"""One switch of a fleet: connected, programmed and verified for as long as the controller lives.

It has a task of its own that goes from session to session: wait until something listens at the switch's address,
connect with finsy, reconcile the entries, and stay until the connection is lost. To reconcile is to read what the
switch holds, write only what differs from what the fabric demands (``topologies.entry_difference``), and read again: a
switch may have been restarted, or somebody may have changed its tables by hand. An empty switch is the case where
everything is missing, so one that was restarted is programmed again as soon as it is back.

A switch that answers nothing for some time during a change counts as lost: what it did of it shows when it answers
again. One that is slow but answers is waited for, as long as that many requests may take. What cannot be put right is
kept as sentences with the switch's state.

Requests of a session are cancelled when the session ends: gRPC raises CancelledError, as if the caller had been
cancelled. It was the session if its client is not the present one any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

import finsy
from finsy.p4schema import P4ConfigAction

from controller import entry_descriptions, translate
from controller.errors import ControllerError
from controller.events import Events
from controller.hand_entries import HandEntries
from controller.p4info import read_p4info
from controller.p4runtime_address import wait_until_listening
from controller.values import CHANGE_REQUESTS, SWITCH_TIMEOUT_S, EventKind, Replanned, SwitchState, SwitchStatus
from controller.wire_delays import WireDelays
from topologies.entries import SwitchEntries, TableEntry
from topologies.entry_difference import EntryDifference, compare, count
from topologies.p4_program import P4Program, with_tables

_SESSION_INTERVAL_S = 0.5  # at least, from the begin of one session to that of the next
TIMEOUT_S = SWITCH_TIMEOUT_S
_EXCHANGE_TRIALS = 3  # of 10 s each, by finsy's limit of a request
_MAX_PROBLEMS = 20  # per switch, so that an empty switch does not fill the screen


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
        self._faults: tuple[TableEntry, ...] = ()
        self.by_hand = HandEntries()
        self.wanted = self._entries()
        self.wires = wires
        self.address = address
        self.status = SwitchStatus(planned.switch, SwitchState.CONNECTING, count(self.wanted))
        self.changed = asyncio.Event()
        self.timeout_s = timeout_s
        self._events = events or Events()
        self._lost = False
        self._silent = asyncio.Event()
        self._exchanging = False  # its program, so that a session ends on purpose
        self._changing = asyncio.Lock()  # of what it shall hold or run: each change builds on those before it
        self._answered_at = 0.0  # by the loop's clock
        self._client: finsy.Switch | None = None
        self._lock = asyncio.Lock()

    def _entries(
        self, *, faults: tuple[TableEntry, ...] | None = None, by_hand: HandEntries | None = None
    ) -> SwitchEntries:
        """What the switch shall hold: what is planned, with these entries of faults and changes by hand or today's."""
        known = self._program.tables()
        planned = with_tables(self._planned, known)
        more = self._faults if faults is None else faults
        hand = self.by_hand if by_hand is None else by_hand
        if hand.changes:  # which have aliases
            known |= {table.preamble.alias for table in _parts(self._program)[0].tables}
        return hand.within(known).over(dataclasses.replace(planned, entries=(*planned.entries, *more)))

    async def run(self) -> None:
        """Keep the switch connected; does not return."""
        while True:
            await wait_until_listening(self.address)
            began = time.monotonic()
            # finsy cancels the task it is used from when it fails, so that must not be this one.
            session = asyncio.create_task(self._session(), name=self.wanted.switch)
            try:
                await asyncio.wait((session,))
            finally:
                session.cancel()
            if not session.cancelled() and session.exception() is not None:
                self.failed(f"could not be set up: {reason_of(session.exception())}")
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
        if self._exchanging:
            return
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
                self.failed(f"refused {reason_of(error)}")
            except (ValueError, KeyError) as error:
                self.failed(f"does not run the fabric's P4 program: {error}")
            else:
                problems = tuple(entry_descriptions.problems(left))[:_MAX_PROBLEMS]
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
            raise ControllerError(f"Switch {self.wanted.switch} refused {reason_of(error)}.") from None

    @property
    def planned(self) -> SwitchEntries:
        """What the switch would hold without changes by hand."""
        return self._entries(by_hand=HandEntries())

    @property
    def faults(self) -> tuple[TableEntry, ...]:
        """The entries of faults."""
        return self._faults

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
        async with self._changing:
            faults = tuple(entries)
            hidden = self.by_hand.among(entry for entry in faults if entry not in self._faults)
            if hidden is not None:
                name = self.wanted.switch
                raise ControllerError(
                    f"Switch {name} has an entry by hand of table {hidden.table} in the fault's place:"
                    f" 'table restore {name}' takes it back."
                )
            after = self._entries(faults=faults)
            done = await self._change(after, later=later, purpose="it can make no fault")
            self._faults = faults
            return done

    async def change_by_hand(self, by_hand: HandEntries) -> None:
        """Hold these changes by hand and no others; ControllerError if that cannot be done now."""
        async with self._changing:
            await self._change(self._entries(by_hand=by_hand), later=False, purpose="its tables cannot be changed")
            self.by_hand = by_hand

    async def replan(self, planned: SwitchEntries) -> Replanned:
        """Hold this instead of what was planned before, beside what is there of faults and by hand.

        A switch that is away does when it is back. One that refuses is reconciled, and its state says what is wrong.
        """
        async with self._changing:
            self._planned = planned
            after = self._entries()
            changes = len(compare(after, self.wanted))
            try:
                done = await self._change(after, later=True, purpose="its routes are not changed")
            except ControllerError:
                self.wanted = after
                done = await self._reconciled_in_time()
            return Replanned(changes, done)

    async def _reconciled_in_time(self) -> bool:
        """Reconcile; False if the switch is not as it should be then, or does not answer."""

        async def work() -> bool:
            return (await self.reconcile()).state is SwitchState.VERIFIED

        try:
            return await self._while_it_answers(work())
        except asyncio.TimeoutError as error:
            self._give_up(str(error))
            return False

    async def _change(self, after: SwitchEntries, *, later: bool, purpose: str) -> bool:
        """Hold these entries, as :meth:`set_faults` says; `purpose` is what an error says is not possible."""
        difference = compare(after, self.wanted)
        if not difference:
            return True
        adds = bool(difference.missing or difference.wrong)
        must = adds and not later
        try:
            done = await self._while_it_answers(self._hold(after, difference, purpose, must=must))
        except asyncio.TimeoutError as error:
            self._give_up(str(error))
            if must:
                raise ControllerError(f"Switch {self.wanted.switch} {error}, so {purpose}.") from None
            self.wanted = after
            done = False
        held = count(after)
        self.status = dataclasses.replace(self.status, entries=held, present=held if done else 0)
        return done or not adds

    async def _hold(self, after: SwitchEntries, difference: EntryDifference, purpose: str, *, must: bool) -> bool:
        """Make a change, now or in the next session; False if later. With `must` it is ControllerError if not now."""
        async with self._lock:
            before, name, client = self.wanted, self.wanted.switch, self._client
            if client is None:
                if must:
                    raise ControllerError(f"Switch {name} is not reachable, so {purpose}.")
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
                    raise ControllerError(f"Switch {name} is not reachable, so {purpose}.") from None
                return False
            except (finsy.P4ClientError, ValueError) as error:
                if must or not _is_away(error):
                    self.wanted = before
                    raise ControllerError(f"Switch {name} refused, so {purpose}: {reason_of(error)}") from None
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

    def expect_planned(self, planned: SwitchEntries) -> None:
        """Before :meth:`run`: hold this from the first session on."""
        self._planned = planned
        self.wanted = self._entries()
        self._set(self.status.state)

    def expect_faults(self, entries: Iterable[TableEntry]) -> None:
        """Hold these entries of faults from the first session on."""
        self._faults = tuple(entries)
        self.wanted = self._entries()
        self._set(self.status.state)

    def expect_by_hand(self, by_hand: HandEntries) -> None:
        """Hold these changes by hand from the first session on."""
        self.by_hand = by_hand
        self.wanted = self._entries()
        self._set(self.status.state)

    async def change_program(self, program: P4Program) -> None:
        """Run another program from now on, with all that the switch holds, while packets pass.

        ControllerError, and the program of before, when the new one cannot take the entries, or is none for the switch.
        """
        async with self._changing:
            before = self._program
            self._exchanging = True
            try:
                await self._run_program(program)
                if await self._verified_or_failed() is SwitchState.VERIFIED:
                    return
                problem = next(iter(self.status.problems), f"{self.wanted.switch}: it is not verified in time")
                self._begin_session(before)  # which installs it, since the switch runs another
            finally:
                self._exchanging = False
            raise ControllerError(f"The program was not taken: {problem}")

    async def _run_program(self, program: P4Program) -> None:
        """Have the switch exchange its program, and begin a new session, since its names may be others."""
        async with self._lock:
            name, client = self.wanted.switch, self._client
            if client is None:
                raise ControllerError(f"Switch {name} is not reachable, so its program cannot be changed.")
            try:
                await _exchange(client, program)
            except finsy.P4ClientError as error:
                if error.code is finsy.GRPCStatusCode.DEADLINE_EXCEEDED:
                    self._give_up()  # the next session finds out what it runs
                    raise ControllerError(f"Switch {name} does not answer, so its program cannot be changed.") from None
                raise ControllerError(f"Switch {name} keeps its program: {reason_of(error)}") from None
            except asyncio.CancelledError:
                if self._client is client:
                    raise
                raise ControllerError(f"Switch {name} is not reachable, so its program cannot be changed.") from None
            self._begin_session(program)

    def _begin_session(self, program: P4Program) -> None:
        """End the session, so that the next one is for this program."""
        self._program = program
        self.wanted = self._entries()
        self._client = None
        self._set(SwitchState.PROGRAMMING)
        self._silent.set()

    async def _verified_or_failed(self) -> SwitchState:
        """The state of the switch once it is verified, has failed, or has taken as long as a change may."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.settled(), self.timeout_s * CHANGE_REQUESTS)
        return self.status.state

    async def settled(self) -> None:
        """Wait until the switch is verified, or has failed."""
        while self.status.state not in (SwitchState.VERIFIED, SwitchState.FAILED):
            self.changed.clear()
            await self.changed.wait()

    def failed(self, problem: str) -> None:
        """Note why the switch is not as it should be."""
        self._set(SwitchState.FAILED, problems=(f"{self.wanted.switch}: {problem}",))

    async def _compare(self, client: finsy.Switch) -> EntryDifference:
        request = translate.wildcards(client.p4info)
        answers: Any = client.read(request)  # finsy's annotations call this a coroutine
        entities = [entity async for entity in self._noting(answers)]
        return compare(self.wanted, translate.decode_all(self.wanted.switch, entities, client.p4info))

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
        wanted = count(self.wanted)
        present = missing = 0
        if left is not None:
            missing = len(left.missing)
            present = wanted - missing + len(left.superfluous)
        self.status = SwitchStatus(self.wanted.switch, state, wanted, repaired, problems, present, missing)
        self.changed.set()


async def _exchange(client: finsy.Switch, program: P4Program) -> None:
    """Have a switch exchange its program for another, and keep what it holds; raises P4ClientError.

    A switch that is slow to compile the program is asked again, by which time it has it.
    """
    config = finsy.P4Schema(*_parts(program)).get_pipeline_config()
    for left in reversed(range(_EXCHANGE_TRIALS)):
        # finsy has no public way to set another program than that of the session's options
        request = client._set_pipeline_config_request(action=P4ConfigAction.RECONCILE_AND_COMMIT, config=config)
        (outcome,) = await asyncio.gather(request, return_exceptions=True)
        if not isinstance(outcome, BaseException):
            return
        late = isinstance(outcome, finsy.P4ClientError) and outcome.code is finsy.GRPCStatusCode.DEADLINE_EXCEEDED
        if not late or not left:
            raise outcome


def _options(program: P4Program, device_id: int) -> finsy.SwitchOptions:
    p4info, json = _parts(program)
    return finsy.SwitchOptions(p4info=p4info, p4blob=json, device_id=device_id)


@functools.lru_cache(maxsize=2)
def _parts(program: P4Program) -> tuple[Any, Any]:
    """P4Info and JSON of a program as finsy takes them, though not by its annotations: it need not read files then."""
    return read_p4info(program.p4info), program.json.encode()


def _is_away(error: Exception) -> bool:
    return isinstance(error, finsy.P4ClientError) and error.code is finsy.GRPCStatusCode.UNAVAILABLE


def reason_of(error: object) -> str:
    """What went wrong, without the message's surroundings."""
    if not isinstance(error, finsy.P4ClientError):
        return str(error) or type(error).__name__
    message = error.message or error.code.name
    first = next((detail.message for detail in error.details.values()), "")
    return message if first in message else f"{message} ({first})"
