"""Bandwidth of RDMA WRITE between two hosts, in the manner of ib_write_bw.

    python -m mrc_host.tools.write_bw -d /run/mrc/demo/h1.sock -p unix:/tmp/bw          # on one host: the server
    python -m mrc_host.tools.write_bw -d /run/mrc/demo/h3.sock unix:/tmp/bw             # on the other

Every byte is compared (as a checksum of the server's memory) after each size; a difference ends the run with status 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.tools.session import Channel, Plan, Side, ToolError, accept, check_amounts, connect, header, parser, plan
from mrc_host.values import QpAttributes, QpType

MEBI = 1 << 20


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of one size: peak and average in byte/s, messages per second."""

    size: int
    iterations: int
    peak: float
    average: float
    message_rate: float


def to_wire(work: Plan) -> dict[str, Any]:
    """A plan as JSON."""
    return {**asdict(work), "kind": work.kind.value}


def from_wire(data: dict[str, Any]) -> Plan:
    """The plan that the client sent; raises ToolError when it is of another release, or asks for too much."""
    try:
        work = Plan(
            **{
                **data,
                "sizes": tuple(data["sizes"]),
                "kind": QpType(data["kind"]),
                "attributes": QpAttributes(**data["attributes"]),
            }
        )
        check_amounts(work)
    except (TypeError, KeyError, ValueError) as error:
        raise ToolError(f"The client speaks another version of this tool: {error}.") from None
    return work


def pattern(seed: int, size: int) -> bytes:
    """`size` bytes that differ from those of the next seed, with a period that is no power of two."""
    period = bytes((seed + k) % 251 for k in range(251))
    return (period * (size // len(period) + 1))[:size]


def run_size(side: Side, size: int) -> Result:
    """Keep every queue pair's depth of writes in flight until the plan is fulfilled."""
    work, cq = side.plan, side.cq
    index = {qp.qpn: i for i, qp in enumerate(side.qps)}
    total = work.iterations * work.qps
    start = time.perf_counter_ns()
    end = None if work.seconds is None else start + round(work.seconds * 1e9)
    posted = done = window_done = 0
    peak, window_start = 0.0, start

    def post(i: int) -> int:
        if posted >= total if end is None else time.perf_counter_ns() >= end:
            return 0
        side.post(i, size)
        return 1

    for i in list(range(work.qps)) * work.depth:
        posted += post(i)
    while done < posted:
        for entry in cq.poll(64) or (cq.wait(60),):
            verbs.check(entry)
            done += 1
            window_done += 1
            posted += post(index[entry.qpn])
        if window_done >= work.depth:
            now = time.perf_counter_ns()
            peak = max(peak, window_done * size * 1e9 / (now - window_start))
            window_start, window_done = now, 0
    took = (time.perf_counter_ns() - start) / 1e9
    average = done * size / took
    return Result(size, done, max(peak, average), average, done / took)


def serve(device: str, channel: Channel) -> None:
    """Be the memory that the client writes to, and compare at the end of each size."""
    work = from_wire(channel.receive())
    with Side(device, channel, work) as side:
        side.exchange()
        for size in work.sizes:
            expected = channel.receive()  # comes when all of this size is written
            channel.send(side.checksum(size) == expected)
        channel.receive()


def measure(device: str, channel: Channel, work: Plan, *, gbits: bool = False) -> list[Result]:
    """Be the client: write, print, and return the figures. Raises ToolError when bytes differ."""
    channel.send(to_wire(work))
    results = []
    with Side(device, channel, work) as side:
        side.exchange()
        unit = "Gb/sec" if gbits else "MB/sec"
        columns = (
            f"{'#bytes':<10} {'#iterations':<14} ", f"{f'BW peak[{unit}]':<18} ", f"{f'BW average[{unit}]':<20} ",
            "MsgRate[Mpps]",
        )  # fmt: skip
        header(side, "RDMA_Write BW Test", columns)
        scale = 8 / 1e9 if gbits else 1 / MEBI
        for number, size in enumerate(work.sizes):
            for i in range(work.qps):  # other bytes for every size
                start = i * side.region_size
                side.mr.buffer[start : start + size] = pattern(number + i, size)
            result = run_size(side, size)
            results.append(result)
            print(
                f" {size:<10} {result.iterations:<14} {result.peak * scale:<18.2f} "
                f"{result.average * scale:<20.2f} {result.message_rate / 1e6:.6f}",
                flush=True,
            )
            channel.send(side.checksum(size))
            if channel.receive() is not True:
                raise ToolError(f"The bytes that arrived are not those that were written (messages of {size} bytes).")
        channel.send("end")
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; returns the exit status."""
    flags = parser("write_bw", "Bandwidth of RDMA WRITE.", iterations=1000, size=65536, depth=16)
    flags.add_argument("--report_gbits", action="store_true", help="Gbit/s instead of 2^20 byte/s")
    options = flags.parse_args(arguments)
    try:
        if options.peer is None:
            serve(options.ib_dev, accept(options.port, options.bind))
        else:
            work = plan(options)
            if work.seconds is not None:
                work = replace(work, iterations=0)
            measure(options.ib_dev, connect(options.peer, options.port), work, gbits=options.report_gbits)
    except MrcError as error:
        print(f"write_bw: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
