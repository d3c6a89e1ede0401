"""Latency of RDMA WRITE between two hosts, in the manner of ib_write_lat.

    python -m mrc_host.tools.write_lat -d /run/mrc/demo/h1.sock -p unix:/tmp/lat        # on one host: the server
    python -m mrc_host.tools.write_lat -d /run/mrc/demo/h3.sock unix:/tmp/lat           # on the other

A ping-pong, half of whose round trip is reported. Where ib_write_lat looks at memory until it changes, both ends wait
for the completion of a WRITE_WITH_IMM here: busy waiting would take the processor from the emulated fabric.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.tools.session import Channel, Plan, Side, accept, connect, header, parser, plan
from mrc_host.tools.write_bw import from_wire, to_wire
from mrc_host.values import CompletionOpcode


@dataclass(frozen=True, slots=True)
class Result:
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


def summarize(size: int, times: Sequence[float]) -> Result:
    """The figures that perftest prints, over half round trips in microseconds."""
    ordered = sorted(times)
    last = len(ordered) - 1
    return Result(
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
    side.post(0, size, imm=number & 0xFFFFFFFF)


def _wait(side: Side) -> int:
    """Wait for the peer's turn, passing over the completions of our own; its number."""
    while True:
        entry = verbs.check(side.cq.wait(60))
        if entry.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM:
            return entry.imm or 0


def serve(device: str, channel: Channel) -> None:
    """Answer every message with one of the same size."""
    work = from_wire(channel.receive())
    with Side(device, channel, work) as side:
        side.exchange()
        for size in work.sizes:
            for number in range(work.iterations):
                _wait(side)
                _turn(side, size, number)
        channel.receive()


def measure(device: str, channel: Channel, work: Plan) -> list[Result]:
    """Be the client: send, wait, print, and return the figures."""
    work = replace(work, qps=1, seconds=None)
    channel.send(to_wire(work))
    results = []
    with Side(device, channel, work) as side:
        side.exchange()
        columns = ("#bytes  ", "#iterations  ", "t_min[usec]  ", "t_max[usec]  ", "t_typical[usec]  ", "t_avg[usec]  ",
                   "t_stdev[usec]  ", "99% percentile[usec]  ", "99.9% percentile[usec]")  # fmt: skip
        header(side, "RDMA_Write Latency Test", columns)
        for size in work.sizes:
            times = []
            for number in range(work.iterations):
                start = time.perf_counter_ns()
                _turn(side, size, number)
                _wait(side)
                times.append((time.perf_counter_ns() - start) / 2000)
            result = summarize(size, times)
            results.append(result)
            values = (result.minimum, result.maximum, result.typical, result.average, result.deviation,
                      result.percentile_99, result.percentile_99_9)  # fmt: skip
            print(f" {size:<8}{result.iterations:<13}" + "".join(
                f"{value:<{len(name)}.2f}" for value, name in zip(values, columns[2:], strict=True)
            ), flush=True)  # fmt: skip
        channel.send("end")
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; returns the exit status."""
    options = parser("write_lat", "Latency of RDMA WRITE.", iterations=1000, size=2, depth=1).parse_args(arguments)
    try:
        if options.peer is None:
            serve(options.ib_dev, accept(options.port, options.bind))
        else:
            measure(options.ib_dev, connect(options.peer, options.port), plan(options))
    except MrcError as error:
        print(f"write_lat: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
