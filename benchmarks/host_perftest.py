"""perftest's ib_write_bw and ib_write_lat, over our libibverbs, beside our own write_bw and write_lat.

Between two agents in two namespaces, over one veth pair a plane, without a switch. Rounds alternate between perftest
and our tool, so that both meet the same machine; measurements and ratios are medians over the rounds. ib_write_bw is to
reach 0.9 of write_bw, and the median of ib_write_lat to be at most 1.5 of write_lat's: our tools wait for completions,
while perftest polls them, and for latency spins on memory, on processors that the agents need as well.

Needs root, perftest and the libibverbs of this tree. ``python -m benchmarks host`` prints them.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.report import Measurement, report
from mrc_common import children
from mrc_host.back_to_back import BackToBack
from mrc_host.libibverbs import build
from mrc_lab.fabric.emulation import prefer

ROUNDS = 5
TIMEOUT_S = 60
PORT = "18515"
MEBI = 1 << 20
BANDWIDTH = ("-s", "65536")
MESSAGES = 1000  # of bandwidth's
LATENCY = ("-s", "8", "-n", "1000")
_AVERAGE, _MEDIAN = 3, 4  # columns of perftest's tables, and of ours


def measure() -> Iterator[Measurement]:
    """All measurements of this file; none (with a remark) where something is missing."""
    if lacks("host_perftest"):
        return
    with tempfile.TemporaryDirectory() as folder, BackToBack(Path(folder)) as hosts:
        agents = [hosts.start(number) for number in range(2)]
        for agent in agents:
            prefer(agent.process.pid)  # as in a fabric
        sockets = [agent.socket for agent in agents]
        yield from compare(sockets, "host_perftest")


def lacks(benchmark: str) -> bool:
    """Whether something is missing that perftest needs; then a remark says what."""
    if os.geteuid() != 0:
        lacking = "root"
    elif shutil.which("ib_write_bw") is None:
        lacking = "perftest (apt-get install perftest)"
    elif not build.is_current():
        lacking = "libibverbs (python -m mrc_host.libibverbs)"
    else:
        return False
    print(f"{benchmark} needs {lacking}: skipped", file=sys.stderr)
    return True


def compare(sockets: Sequence[Path], name: str, messages: int = MESSAGES) -> Iterator[Measurement]:
    """Bandwidth and latency between two agents' NICs, by both tools; `name` begins the names of measurements."""
    yield from _compare(sockets, name, "write_bw", (*BANDWIDTH, "-n", str(messages)), _AVERAGE, 8 * MEBI, "bit/s")
    yield from _compare(sockets, name, "write_lat", LATENCY, _MEDIAN, 1, "us")


def _compare(
    sockets: Sequence[Path], name: str, tool: str, options: Sequence[str], column: int, factor: float, unit: str
) -> Iterator[Measurement]:
    """Our tool and perftest's of that name, with the same options; `factor` makes `unit` of their figures."""
    ours, theirs = [], []
    for number in range(-1, ROUNDS):  # the first warms up
        one, other = _ours(sockets, tool, options)[column], _perftest(sockets, tool, options)[column]
        if number >= 0:
            ours.append(one * factor)
            theirs.append(other * factor)
    ratio = statistics.median(other / one for one, other in zip(ours, theirs, strict=True))
    yield Measurement(f"{name}_{tool}", statistics.median(ours), unit)
    yield Measurement(f"{name}_ib_{tool}", statistics.median(theirs), unit, ratio, f"{name}_{tool}")


def _ours(sockets: Sequence[Path], tool: str, options: Sequence[str]) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        channel = f"unix:{folder}/{tool}"
        client, server = (children.python(f"mrc_host.tools.{tool}", "-d", str(socket)) for socket in sockets)
        return _row((*server, "-p", channel, *options), (*client, channel, *options))


def _perftest(sockets: Sequence[Path], tool: str, options: Sequence[str]) -> list[float]:
    known = ("env", f"LD_LIBRARY_PATH={build.folder()}")
    client, server = ((*known, f"MRC_AGENT={socket}", f"ib_{tool}", "-p", PORT, *options) for socket in sockets)
    return _row(server, (*client, "127.0.0.1"))


def _row(server: Sequence[str], client: Sequence[str]) -> list[float]:
    """The figures that the client prints; it is started again until the server listens."""
    with children.popen(server, stdout=subprocess.DEVNULL) as serving:
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline:
                done = children.run(client, capture_output=True, text=True, timeout=TIMEOUT_S)
                rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
                if done.returncode == 0 and rows:
                    serving.wait(TIMEOUT_S)
                    return [float(field) for field in rows[0]]
                time.sleep(0.1)
        finally:
            serving.kill()
    raise RuntimeError(f"{' '.join(client)} printed no figures within {TIMEOUT_S} s.")


if __name__ == "__main__":
    report(measure())
