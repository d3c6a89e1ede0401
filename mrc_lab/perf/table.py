"""The printed table, column by column what nccl-tests prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mrc_lab.perf.measure import OperationTiming, Report, ResultRow
from mrc_lab.perf.plan import PerfPlan

_GIGA = 1e9
_ABSENT = "N/A"


@dataclass(frozen=True, slots=True)
class RankDevice:
    """Where a rank runs: process, host and NIC."""

    pid: int
    host: str
    nic: str


def heading(plan: PerfPlan, step: str, devices: Sequence[RankDevice]) -> list[str]:
    """What comes above the numbers; `step` says how sizes grow."""
    kind = plan.streams.qp_type.name
    lines = [
        f"# nThread 1 nGpus 1 minBytes {plan.sizes[0]} maxBytes {plan.sizes[-1]} step: {step}"
        f" warmup iters: {plan.warmup} iters: {plan.iterations} agg iters: 1 validation: {plan.checks} graph: 0",
        "#",
        "# Using devices",
    ]
    for rank, device in enumerate(devices):
        lines.append(
            f"#  Rank {rank:2} Group  0 Pid {device.pid:6} on {device.host:>10} device  0 [{kind}] {device.nic}"
        )
    both = f"{'time':>9} {'algbw':>9} {'busbw':>9} {'#wrong':>7}"
    units = f"{'(us)':>9} {'(GB/s)':>9} {'(GB/s)':>9} {'':>7}"
    left = f"{'size':>12} {'count':>13} {'type':>9} {'redop':>7} {'root':>7}"
    left_units = f"{'(B)':>12} {'(elements)':>13} {'':>9} {'':>7} {'':>7}"
    places = f"{'out-of-place':^37}  {'in-place':^37}".rstrip()
    return [
        *lines,
        "#",
        f"# {'':{len(left) - 2}}  {places}",
        f"#{left[1:]}  {both}  {both}",
        f"#{left_units[1:]}  {units}  {units}".rstrip(),
    ]


def line(row: ResultRow) -> str:
    """One row."""
    left = f"{row.size:>12} {row.count:>13} {row.datatype:>9} {row.reduction:>7} {row.root:>7}"
    return f"{left}  {_timing(row.out_of_place)}  {_timing(row.in_place)}"


def ending(report: Report, case: str) -> list[str]:
    """What comes below the numbers. Nothing is "out of bounds" only if no element and no chunk was wrong."""
    verdict = "OK" if not report.wrong else "FAILED"
    transfer = report.transfer
    return [
        f"# Out of bounds values : {report.wrong} {verdict}",
        f"# Chunk checksums      : {transfer.chunks} compared, {transfer.wrong_chunks} wrong",
        f"# Avg bus bandwidth    : {report.average_bus / _GIGA:.6g}",
        "#",
        f"# Collective test concluded: {case}_perf",
    ]


def _timing(timing: OperationTiming | None) -> str:
    if timing is None:
        return f"{_ABSENT:>9} {_ABSENT:>9} {_ABSENT:>9} {_ABSENT:>7}"
    wrong = _ABSENT if timing.wrong is None else str(timing.wrong)
    speeds = (f"{_bandwidth(speed):>9}" for speed in (timing.algorithm, timing.bus))
    return f"{timing.time / 1e3:>9.{_decimals(timing.time / 1e3)}f} {' '.join(speeds)} {wrong:>7}"


def _decimals(microseconds: float) -> int:
    return 2 if microseconds < 10_000 else 1 if microseconds < 100_000 else 0


def _bandwidth(speed: float) -> str:
    """GB/s with two decimals, as nccl-tests prints it, and with more where that would say little."""
    value = speed / _GIGA
    if value < 1e-4:
        return f"{value:.2e}"
    return f"{value:.2f}" if value >= 10 else f"{value:.4f}" if value >= 0.1 else f"{value:.6f}"
