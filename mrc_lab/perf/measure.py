"""A rank's part of a performance test, as a coroutine over verbs.

Time is what `clock` says, by default the running loop's own, so the same code measures real and simulated fabrics. The
ranks start each series together; one rank's series ends when all that it wrote is acknowledged, so that a root which
runs ahead is not taken for a fast one. Their times are combined as the plan says. Results are verified twice: after the
timed operations, in operations with fresh data each, every element is compared with what every rank computes by itself;
and in all operations the receiver of each chunk compares its CRC-32 with what the sender computed before sending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, TypeVar

import numpy as np

from mrc_host.verbs import Context
from mrc_lab.errors import ExperimentError
from mrc_lab.perf.cases import CASES, ArraySizes, Buffers, PerfCase, contribution, differing
from mrc_lab.perf.plan import DATATYPES, PerfPlan
from mrc_lab.workloads.collectives.algorithms import together
from mrc_lab.workloads.collectives.communicator import Communicator, TransferCounters
from mrc_lab.workloads.collectives.out_of_band import Exchange, LocalMeeting
from mrc_lab.workloads.collectives.reduction import ReduceOp

T = TypeVar("T")
Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class OperationTiming:
    """Time of one operation in ns, bandwidths in byte/s, and wrong elements over all ranks (None: not checked)."""

    time: float
    algorithm: float
    bus: float
    wrong: int | None


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One line of the table. `reduction` is "none" and `root` -1 where the operation has none."""

    size: int
    count: int
    datatype: str
    reduction: str
    root: int
    out_of_place: OperationTiming
    in_place: OperationTiming | None

    @property
    def timings(self) -> tuple[OperationTiming, ...]:
        """Those that there are."""
        return (self.out_of_place,) if self.in_place is None else (self.out_of_place, self.in_place)


@dataclass(frozen=True, slots=True)
class Report:
    """All lines, and what all ranks together received and checked chunk by chunk."""

    rows: tuple[ResultRow, ...]
    transfer: TransferCounters

    @property
    def wrong(self) -> int:
        """Elements that a check found wrong, and chunks whose bytes changed on the way."""
        wrong = sum(timing.wrong or 0 for row in self.rows for timing in row.timings)
        return wrong + self.transfer.wrong_chunks

    @property
    def average_bus(self) -> float:
        """Mean of all bus bandwidths, byte/s."""
        bus = [timing.bus for row in self.rows for timing in row.timings]
        return sum(bus) / len(bus) if bus else 0.0


_FIXED_BYTES = 1 << 14  # as much as an operation of no size takes, roughly, to estimate what is left


class RankMeasurement:
    """One rank's part; `on_row` gets each row as soon as it is known, `on_progress` the share of all that is done."""

    def __init__(
        self,
        plan: PerfPlan,
        ranks: Communicator,
        exchange: Exchange,
        clock: Clock | None = None,
        on_row: Callable[[ResultRow], None] | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        if plan.root >= ranks.world:
            raise ExperimentError(f"There is no rank {plan.root} among {ranks.world}.", "Give a smaller root (-r).")
        self._plan = plan
        self._case: PerfCase = CASES[plan.case]
        self._ranks = ranks
        self._exchange = exchange
        self._clock = clock or loop_clock()
        self._on_row = on_row or (lambda row: None)
        self._on_progress = on_progress or (lambda share: None)
        self._done, self._planned = 0, self._all_bytes()
        self._gathers = 0
        self._checks = 0

    async def run(self) -> Report:
        """Measure and verify all that is planned; every rank returns the same report."""
        rows = []
        for datatype, op, root in self._series():
            for shape in self._shapes(datatype):
                row = await self._bounded(self._row(shape, datatype, op, root))
                self._on_row(row)
                rows.append(row)
        await self._ranks.drain()
        transfers = await self._gather(astuple(self._ranks.transfer))
        return Report(tuple(rows), TransferCounters(*map(sum, zip(*transfers, strict=True))))

    def _series(self) -> Iterator[tuple[str, ReduceOp, int]]:
        plan, case = self._plan, self._case
        roots = range(self._ranks.world) if plan.root < 0 else (plan.root,)
        for _ in range(plan.cycles):
            for datatype in plan.datatypes:
                for op in plan.reductions if case.reduces else (ReduceOp.SUM,):
                    for root in roots if case.rooted else (-1,):
                        yield datatype, op, root

    def _shapes(self, datatype: str) -> Iterator[ArraySizes]:
        """One a size; sizes that come to the same whole elements only once, and none above the largest that was asked.

        A size below the smallest operation becomes that one.
        """
        dtype, most = np.dtype(DATATYPES[datatype]), max(self._plan.sizes)
        shapes = dict.fromkeys(self._case.shape(size, dtype, self._ranks.world) for size in self._plan.sizes)
        yield from (shape for shape in shapes if shape.nbytes <= most)

    async def _row(self, shape: ArraySizes, datatype: str, op: ReduceOp, root: int) -> ResultRow:
        out_of_place = await self._timing(shape, op, root, in_place=False)
        in_place = await self._timing(shape, op, root, in_place=True) if self._case.in_place else None
        reduction = op.value if self._case.reduces else "none"
        return ResultRow(shape.nbytes, shape.count, datatype, reduction, root, out_of_place, in_place)

    async def _timing(self, shape: ArraySizes, op: ReduceOp, root: int, *, in_place: bool) -> OperationTiming:
        plan, case = self._plan, self._case
        with np.errstate(all="ignore"):  # repeated in place, numbers may grow beyond their type
            buffers = self._buffers(shape, self._data(0, self._ranks.rank, shape, op), in_place)
            for _ in range(plan.warmup):
                await self._once(shape, buffers, op, root)
            await self._gather(None)
            began = self._clock()
            for _ in range(plan.iterations):
                await self._once(shape, buffers, op, root)
            await self._ranks.drain()
            took = await self._gather(self._clock() - began)
            wrong = [await self._wrong(shape, op, root, in_place) for _ in range(plan.checks)]
        time = plan.average.of(took) / plan.iterations
        speed = shape.nbytes * 1e9 / time if time else 0.0
        total = sum(await self._gather(sum(wrong))) if plan.checks else None
        return OperationTiming(time, speed, speed * case.bus_factor(self._ranks.world), total)

    async def _wrong(self, shape: ArraySizes, op: ReduceOp, root: int, in_place: bool) -> int:
        """Do it once with data of its own; number of elements on this rank that are not what they must be."""
        self._checks += 1
        rank, world = self._ranks.rank, self._ranks.world
        data = [self._data(self._checks, each, shape, op) for each in range(world)]
        buffers = self._buffers(shape, data[rank], in_place)
        await self._once(shape, buffers, op, root)
        wrong = differing(buffers.receive, self._case.expected(data, rank, op, root))
        return wrong if in_place else wrong + differing(buffers.send, data[rank])

    async def _once(self, shape: ArraySizes, buffers: Buffers, op: ReduceOp, root: int) -> None:
        await self._case.run(self._ranks, buffers, op, root)
        self._done += shape.nbytes + _FIXED_BYTES
        self._on_progress(self._done / self._planned)

    def _all_bytes(self) -> int:
        """What all operations of the plan move, as `_once` counts it; never 0."""
        plan = self._plan
        times = (plan.warmup + plan.iterations + plan.checks) * (2 if self._case.in_place else 1)
        sizes = (shape.nbytes + _FIXED_BYTES for name, *_ in self._series() for shape in self._shapes(name))
        return max(1, times * sum(sizes))

    def _buffers(self, shape: ArraySizes, data: np.ndarray[Any, Any], in_place: bool) -> Buffers:
        return self._case.buffers(shape, data, self._ranks.rank, self._ranks.world, in_place=in_place)

    def _data(self, seed: int, rank: int, shape: ArraySizes, op: ReduceOp) -> np.ndarray[Any, Any]:
        return contribution(seed, rank, shape.send, shape.dtype, op, self._ranks.world)

    async def _gather(self, value: Any) -> list[Any]:
        self._gathers += 1
        return await self._exchange.gather(f"perf/{self._gathers}", value)

    async def _bounded(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` within the plan's timeout."""
        limit = self._plan.timeout
        try:
            return await asyncio.wait_for(work, limit or None)
        except asyncio.TimeoutError:
            raise ExperimentError(f"One size took longer than {limit:g} s (-T).") from None


async def run_rank(
    device: Context,
    exchange: Exchange,
    plan: PerfPlan,
    clock: Clock | None = None,
    on_row: Callable[[ResultRow], None] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Report:
    """Join the other ranks with the NIC `device` and do this rank's part."""
    ranks = await Communicator.join(device, exchange, plan.streams, peers=CASES[plan.case].peers, name="perf")
    try:
        return await RankMeasurement(plan, ranks, exchange, clock, on_row, on_progress).run()
    finally:
        await ranks.leave()


async def run_ranks(
    devices: Sequence[Context],
    plan: PerfPlan,
    clock: Clock | None = None,
    on_row: Callable[[ResultRow], None] | None = None,
) -> Report:
    """All ranks in one process, on one NIC each; for a simulated world: `world.run(run_ranks(contexts, plan))`."""
    meeting = LocalMeeting(len(devices))
    reports: list[Report] = []

    async def one(rank: int) -> None:
        report_row = on_row if rank == 0 else None
        reports.append(await run_rank(devices[rank], meeting.rank(rank), plan, clock, report_row))

    await together(*(one(rank) for rank in range(len(devices))))
    return reports[0]


def loop_clock() -> Clock:
    """The running loop's time in ns."""
    loop = asyncio.get_running_loop()
    return lambda: round(loop.time() * 1e9)
