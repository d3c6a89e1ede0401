"""Plays what befalls hosts: queue pairs that get new lives or are silent, NICs that restart, memory that is taken away.

A pair is brought to a new life by one actor at a time. Applications agree on a new life by word of mouth, which takes
time (`word`), during which one end is ahead of the other, and packets of the old life are on their way in any case.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from mrc_host.errors import MrcError, StateError
from simulation.world import SimulatedWorld
from tests.swarm.application_faults import Manner, Mute, Reconnect, Restart, Revoke
from tests.swarm.applications import Applications, give_up, give_up_posting
from tests.swarm.denylists import DenylistChecker
from tests.swarm.muted_queue_pairs import MutedQueuePairs
from tests.swarm.queue_pair_ends import QueuePairEnd
from tests.swarm.scenario import FOREVER, Scenario, ScenarioFault

_SECOND = 1_000_000_000
_TRIES = 50  # to find first PSNs that both ends accept


class Lives:
    """Plays the plan's :class:`Reconnect`, :class:`Restart`, :class:`Revoke` and :class:`Mute`."""

    def __init__(self, world: SimulatedWorld, applications: Applications, denylists: DenylistChecker) -> None:
        self._world, self._applications, self._denylists = world, applications, denylists
        self._locks = [asyncio.Lock() for _ in applications.pairs]
        self._restarts: Counter[str] = Counter()
        self._muted = MutedQueuePairs(world)

    def start(self, scenario: Scenario) -> list[asyncio.Task[None]]:
        """One coroutine for each that is planned."""
        return [
            asyncio.ensure_future(self._play(planned))
            for planned in scenario.faults
            if isinstance(planned.fault, Reconnect | Restart | Revoke | Mute)
        ]

    async def _play(self, planned: ScenarioFault) -> None:
        await self._until(planned.start)
        fault = planned.fault
        if isinstance(fault, Reconnect):
            await self._reconnect(fault, planned.end)
        elif isinstance(fault, Restart):
            await self._restart(fault, planned.end)
        elif isinstance(fault, Revoke):
            end = self._applications.pairs[fault.pair][fault.back]
            if not end.away and end.life.revoked is None:
                end.freeze(self._applications.other(end))
                end.revoke(self._world.now)
        elif isinstance(fault, Mute):
            await self._mute(self._applications.pairs[fault.pair][fault.back], planned.end)

    async def _until(self, time: int) -> None:
        await asyncio.sleep(max(0, time - self._world.now) / _SECOND)

    # ---- reconnecting -----------------------------------------------------------------------------------------------

    async def _reconnect(self, fault: Reconnect, end_time: int) -> None:
        pair = self._applications.pairs[fault.pair]
        first, second = (pair[1], pair[0]) if fault.back else pair
        async with self._locks[fault.pair]:
            if first.away or second.away:
                return
            if fault.manner is Manner.TOGETHER:
                self._renew(first, fault.recreate)
                self._renew(second, fault.recreate)
                await self._meet(first, second, 0)
            elif fault.manner is Manner.BY_TURNS:
                await self._by_turns(first, second, fault.recreate, fault.word)
            else:
                self._renew(first, fault.recreate)
                try:
                    first.connect(second)
                except MrcError:  # a NIC may refuse it: the application waits, in vain if nothing recovers
                    give_up_posting(first, end_time)
        if fault.manner is Manner.ALONE and end_time < FOREVER:
            await self._until(end_time)
            async with self._locks[fault.pair]:
                if not (first.away or second.away):
                    await self._by_turns(second, first, fault.recreate, fault.word)

    def _renew(self, end: QueuePairEnd, recreate: bool) -> None:
        end.freeze(self._applications.other(end))
        end.renew(recreate, self._world.now)
        self._applications.own(end)

    async def _by_turns(self, first: QueuePairEnd, second: QueuePairEnd, recreate: bool, word: int) -> None:
        """A new life for `first`, if it has none that is not connected yet; a crash on the way leaves it to others."""
        if first.lives[-1].peer is not None:
            self._renew(first, recreate)
        await asyncio.sleep(word / _SECOND)
        if first.away or second.away:
            return
        if second.life.peer is not None:
            self._renew(second, recreate)
        await self._meet(first, second, word)

    async def _meet(self, first: QueuePairEnd, second: QueuePairEnd, word: int) -> None:
        """Connect two new lives; who is refused for its first PSN chooses another."""
        for _ in range(_TRIES):
            refused = await self._join(first, second, word)
            if not refused:
                return
            for end in refused:
                self._renew(end, True)
            await asyncio.sleep(word / _SECOND)
        raise AssertionError(f"{first.nic} and {second.nic} cannot be connected: each refuses the other's first PSN")

    async def _join(self, first: QueuePairEnd, second: QueuePairEnd, word: int) -> tuple[QueuePairEnd, ...]:
        """Connect them; the ends, if any, that need a new life: a first PSN was refused (docs/protocol.md §12)."""
        if first.away or second.away:
            return ()
        try:
            second.connect(first)
        except StateError as error:
            return (second if _is_own(error) else first,)
        await asyncio.sleep(word / _SECOND)
        if first.away or second.away:
            return ()
        try:
            first.connect(second)
        except StateError as error:
            return (first, second) if _is_own(error) else (second,)
        return ()

    # ---- silence ----------------------------------------------------------------------------------------------------

    async def _mute(self, end: QueuePairEnd, until: int) -> None:
        if end.away:
            return
        qpn = end.qp.qpn
        self._muted.mute(end.nic, qpn)
        if until < FOREVER:
            await self._until(until)
            self._muted.unmute(end.nic, qpn)

    # ---- restarting -------------------------------------------------------------------------------------------------

    async def _restart(self, fault: Restart, back_at: int) -> None:
        applications, nic = self._applications, fault.nic
        self._restarts[nic] += 1
        mine = self._restarts[nic]
        ends = [end for end, _ in applications.ends if end.nic == nic]
        for end in ends:
            if not end.away:
                end.freeze(applications.other(end))
                end.end_life(self._world.now)
                end.away = True
                give_up(end)
        applications.forget(nic)
        self._world.restart_nic(nic)
        self._denylists.repeat(nic)
        await self._until(back_at)
        if self._restarts[nic] == mine:
            await asyncio.gather(*(self._come_back(end, fault.word) for end in ends))

    async def _come_back(self, end: QueuePairEnd, word: int) -> None:
        other = self._applications.other(end)
        async with self._locks[end.number]:
            if not end.away:
                return
            self._applications.build(end)
            if not other.away:
                await self._by_turns(end, other, False, word)


def _is_own(error: StateError) -> bool:
    """Whether a NIC has refused the first PSN that is to be sent; otherwise it is that of the other end."""
    return "send_psn" in str(error)
