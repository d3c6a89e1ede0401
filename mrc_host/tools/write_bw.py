"""Bandwidth of RDMA WRITE between two hosts, like ib_write_bw.

    python -m mrc_host.tools.write_bw -d /run/mrc/demo/h1.sock -p unix:/tmp/bw          # on one host: the server
    python -m mrc_host.tools.write_bw -d /run/mrc/demo/h3.sock unix:/tmp/bw             # on the other

With -b both ends write at once. After each size all bytes written are verified by a checksum; a difference ends the run
with status 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mrc_common.argument_types import whole_number
from mrc_host import verbs
from mrc_host.tools.flags import only_for, parsed, parser
from mrc_host.tools.session import (
    PeerConnection,
    Side,
    ToolError,
    TransferPlan,
    foreign,
    from_wire,
    header,
    run_tool,
)
from mrc_host.verbs.remote.codec import to_json

MEBI = 1 << 20
_SERVER = 125  # offset of the server's pattern seeds from the client's


@dataclass(frozen=True, slots=True)
class BandwidthResult:
    """Results of one size: peak and average in byte/s, messages per second."""

    size: int
    iterations: int
    peak: float
    average: float
    message_rate: float

    def with_other(self, other: BandwidthResult) -> BandwidthResult:
        """Both directions together; iterations stay those of one end, as in perftest."""
        return BandwidthResult(
            self.size,
            self.iterations,
            self.peak + other.peak,
            self.average + other.average,
            self.message_rate + other.message_rate,
        )


def pattern(seed: int, size: int) -> bytes:
    """`size` bytes that differ from those of the next seed, with a period that is no power of two."""
    period = bytes((seed + k) % 251 for k in range(251))
    return (period * (size // len(period) + 1))[:size]


def run_size(side: Side, size: int) -> BandwidthResult:
    """Keep `depth` writes in flight on every queue pair until the plan is complete."""
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
    return BandwidthResult(size, done, max(peak, average), average, done / took)


def fill(side: Side, size: int, seed: int) -> None:
    """Fill the memory with the bytes to write, different for every seed and queue pair."""
    for i in range(side.plan.qps):
        start = i * side.region_size
        side.mr.buffer[start : start + size] = pattern(seed + i, size)


def settle(side: Side, size: int, own: BandwidthResult | None) -> BandwidthResult | None:
    """Exchange checksums and results with the other end, and verify what it wrote; its result, None if there is none.

    Each end has seen the completions of all its writes, so all bytes are in place. ToolError when they differ.
    """
    side.channel.send(None if own is None else {"checksum": side.checksum(size, 0), **asdict(own)})
    reply = side.channel.receive()
    try:
        expected, other = (None, None) if reply is None else (reply.pop("checksum"), BandwidthResult(**reply))
    except (AttributeError, LookupError, TypeError):
        raise foreign() from None
    right = other is None or side.checksum(size, side.sink) == expected
    side.channel.send(right)
    if side.channel.receive() is not True or not right:
        raise ToolError(f"The bytes that arrived differ from those written (messages of {size} bytes).")
    return other


def serve(device: str, channel: PeerConnection) -> None:
    """Be the server: provide the memory that the client writes to, and with -b write too."""
    work = from_wire(channel.receive())
    with Side(device, channel, work) as side:
        side.exchange()
        for number, size in enumerate(work.sizes):
            own = None
            if work.both:
                fill(side, size, _SERVER + number)
                channel.send("ready")
                channel.receive()
                own = run_size(side, size)
            settle(side, size, own)
        channel.receive()


def measure(device: str, channel: PeerConnection, work: TransferPlan, output: BandwidthOutput) -> list[BandwidthResult]:
    """Be the client: write, print and return the results, summed over both ends. ToolError when bytes differ."""
    channel.send(to_json(work))
    results = []
    with Side(device, channel, work) as side:
        side.exchange()
        output.header(side)
        for number, size in enumerate(work.sizes):
            fill(side, size, number)
            if work.both:
                channel.receive()
                channel.send("go")
            own = run_size(side, size)
            other = settle(side, size, own)
            results.append(own if other is None else own.with_other(other))
            output.row(results[-1])
        channel.send("end")
    return results


@dataclass(frozen=True, slots=True)
class BandwidthOutput:
    """How results are printed: in Gb/s or in 2^20 byte/s, with the peak or 0 in its place."""

    gbits: bool = False
    peak: bool = True

    def header(self, side: Side) -> None:
        """The lines above the results."""
        unit = "Gb/sec" if self.gbits else "MiB/sec"
        columns = (
            f"{'#bytes':<10} {'#iterations':<14} ", f"{f'BW peak[{unit}]':<18} ", f"{f'BW average[{unit}]':<20} ",
            "MsgRate[Mpps]",
        )  # fmt: skip
        header(side, f"RDMA_Write {'Bidirectional ' if side.plan.both else ''}BW Test", columns)

    def row(self, result: BandwidthResult) -> None:
        """One size."""
        peak, average = self._scaled(result.peak) if self.peak else 0.0, self._scaled(result.average)
        print(
            f" {result.size:<10} {result.iterations:<14} {_decimals(peak):<18} {_decimals(average):<20} "
            f"{result.message_rate / 1e6:.6f}",
            flush=True,
        )

    def as_json(self, result: BandwidthResult) -> dict[str, float]:
        """One size, by the names that perftest gives them in its JSON."""
        return {
            "MsgSize": result.size,
            "n_iterations": result.iterations,
            "BW_peak": self._scaled(result.peak) if self.peak else 0.0,
            "BW_average": self._scaled(result.average),
            "MsgRate": result.message_rate / 1e6,
        }

    def _scaled(self, speed: float) -> float:
        return speed * 8 / 1e9 if self.gbits else speed / MEBI


def _decimals(value: float) -> str:
    """Two decimals as in perftest, more for small values."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.6f}"


def flags() -> argparse.ArgumentParser:
    """The command line."""
    arguments = parser(
        "write_bw", "Bandwidth of RDMA WRITE, with the flags of ib_write_bw.", iterations=1000, size=65536, depth=16
    )
    add = arguments.add_argument
    add("-q", "--qp", type=whole_number(1), default=1, help="queue pairs (default %(default)s)")
    add(
        "-t",
        "--tx-depth",
        type=whole_number(1),
        default=16,
        help="messages in flight on a queue pair (default %(default)s)",
    )
    add("-b", "--bidirectional", action="store_true", help="both ends write; the sum is shown")
    add("-N", "--noPeak", action="store_true", help="do not show the peak")
    add("--report_gbits", action="store_true", help="Gb/s instead of 2^20 byte/s")
    only_for(arguments, "latency", ("-H", "--report-histogram"), ("-U", "--report-unsorted"), ("--latency_gap",))
    return arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; returns the exit status."""
    options = parsed(flags(), arguments)
    output = BandwidthOutput(gbits=options.report_gbits, peak=not options.noPeak)

    def results(device: str, channel: PeerConnection) -> list[dict[str, float]]:
        return [output.as_json(result) for result in measure(device, channel, options.plan, output)]

    return run_tool("write_bw", options, serve, results)


if __name__ == "__main__":
    sys.exit(main())
