"""Latency of small writes over veth: applications with NICs of their own, and applications of agents.

Half of a ping-pong of 8-byte WRITE_WITH_IMM between two hosts without a switch, application to application: the median
of each round, and the median of the rounds, which alternate. Applications wait for completions; those with NICs of
their own poll for them, too, as programs for RDMA do. Needs root; `make bench-host` prints it with the rest.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from benchmarks.report import Measurement
from mrc_common import children
from mrc_host import verbs
from mrc_host.agent.config_file import dump_config
from mrc_host.back_to_back import BackToBack
from mrc_host.own_nic import OwnNic

ROUNDS = 5
PINGS = 1000
WARM = 100
BYTES = 8


def measure() -> Iterator[Measurement]:
    """All measurements of this file; none (with a remark) without root."""
    if os.geteuid() != 0:
        print("host_own_nic needs root: skipped", file=sys.stderr)
        return
    agents, own, polling = [], [], []
    for _ in range(ROUNDS):
        own.append(_round("own"))
        agents.append(_round("agents"))
        polling.append(_round("own", poll=True))
    name = "host_wire_write_latency"
    reference = f"{name}_two_applications"
    yield Measurement(reference, statistics.median(agents), "us")
    for kind, times in (("own_nics", own), ("own_nics_polling", polling)):
        ratio = statistics.median(mine / other for mine, other in zip(times, agents, strict=True))
        yield Measurement(f"{name}_{kind}", statistics.median(times), "us", ratio, reference)


def _round(nics: Literal["agents", "own"], *, poll: bool = False) -> float:
    """The median of one round, in microseconds."""
    with tempfile.TemporaryDirectory() as folder, BackToBack(Path(folder)) as hosts:
        programs = []
        try:
            for number in range(2):
                device = Path(folder) / f"own-{number}.json"
                device.write_text(dump_config(hosts.configs[number]))
                if nics == "agents":
                    device = hosts.start(number).socket
                words = str(device), ("first", "second")[number], "poll" if poll else "wait"
                command = children.python("benchmarks.host_own_nic", *words)
                programs.append(
                    children.popen(
                        ("ip", "netns", "exec", hosts.namespaces[number], *command),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        text=True,
                    )
                )
            for _ in ("endpoints", "connected"):  # nobody writes before both are
                lines = [_line(program) for program in programs]
                for program, other in zip(programs, reversed(lines), strict=True):
                    assert program.stdin is not None
                    program.stdin.write(other)
                    program.stdin.flush()
            result, _ = float(_line(programs[0])), _line(programs[1])
            for program in programs:
                program.communicate(timeout=20)
        finally:
            for program in programs:
                program.kill()
    return result


def _line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline()


def _polled(cq: verbs.CompletionQueue) -> verbs.Completion:
    while True:
        entries = cq.poll(1)
        if entries:
            return entries[0]


def _play(context: verbs.Context, first: bool, take: Callable[[verbs.CompletionQueue], verbs.Completion]) -> None:
    """One of the two applications, which takes completions by `take`; the first prints its result."""
    cq = context.create_cq(64)
    domain = context.alloc_pd()
    memory = domain.alloc_mr(4096)
    qp = domain.create_qp(cq)
    print(qp.endpoint(memory), flush=True)
    peer = verbs.Endpoint.parse(sys.stdin.readline())
    qp.connect(peer)
    print("connected", flush=True)
    sys.stdin.readline()
    times = []
    for number in range(WARM + PINGS):
        start = time.perf_counter()
        if not first:
            verbs.check(take(cq))
        qp.write(memory, peer.memory, length=BYTES, imm=number, signaled=False)
        if first:
            verbs.check(take(cq))
            times.append((time.perf_counter() - start) / 2 * 1e6)
    print(statistics.median(times[WARM:]) if first else "done", flush=True)
    sys.stdin.readline()  # nobody closes before both have all


def main() -> None:
    """``python -m benchmarks.host_own_nic DEVICE first|second wait|poll``; DEVICE: its own NIC's file, or a socket."""
    device, first = sys.argv[1], sys.argv[2] == "first"
    take = _polled if sys.argv[3] == "poll" else lambda cq: cq.wait(20)
    if device.endswith(".json"):
        with OwnNic.open(device) as nic:
            _play(nic.context, first, take)
    else:
        with verbs.open(device) as context:
            _play(context, first, take)


if __name__ == "__main__":
    main()
