"""A schedule: operations of ranks with dependencies between those of one rank, and the checks before it runs.

The model is that of GOAL and LogGOPSim. A *send* is done when its bytes are acknowledged, whether or not anybody
receives them (it is eager, at any size); a *receive* is done when a message that fits has arrived; a *calc* takes time
on one of the rank's CPUs, which do one calc at a time. Messages between two ranks are matched in the order of their
sending, as MPI does. An operation starts once what it `requires` is done and what it `irequires` has started.

Since sends never wait for their receiver, whether a schedule without wildcards ends does not depend on any time:
:func:`check` runs it through in the mind and finds every deadlock before the run. With wildcards (`ANY`) it may depend
on which message comes first, and the replay reports what waits.
"""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mrc_lab.errors import FileError

ANY = -1  # as the source of a receive or as a tag: any
MAX_OPERATIONS = 500_000
MAX_RANKS = 4096
MAX_TIME = 1 << 50  # ns of one calc
MAX_SIZE = 1 << 30  # bytes of one message
_NAMED = 5  # operations that a message names


class OperationKind(enum.Enum):
    """What an operation does."""

    SEND = "send"
    RECV = "recv"
    CALC = "calc"


@dataclass(slots=True)
class Operation:
    """One operation of a rank. `size` is in bytes, or in ns for a calc; `peer` is the other rank (0 for a calc).

    `requires` and `irequires` are indexes into the schedule's operations, of the same rank. `line` is where the file
    says it (0: nowhere), `label` what the file calls it (empty: nothing). `queue` is its number among queue pairs of
    the rank to `peer` (GOAL: ``nic``).
    """

    rank: int
    kind: OperationKind
    size: int
    peer: int = 0
    tag: int = 0
    cpu: int = 0
    queue: int = 0
    line: int = 0
    label: str = ""
    requires: list[int] = field(default_factory=list)
    irequires: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        named = " in ".join(filter(None, (self.label, f"line {self.line}" if self.line else "")))
        where = f" ({named})" if named else ""
        if self.kind is OperationKind.CALC:
            return f"rank {self.rank}: calc {self.size}{where}"
        way = "to" if self.kind is OperationKind.SEND else "from"
        peer, tag = ("any" if value == ANY else value for value in (self.peer, self.tag))
        return f"rank {self.rank}: {self.kind.value} {self.size}b {way} {peer} tag {tag}{where}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A whole schedule. `source` is the file, for messages."""

    source: str
    ranks: int
    operations: Sequence[Operation]

    def followers(self) -> tuple[list[list[int]], list[list[int]]]:
        """By operation: those that wait for it to be done, and those that wait for it to start."""
        done: list[list[int]] = [[] for _ in self.operations]
        started: list[list[int]] = [[] for _ in self.operations]
        for number, operation in enumerate(self.operations):
            for other in operation.requires:
                done[other].append(number)
            for other in operation.irequires:
                started[other].append(number)
        return done, started

    def sent_bytes(self) -> int:
        """Bytes of all sends."""
        return sum(operation.size for operation in self.operations if operation.kind is OperationKind.SEND)


class Mailbox:
    """Messages or receives of one rank that wait for their counterpart, by source and tag; oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], deque[tuple[int, int]]] = {}
        self._wild = 0  # waiting ones with ANY in them
        self._count = 0

    def put(self, source: int, tag: int, number: int) -> None:
        """Let operation `number` wait."""
        self._waiting.setdefault((source, tag), deque()).append((self._count, number))
        self._wild += ANY in (source, tag)
        self._count += 1

    def take(self, source: int, tag: int) -> int | None:
        """The oldest that fits, or None."""
        key: tuple[int, int] | None = (source, tag)
        if self._wild or ANY in (source, tag):
            fitting = [one for one in self._waiting if _fit(one[0], source) and _fit(one[1], tag)]
            key = min(fitting, key=lambda one: self._waiting[one][0], default=None)
        waiting = None if key is None else self._waiting.get(key)
        if key is None or waiting is None:
            return None
        number = waiting.popleft()[1]
        self._wild -= ANY in key
        if not waiting:
            del self._waiting[key]
        return number

    def __iter__(self) -> Iterator[int]:
        """Operations that wait."""
        return (number for waiting in self._waiting.values() for _, number in waiting)


def _fit(one: int, other: int) -> bool:
    return ANY in (one, other) or one == other


def from_operations(source: str, operations: Iterable[Operation]) -> Schedule:
    """A schedule of operations that a program has made; FileError for what no schedule may have.

    There are as many ranks as the operations name.
    """
    found: list[Operation] = []
    for number, one in enumerate(operations):
        if not isinstance(one, Operation):
            raise FileError(f"{source}: operation {number} is no Operation, but {type(one).__name__}")
        if number >= MAX_OPERATIONS:
            raise FileError(f"{source}: more than {MAX_OPERATIONS} operations, which is the most")
        found.append(one)
    ranks = 1 + max((max(one.rank, one.peer) for one in found), default=-1)
    if not 1 <= ranks <= MAX_RANKS:
        raise FileError(f"{source}: has {ranks} ranks, and a schedule has 1 to {MAX_RANKS}")
    for number, one in enumerate(found):
        most = MAX_TIME if one.kind is OperationKind.CALC else MAX_SIZE
        if one.rank < 0 or one.peer < (ANY if one.kind is OperationKind.RECV else 0) or not 0 <= one.size <= most:
            raise FileError(f"{source}: operation {number}, {one}: rank, peer or size is out of range")
        for other in (*one.requires, *one.irequires):
            if not 0 <= other < len(found) or found[other].rank != one.rank:
                raise FileError(f"{source}: operation {number}, {one}: waits for {other}, which its rank does not have")
    return Schedule(source, ranks, found)


def check(schedule: Schedule) -> None:
    """FileError for dependencies in a circle and, without wildcards, for a deadlock or a message without receiver."""
    _check_circles(schedule)
    if not any(ANY in (one.peer, one.tag) for one in schedule.operations if one.kind is not OperationKind.CALC):
        _check_matches(schedule)


def _check_circles(schedule: Schedule) -> None:
    """Every operation must come after all that it waits for in some order."""
    operations = schedule.operations
    done, started = schedule.followers()
    left = [len(one.requires) + len(one.irequires) for one in operations]
    ready = [number for number, count in enumerate(left) if not count]
    while ready:
        number = ready.pop()
        for follower in (*done[number], *started[number]):
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    number = next((number for number, count in enumerate(left) if count), -1)
    if number < 0:
        return
    seen: dict[int, int] = {}
    while number not in seen:  # every one that is left waits for another that is left
        seen[number] = len(seen)
        one = operations[number]
        number = next(other for other in (*one.requires, *one.irequires) if left[other])
    circle = [other for other, at in seen.items() if at >= seen[number]]
    names = [str(operations[other]) for other in circle[:_NAMED]]
    more = "" if len(circle) <= _NAMED else f" and {len(circle) - _NAMED} more"
    raise FileError(f"{schedule.source}: operations wait for each other in a circle: {'; '.join(names)}{more}")


def _check_matches(schedule: Schedule) -> None:
    """Run through all operations, with sends that arrive at once."""
    operations = schedule.operations
    done, started = schedule.followers()
    left = [len(one.requires) + len(one.irequires) for one in operations]
    arrived: defaultdict[int, Mailbox] = defaultdict(Mailbox)
    posted: defaultdict[int, Mailbox] = defaultdict(Mailbox)
    ready = deque(number for number, count in enumerate(left) if not count)
    finished = bytearray(len(operations))

    def release(followers: list[int]) -> None:
        for follower in followers:
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)

    while ready:
        number = ready.popleft()
        one = operations[number]
        release(started[number])
        ended: list[int] = []
        if one.kind is OperationKind.RECV:
            message = arrived[one.rank].take(one.peer, one.tag)
            if message is None:
                posted[one.rank].put(one.peer, one.tag, number)
            else:
                ended.append(number)
        else:
            ended.append(number)
            if one.kind is OperationKind.SEND:
                receive = posted[one.peer].take(one.rank, one.tag)
                if receive is None:
                    arrived[one.peer].put(one.rank, one.tag, number)
                else:
                    ended.append(receive)
        for other in ended:
            finished[other] = 1
            release(done[other])
    waiting = [number for box in posted.values() for number in box]
    if waiting:
        raise FileError(f"{schedule.source}: would wait for ever: {listed(schedule, waiting, 'no send matches')}")
    unread = [number for box in arrived.values() for number in box]
    if unread:
        raise FileError(f"{schedule.source}: {listed(schedule, unread, 'no receive matches')}")


def listed(schedule: Schedule, numbers: Sequence[int], why: str) -> str:
    """Some operations in words, and why they are named."""
    names = [str(schedule.operations[number]) for number in sorted(numbers)[:_NAMED]]
    more = "" if len(numbers) <= _NAMED else f" and {len(numbers) - _NAMED} more"
    return f"{why} {'; '.join(names)}{more}"
