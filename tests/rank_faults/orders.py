"""A round under way: callers carry out their orders, blows come when they are due, and endings are collected."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from tests.rank_faults import verdict
from tests.rank_faults.fabric import RunFabric
from tests.rank_faults.rank import REACHED, Ending, Order
from tests.rank_faults.scenario import OF_PROCESSES, Blow, Fault, Round

_HANG = 2  # times the bound: then it is no longer waited for
_END_S = 60.0


@dataclass
class Fates:
    """What has happened so far."""

    dead: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)
    owing: set[int] = field(default_factory=set)  # of the stopped, those that have not ended their orders
    broken: list[Blow] = field(default_factory=list)  # of the network
    store_gone: bool = False

    def able(self, number: int) -> bool:
        """Whether a process runs."""
        return number not in self.dead | self.stopped


class RoundUnderWay:
    """`played` on the processes of a fabric, whose `fates` it goes on with; `what` it is, in words."""

    def __init__(self, fabric: RunFabric, fates: Fates, played: Round, uuid: int, what: str) -> None:
        self._fabric, self._fates, self._played, self._what = fabric, fates, played, what
        self._uuid = uuid
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._at_stage = {blow.victim: blow for blow in played.blows if blow.stage is not None}
        self.endings: dict[int, Ending] = {}
        self.wrong: list[str] = []

    def run(self) -> None:
        """Until all that can have ended, and all that is due has come."""
        self._begin()
        bound = verdict.bound_s(self._played.timeout_s, verdict.pauses_s(self._played.blows))
        give_up = time.monotonic() + _HANG * (1 + self._played.sums) * bound
        while True:
            for item in [item for item in self._due if item[0] <= time.monotonic()]:
                self._due.remove(item)
                item[1]()
            pending = self._pending()
            if not (pending or self._due):
                return
            left = give_up - time.monotonic()
            if left < 0:
                self.wrong.append(f"{self._what}: {pending} hang")
                return
            next_due = min((moment for moment, _ in self._due), default=give_up) - time.monotonic()
            self._take(pending, min(left, next_due))

    def _begin(self) -> None:
        played, now = self._played, time.monotonic()
        handles = tuple(self._fabric.handles[number] for number in played.members) if played.forms else ()
        for number in played.callers:
            order = Order(played.timeout_s, played.sums, handles, self._uuid, self._at_stage.get(number))
            self._fabric.ranks[number].orders.send(order)
        for blow in played.blows:
            if blow.stage is None:
                self._due.append((now + blow.after, lambda blow=blow: self._strike(blow)))  # type: ignore[misc]

    def _pending(self) -> list[int]:
        return [number for number in self._played.callers if number not in self.endings and self._fates.able(number)]

    def _take(self, pending: list[int], within_s: float) -> None:
        """Messages of those that are still to end, as they come."""
        numbers = {self._fabric.ranks[number].orders: number for number in pending}
        for ready in wait(list(numbers), max(0.0, within_s)):
            number = numbers[ready]  # type: ignore[index]
            try:
                message = self._fabric.ranks[number].answer()
            except EOFError:
                if self._fates.able(number):
                    self._fates.dead.add(number)
                    self.wrong.append(f"{self._what}: process {number} has crashed")
                continue
            if message == REACHED:
                self._signalled(number, self._at_stage[number])
            else:
                self.endings[number] = message

    def _strike(self, blow: Blow) -> None:
        if blow.fault in OF_PROCESSES:
            assert blow.victim is not None
            if self._fates.able(blow.victim):
                kind = signal.SIGKILL if blow.fault is Fault.KILL else signal.SIGSTOP
                self._fabric.ranks[blow.victim].signal(kind)
                self._signalled(blow.victim, blow)
        elif blow.fault is Fault.STORE:
            self._fates.store_gone = True
            self._fabric.store.signal(signal.SIGKILL)
        elif blow.fault is Fault.STORE_STOPPED:
            self._fabric.store.signal(signal.SIGSTOP)
        else:
            self._fates.broken.append(blow)
            self._fabric.fail(blow)

    def _signalled(self, number: int, blow: Blow) -> None:
        """A process has had a signal, from here or from itself."""
        child = self._fabric.ranks[number]
        if blow.fault is Fault.KILL:
            self._fates.dead.add(number)
            child.process.join(_END_S)
        elif blow.fault is Fault.STOP:
            self._fates.stopped.add(number)
            if number in self._played.callers and number not in self.endings:
                self._fates.owing.add(number)
        else:
            self._due.append((time.monotonic() + blow.amount, lambda: child.signal(signal.SIGCONT)))
