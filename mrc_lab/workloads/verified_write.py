"""A write from one host to another through their agents, every byte of it verified.

One process opens both NICs: it fills registered memory on the source with pseudo-random bytes, writes it to the
destination in pieces of a megabyte (the last one of a round with immediate data, so that the destination notices when
all are there), and compares. Amounts larger than the memory are sent in rounds, each with bytes of its own. Only the
transfer is timed. The steps of a write are a generator that yields the completion queue it waits for next, so that the
caller may block or, to have several transfers under way at once, await.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from mrc_host.verbs import CompletionQueue, Context, MemoryRegion, QueuePair, check
from mrc_host.verbs_types import Completion, CompletionOpcode, PathInfo, PathState, QpAttributes, QpCounters, QpType
from mrc_lab.errors import TransferError

PIECE = 1 << 20  # bytes of one write
MEMORY = 1 << 24  # bytes registered at each end
WINDOW = 8  # writes under way at once
TIMEOUT_S = 30.0  # without any completion

_Steps = Generator[CompletionQueue, Completion, "WriteReport"]


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What a write of `nbytes` did; `paths` counts the usable active paths by plane at its end."""

    nbytes: int
    seconds: float
    wrong_bytes: int
    paths: dict[int, int]
    counters: QpCounters

    @property
    def bits_per_second(self) -> float:
        """Payload over time."""
        return 8 * self.nbytes / self.seconds if self.seconds else 0.0


class Transfer:
    """A queue pair and memory at each of two NICs, for any number of writes from `source` to `destination`.

    A write without a completion for `timeout_s` fails. Use in a `with` statement, or close it. Raises MrcError when it
    cannot be set up.
    """

    def __init__(
        self,
        source: Context,
        destination: Context,
        *,
        qp_type: QpType = QpType.MRC,
        attributes: QpAttributes | None = None,
        memory: int = MEMORY,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        attributes = attributes or QpAttributes(retry_count=255)
        self._timeout_s = timeout_s
        self._clock = clock
        self._size = memory
        self._round = 0
        with ExitStack() as undo:
            self._near, self._far = (
                undo.enter_context(_End.create(context, memory, qp_type, attributes))
                for context in (source, destination)
            )
            self._near.pair.connect(self._far.pair.address)
            self._far.pair.connect(self._near.pair.address)
            self.close = undo.pop_all().close

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, nbytes: int, progress: Callable[[float], None] = lambda share: None) -> WriteReport:
        """Write `nbytes` (1 or more) and compare; blocks until done. `progress` gets what is done, from 0 to 1.

        Raises MrcError or `TransferError` when it fails or makes no progress in time; then the transfer is unusable.
        """
        steps = self._steps(nbytes)
        written = 0
        try:
            queue = next(steps)
            while True:
                completion = check(queue.wait(self._timeout_s))
                if completion.opcode is CompletionOpcode.WRITE:
                    written += PIECE
                    progress(min(1.0, written / nbytes))
                queue = steps.send(completion)
        except StopIteration as done:
            return _report_of(done)

    async def write_async(self, nbytes: int) -> WriteReport:
        """As :meth:`write`, letting other coroutines run meanwhile."""
        steps = self._steps(nbytes)
        try:
            queue = next(steps)
            while True:
                try:
                    completion = await asyncio.wait_for(queue.next(), self._timeout_s)
                except asyncio.TimeoutError:
                    raise TransferError(f"no completion arrived within {self._timeout_s:g} s") from None
                queue = steps.send(check(completion))
        except StopIteration as done:
            return _report_of(done)

    def paths(self) -> tuple[PathInfo, ...]:
        """Every path of the sending queue pair with its state."""
        return self._near.pair.paths()

    def _steps(self, nbytes: int) -> _Steps:
        if nbytes < 1:
            raise TransferError(f"a write has at least one byte, not {nbytes}")
        near, far = self._near, self._far
        before = dataclasses.asdict(near.pair.counters())
        seconds = 0.0
        wrong = 0
        for offset in range(0, nbytes, self._size):
            length = min(self._size, nbytes - offset)
            self._round += 1
            content = np.random.default_rng(self._round).integers(0, 256, length, dtype=np.uint8)
            near.memory.buffer[:length] = content.data
            began = self._clock()
            yield from _one_round(near, far, length)
            seconds += self._clock() - began
            arrived = np.frombuffer(far.memory.buffer, dtype=np.uint8, count=length)
            wrong += int(np.count_nonzero(arrived != content))
        after = dataclasses.asdict(near.pair.counters())
        counters = QpCounters(**{name: value - before[name] for name, value in after.items()})
        return WriteReport(nbytes, seconds, wrong, usable_paths(self.paths()), counters)


@dataclass(frozen=True, slots=True)
class _End:
    """What a transfer has on one of the two NICs."""

    queue: CompletionQueue
    memory: MemoryRegion
    pair: QueuePair

    @classmethod
    @contextmanager
    def create(cls, context: Context, size: int, qp_type: QpType, attributes: QpAttributes) -> Iterator[_End]:
        with context.alloc_pd() as domain, context.create_cq(WINDOW + 8) as queue:
            memory = domain.alloc_mr(size)
            with domain.create_qp(queue, queue, qp_type, attributes) as pair:
                yield cls(queue, memory, pair)


def _one_round(near: _End, far: _End, length: int) -> Generator[CompletionQueue, Completion, None]:
    """Write the first `length` bytes of the near memory to the far one, and wait until both ends know."""
    pieces = [(at, min(PIECE, length - at)) for at in range(0, length, PIECE)]
    under_way = 0
    for number, (at, size) in enumerate(pieces):
        if under_way == WINDOW:
            yield near.queue
            under_way -= 1
        last = number == len(pieces) - 1
        remote = far.memory.remote
        near.pair.write(near.memory, remote, offset=at, remote_offset=at, length=size, imm=1 if last else None)
        under_way += 1
    for _ in range(under_way):
        yield near.queue
    arrival = yield far.queue
    if arrival.opcode is not CompletionOpcode.RECV_WRITE_WITH_IMM:
        raise TransferError(f"the destination completed {arrival.opcode.value} instead of a write with immediate data")


def _report_of(done: StopIteration) -> WriteReport:
    """What the steps of a write have returned."""
    report: WriteReport = done.value
    return report


def usable_paths(paths: Iterable[PathInfo]) -> dict[int, int]:
    """How many active paths may be used, by plane."""
    usable = (p for p in paths if p.active and p.state in (PathState.GOOD, PathState.SKIP))
    return dict(sorted(Counter(path.plane for path in usable).items()))


def planes_text(paths: dict[int, int]) -> str:
    """The paths of a report in words: ``4 in plane 0, 4 in plane 1``."""
    return ", ".join(f"{count} in plane {plane}" for plane, count in paths.items()) or "none"


def losses_text(counters: QpCounters) -> str:
    """What a queue pair has lost in words: ``lost 5``, or ``lost 5 (43 more were late)`` on a busy machine."""
    late = f" ({counters.late} more were late)" if counters.late else ""
    return f"lost {counters.lost - counters.late}{late}"
