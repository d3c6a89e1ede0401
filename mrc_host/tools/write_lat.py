"""Latency of RDMA WRITE between two hosts, like ib_write_lat.

    python -m mrc_host.tools.write_lat -d /run/mrc/demo/h1.sock -p unix:/tmp/lat        # on one host: the server
    python -m mrc_host.tools.write_lat -d /run/mrc/demo/h3.sock unix:/tmp/lat           # on the other

A ping-pong; half of each round trip is reported. ib_write_lat polls memory until it changes; here both ends wait for
the completion of a WRITE_WITH_IMM, because busy waiting would take CPU time from the emulated fabric.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from mrc_host import verbs
from mrc_host.tools.flags import only_for, parsed, parser
from mrc_host.tools.session import (
    PeerConnection,
    Side,
    TransferPlan,
    from_wire,
    header,
    run_tool,
)
from mrc_host.verbs.remote.codec import to_json
from mrc_host.verbs_types import CompletionOpcode

_LAST = 0xFFFFFFFF  # the immediate value that ends a size
_COLUMNS = (
    "#bytes  ", "#iterations  ", "t_min[usec]  ", "t_max[usec]  ", "t_typical[usec]  ", "t_avg[usec]  ",
    "t_stdev[usec]  ", "99% percentile[usec]  ", "99.9% percentile[usec]",
)  # fmt: skip
_COLUMNS_OF_A_DURATION = ("#bytes        ", "#iterations       ", "t_avg[usec]    ", "tps average")


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """Half round trips of one size, microseconds."""

    size: int
    iterations: int
    minimum: float
    maximum: float
    typical: float
    average: float
    deviation: float
    percentile_99: float
    percentile_99_9: float


def summarize(size: int, times: Sequence[float]) -> LatencyResult:
    """The statistics that perftest prints, of half round trips in microseconds."""
    ordered = sorted(times)
    last = len(ordered) - 1
    return LatencyResult(
        size,
        len(ordered),
        ordered[0],
        ordered[-1],
        statistics.median(ordered),
        statistics.fmean(ordered),
        statistics.pstdev(ordered),
        ordered[round(last * 0.99)],
        ordered[round(last * 0.999)],
    )


def _turn(side: Side, size: int, number: int) -> None:
    side.post(0, size, imm=number)


def _wait(side: Side) -> int:
    """Wait for the peer's message, skipping completions of our own; its number."""
    while True:
        entry = verbs.check(side.cq.wait(60))
        if entry.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM:
            return entry.imm or 0


def serve(device: str, channel: PeerConnection) -> None:
    """Answer every message with one of the same size, until the client says that this size is done."""
    work = from_wire(channel.receive())
    with Side(device, channel, work) as side:
        side.exchange()
        for size in work.sizes:
            number = 0
            while number != _LAST:
                number = _wait(side)
                _turn(side, size, number)
        channel.receive()


def measure(device: str, channel: PeerConnection, work: TransferPlan, output: LatencyOutput) -> list[LatencyResult]:
    """Be the client: send, wait, print, and return the results."""
    channel.send(to_json(work))
    results = []
    with Side(device, channel, work) as side:
        side.exchange()
        header(side, "RDMA_Write Latency Test", output.columns(work))
        for size in work.sizes:
            times = ping_pong(side, size)
            _turn(side, size, _LAST)
            _wait(side)
            result = summarize(size, times)
            results.append(result)
            output.row(result, times, work)
        channel.send("end")
    return results


def ping_pong(side: Side, size: int) -> list[float]:
    """Half round trips in microseconds, for the plan's iterations or duration."""
    work = side.plan
    times: list[float] = []
    end = None if work.seconds is None else time.perf_counter_ns() + round(work.seconds * 1e9)
    while len(times) < work.iterations if end is None else time.perf_counter_ns() < end:
        start = time.perf_counter_ns()
        _turn(side, size, len(times) % _LAST)
        _wait(side)
        times.append((time.perf_counter_ns() - start) / 2000)
    return times


@dataclass(frozen=True, slots=True)
class LatencyOutput:
    """How results are printed. `each`: every time too, `in_order` of measurement or sorted."""

    each: bool = False
    in_order: bool = False

    def columns(self, work: TransferPlan) -> tuple[str, ...]:
        """Columns of perftest, which differ for a run of some duration."""
        return _COLUMNS if work.seconds is None else _COLUMNS_OF_A_DURATION

    def row(self, result: LatencyResult, times: Sequence[float], work: TransferPlan) -> None:
        """One size."""
        if self.each:
            print("#, usec")
            for number, value in enumerate(times if self.in_order else sorted(times), 1):
                print(f"{number}, {value:.2f}")
        values: tuple[float, ...] = (result.average, 1e6 / result.average if result.average else 0.0)
        if work.seconds is None:
            values = (result.minimum, result.maximum, result.typical, result.average, result.deviation,
                      result.percentile_99, result.percentile_99_9)  # fmt: skip
        columns = self.columns(work)
        print(f" {result.size:<{len(columns[0])}}{result.iterations:<{len(columns[1])}}" + "".join(
            f"{value:<{len(name)}.2f}" for value, name in zip(values, columns[2:], strict=True)
        ), flush=True)  # fmt: skip


def as_json(result: LatencyResult) -> dict[str, float]:
    """One size, by the names that perftest gives them in its JSON; microseconds."""
    return {
        "MsgSize": result.size,
        "n_iterations": result.iterations,
        "t_min": result.minimum,
        "t_max": result.maximum,
        "t_typical": result.typical,
        "t_avg": result.average,
        "t_stdev": result.deviation,
        "percentile_99": result.percentile_99,
        "percentile_99.9": result.percentile_99_9,
    }


def flags() -> argparse.ArgumentParser:
    """The command line."""
    arguments = parser(
        "write_lat", "Latency of RDMA WRITE, with the flags of ib_write_lat.", iterations=1000, size=2, depth=1
    )
    add = arguments.add_argument
    add("-H", "--report-histogram", action="store_true", help="print every time, the shortest first")
    add("-U", "--report-unsorted", action="store_true", help="print every time, in the order measured")
    only_for(
        arguments, "bandwidth", ("-b", "--bidirectional"), ("-q", "--qp"), ("-t", "--tx-depth"), ("-N", "--noPeak"),
        ("--report_gbits",), ("--report-both",),
    )  # fmt: skip
    return arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; returns the exit status."""
    options = parsed(flags(), arguments)
    output = LatencyOutput(each=options.report_histogram or options.report_unsorted, in_order=options.report_unsorted)

    def results(device: str, channel: PeerConnection) -> list[dict[str, float]]:
        return [as_json(result) for result in measure(device, channel, options.plan, output)]

    return run_tool("write_lat", options, serve, results)


if __name__ == "__main__":
    sys.exit(main())
