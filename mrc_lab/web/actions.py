"""Actions of the page: faults, as ``mrc fault`` has them, transfers between hosts, and taking back what it did.

A request is an object of JSON with few fields, each checked here; its words become a fault by the parser of the
command line, and nothing else. An action returns the command that does the same. What can be taken back is kept, the
last action first, however many browsers there are.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from controller.client import ControllerClient
from controller.values import Cleared
from mrc_common.units import show_size
from mrc_lab.commands import fault_command
from mrc_lab.errors import ExperimentError
from mrc_lab.web.feed import Feed
from mrc_lab.web.jobs import Jobs, all_reduce_words
from topologies.fabric import Fabric
from topologies.faults.kind import Fault
from topologies.faults.link_down import LinkDown
from topologies.faults.record import FaultRecord

MAX_WORDS = 16
MAX_WORD = 128  # characters
MAX_BYTES = 1 << 36
MAX_UNDO = 50


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action did, the command that does the same, and what ``undo`` would now take back, in words."""

    text: str
    command: str = ""
    undo: str = ""


@dataclass(frozen=True, slots=True)
class _Undo:
    text: str
    carry_out: Callable[[], str]


class Actions:
    """Carries out requests on a fabric, one after the other; `connect` opens a client of its controller."""

    def __init__(
        self, fabric: Fabric, feed: Feed, connect: Callable[[], ControllerClient], jobs: Jobs, executor: Executor
    ) -> None:
        self._fabric = fabric
        self._feed = feed
        self._connect = connect
        self._jobs = jobs
        self._executor = executor
        self._undo: deque[_Undo] = deque(maxlen=MAX_UNDO)
        self._injected_again: dict[str, FaultRecord] = {}  # by the ids that they had before they were cleared
        self._lock = asyncio.Lock()

    async def perform(self, request: Mapping[str, Any]) -> Outcome:
        """Carry out one request; ExperimentError, ControllerError, FabricError or MrcError if it cannot be done."""
        known = {
            "fault": self._fault, "write": self._write, "all_reduce": self._all_reduce, "stop": self._stop,
            "undo": self._take_back,
        }  # fmt: skip
        what = request.get("do")
        if not isinstance(what, str) or what not in known:
            raise ExperimentError(f"there is no such action; there are {', '.join(known)}")
        outcome = await known[what](request)
        if outcome.command:
            self._feed.event("action", "page", outcome.command)
        return outcome

    @property
    def undo_text(self) -> str:
        """What would be taken back next; nothing if there is nothing."""
        return self._undo[-1].text if self._undo else ""

    async def _fault(self, request: Mapping[str, Any]) -> Outcome:
        words = _words(request)
        text = await self._run(lambda: self._with_controller(words))
        return Outcome(text, self._fault_command(words), self.undo_text)

    def _with_controller(self, words: Sequence[str]) -> str:
        """Carry out the words after ``fault``, in a thread."""
        with self._connect() as controller:
            if words[0] == "clear":
                return self._clear(controller, words)
            if len(words) == 2 and words[1] == "up":
                cleared = controller.link_up(words[0])
                self._keep_again(f"{words[0]} up", cleared)
                return fault_command.describe_cleared(cleared)
            if words[0] in ("kinds", "list"):
                return fault_command.execute(controller, words)
            record = fault_command.add(controller, fault_command.parse(words[1:] if words[0] == "add" else words))
            self._undo.append(_Undo(" ".join(words), lambda: self._end(record)))
            return fault_command.describe(record)

    def _clear(self, controller: ControllerClient, words: Sequence[str]) -> str:
        """Clear faults, and remember them."""
        fault_command.check_clear(words[1:])
        before = controller.faults()
        text = fault_command.clear(controller, words[1:])
        left = {record.id for record in controller.faults()}
        gone = tuple(record for record in before if record.id not in left)
        if gone:
            self._keep_again(" ".join(words), Cleared(gone, (), 0, 0))
        return text

    def _keep_again(self, text: str, cleared: Cleared) -> None:
        """Undo what cleared faults and brought links up: inject the faults again, take the other links down again."""
        faulty = {link for record in (*cleared.faults, *cleared.remaining) for link in record.links}
        again: list[tuple[Fault, str]] = [(record.fault, record.id) for record in cleared.faults]
        again += [(LinkDown(link), "") for link in cleared.links if link not in faulty]
        if not again:
            return

        def inject() -> str:
            lines = []
            with self._connect() as controller:
                for fault, before in again:
                    record = controller.inject(fault)
                    lines.append(fault_command.describe(record))
                    if before:
                        self._injected_again[before] = record
            return "\n".join(lines)

        self._undo.append(_Undo(text, inject))

    def _end(self, record: FaultRecord) -> str:
        """Undo a fault, which may have been cleared and injected again; one that is over already is no error."""
        while record.id in self._injected_again:
            record = self._injected_again[record.id]
        with self._connect() as controller:
            if all(other.id != record.id for other in controller.faults()):
                return f"fault {record.id} was over already"
            return fault_command.clear(controller, [record.id])

    async def _take_back(self, _request: Mapping[str, Any]) -> Outcome:
        if not self._undo:
            raise ExperimentError("there is nothing to undo")
        last = self._undo.pop()
        try:
            text = await self._run(last.carry_out)
        except BaseException:
            self._undo.append(last)
            raise
        self._feed.event("action", "page", f"undo: {last.text}")
        return Outcome(text, "", self.undo_text)

    async def _write(self, request: Mapping[str, Any]) -> Outcome:
        source, destination = (self._fabric.nic(_text(request, key)).name for key in ("source", "destination"))
        if source == destination:
            raise ExperimentError("a write goes from one host to another")
        nbytes = _size(request)
        self._jobs.write(source, destination, nbytes)
        line = f"write {source} {destination} {_short(nbytes)}"
        return Outcome("", f"sudo mrc shell {shlex.join([self._fabric.name, '-c', line])}", self.undo_text)

    async def _all_reduce(self, request: Mapping[str, Any]) -> Outcome:
        nbytes = _size(request)
        self._jobs.all_reduce(nbytes)
        return Outcome("", shlex.join(["sudo", *all_reduce_words(nbytes, self._fabric.name)]), self.undo_text)

    async def _stop(self, request: Mapping[str, Any]) -> Outcome:
        self._jobs.stop(_text(request, "job"))
        return Outcome("", "", self.undo_text)

    def _fault_command(self, words: Sequence[str]) -> str:
        if words[0] in ("clear", "kinds", "list"):
            verb, *rest = words
        elif len(words) == 2 and words[1] == "up":
            verb, rest = "clear", ["link", words[0]]
        else:
            verb, rest = "add", list(words[1:] if words[0] == "add" else words)
        return shlex.join(["sudo", "mrc", "fault", verb, *([self._fabric.name] if verb != "kinds" else []), *rest])

    async def _run(self, function: Callable[[], str]) -> str:
        async with self._lock:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function)


def _words(request: Mapping[str, Any]) -> list[str]:
    words = request.get("words")
    if not isinstance(words, list) or not 1 <= len(words) <= MAX_WORDS:
        raise ExperimentError(f"a fault has 1 to {MAX_WORDS} words")
    if not all(isinstance(word, str) and 0 < len(word) <= MAX_WORD and word.isprintable() for word in words):
        raise ExperimentError(f"a word has 1 to {MAX_WORD} characters that can be shown")
    return words


def _text(request: Mapping[str, Any], key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_WORD:
        raise ExperimentError(f"say {key}")
    return value


def _size(request: Mapping[str, Any]) -> int:
    value = request.get("bytes")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_BYTES:
        raise ExperimentError(f"bytes must be a whole number from 1 to {show_size(MAX_BYTES)}")
    return value


def _short(nbytes: int) -> str:
    """A size as commands take it: 64M, or bytes."""
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if nbytes % factor == 0:
            return f"{nbytes // factor}{unit}"
    return str(nbytes)
