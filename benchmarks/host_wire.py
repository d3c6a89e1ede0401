"""Verified writes between two agents in two namespaces, over one veth pair a plane, without a switch.

Rounds alternate between a bare Python AF_PACKET send loop on the first of these veth pairs and writes over all of them,
so that both meet the same machine; measurements and ratios are medians over the rounds. Packets are data packets of
4096 bytes; every byte is compared after each round. CPU time is the agents' own, user and system, divided by data
packets, and compared with what the bare loop takes for one: unlike the rate, for which two agents and an application
need cores of their own at the same time, that ratio does not depend on what else the machine does.

Needs root. Prints one JSON object a line (see the house: name, value, unit, ratio, ratio_to):

    make bench-host
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Measurement
from mrc_common import children
from mrc_common.same_bytes import same_bytes
from mrc_host import verbs
from mrc_host.back_to_back import Agent, BackToBack
from mrc_host.verbs_types import QpAttributes

ROUNDS = 5
SECONDS = 1.0  # of writes, and of the bare loop, in each round
PAYLOAD = 4096
MESSAGE = 1 << 18
REGION = 1 << 22
FRAME = PAYLOAD + 146  # as a WRITE Only packet is, without frame check sequence
PINGS = 400

BARE_LOOP = """
import socket, sys, time
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
out.setsockopt(263, 20, 1)
out.bind((sys.argv[1], 0))
frame = bytes.fromhex("020000000009020000000008") + b"\\x86\\xdd" + bytes(int(sys.argv[2]) - 14)
end, sent, send = time.monotonic() + float(sys.argv[3]), 0, out.send
start = time.monotonic()
while time.monotonic() < end:
    for _ in range(64):
        send(frame)
    sent += 64
print(sent / (time.monotonic() - start), time.process_time() / sent * 1e6)
"""


class End:
    """One application: a region and `qps` queue pairs on one completion queue."""

    def __init__(self, agent: Agent, qps: int) -> None:
        self.context = verbs.open(agent.socket)
        self.cq = self.context.create_cq(4 * qps + 64)
        self.pd = self.context.alloc_pd()
        self.mr = self.pd.alloc_mr(REGION)
        attributes = QpAttributes(timeout=18)  # 0.27 s: a queue of all queue pairs' windows is no loss
        self.qps = [self.pd.create_qp(self.cq, attributes=attributes) for _ in range(qps)]


def measure() -> Iterator[Measurement]:
    """All measurements of this file; none (with a remark) without root."""
    if os.geteuid() != 0:
        print("host_wire needs root: skipped", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder, BackToBack(Path(folder)) as hosts:
        agents = [hosts.start(number) for number in range(2)]
        for qps in (1, 64):
            yield from _writes(hosts, agents, qps)


def _writes(hosts: BackToBack, agents: list[Agent], qps: int) -> Iterator[Measurement]:
    """The measurements of writes on `qps` queue pairs at once."""
    ends = [End(agent, qps) for agent in agents]
    _connect(ends)
    _write(ends, 0.3)  # warm: pages, caches, round-trip times
    bare, bare_cpu, rates, cpu = [], [], [], []
    for _ in range(ROUNDS):
        packets_per_second, microseconds = _bare_loop(hosts)
        bare.append(packets_per_second)
        bare_cpu.append(microseconds)
        before = [_cpu_seconds(agent) for agent in agents]
        rate, packets = _write(ends, SECONDS)
        rates.append(rate)
        cpu.append([(_cpu_seconds(agent) - b) / packets * 1e6 for agent, b in zip(agents, before, strict=True)])
    rate = statistics.median(rates)
    ratio = statistics.median(rate / base for rate, base in zip(rates, bare, strict=True))
    name = f"host_wire_write_{qps}qp"
    yield Measurement(f"{name}_bare_send", statistics.median(bare), "packets/s")
    yield Measurement(f"{name}_bare_send_cpu", statistics.median(bare_cpu), "us/packet")
    yield Measurement(name, rate, "packets/s", ratio, f"{name}_bare_send")
    yield Measurement(f"{name}_goodput", rate * PAYLOAD * 8, "bit/s")
    for role, side in (("sender", 0), ("receiver", 1)):
        spent = statistics.median(c[side] for c in cpu)
        yield Measurement(
            f"{name}_{role}_cpu", spent, "us/packet", spent / statistics.median(bare_cpu), f"{name}_bare_send_cpu"
        )
    if qps == 1:
        yield Measurement("host_wire_write_latency", _latency(ends), "us")
    for end in ends:
        end.context.close()


def _connect(ends: list[End]) -> None:
    for a, b in zip(ends[0].qps, ends[1].qps, strict=True):
        a.connect(b.address)
        b.connect(a.address)
    ends[0].mr.buffer[:] = random.Random(1).randbytes(REGION)


def _write(ends: list[End], seconds: float) -> tuple[float, int]:
    """Write the region again and again, every queue pair its share, and compare; packets/s and packets."""
    a, b = ends
    share = REGION // len(a.qps)
    message = min(MESSAGE, share)
    b.mr.buffer[:] = bytes(REGION)
    todo = [[0, 0] for _ in a.qps]  # posted and completed messages
    index = {qp.qpn: i for i, qp in enumerate(a.qps)}
    depth = max(2, 16 // len(a.qps))

    def post(i: int) -> None:
        offset = i * share + todo[i][0] * message % share
        a.qps[i].write(a.mr, b.mr.remote, offset=offset, remote_offset=offset, length=message)
        todo[i][0] += 1

    start = time.monotonic()
    for i in range(len(a.qps)):
        for _ in range(depth):
            post(i)
    while any(posted > done for posted, done in todo):
        i = index[verbs.check(a.cq.wait(30)).qpn]
        todo[i][1] += 1
        if time.monotonic() < start + seconds or todo[i][0] * message < share:
            post(i)
    took = time.monotonic() - start
    if not same_bytes(b.mr.buffer, a.mr.buffer):
        raise AssertionError("the bytes that arrived are not those that were written")
    packets = sum(done for _, done in todo) * (message // PAYLOAD)
    return packets / took, packets


def _latency(ends: list[End]) -> float:
    """Half of a ping-pong of 8-byte WRITE_WITH_IMM, application to application: median, microseconds."""
    a, b = ends
    times = []
    for i in range(PINGS):
        start = time.perf_counter()
        a.qps[0].write(a.mr, b.mr.remote, length=8, imm=i, signaled=False)
        b.cq.wait(10)
        b.qps[0].write(b.mr, a.mr.remote, length=8, imm=i, signaled=False)
        a.cq.wait(10)
        times.append((time.perf_counter() - start) / 2 * 1e6)
    return statistics.median(times)


def _bare_loop(hosts: BackToBack) -> tuple[float, float]:
    """Packets a second, and microseconds of CPU a packet, of the bare loop."""
    interface = hosts.configs[0].ports[0].interface
    command = ("ip", "netns", "exec", hosts.namespaces[0], *children.python_code(BARE_LOOP))
    done = children.run((*command, interface, str(FRAME), str(SECONDS)), capture_output=True, text=True, check=True)
    rate, cpu = done.stdout.split()
    return float(rate), float(cpu)


def _cpu_seconds(agent: Agent) -> float:
    # after the command's name, which is in brackets, fields 14 and 15 of the line are user and system ticks
    fields = Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
