"""perftest beside our own tools, as in ``host_perftest``, between two hosts of a fabric with switches.

Once at a rate that this machine carries with ease, where links are what limits both, and once with links so fast that
processors are: there perftest's polling and spinning takes time from the switches, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.host_perftest import MESSAGES, compare, lacks
from benchmarks.report import Measurement, report
from mrc_lab.fabric.emulation import running
from mrc_lab.fabric.link_rate import carried_rate
from topologies.clos import multi_plane_clos

NAME = "fabric_perftest"
PLANES, HOSTS = 2, 4
FAST_BPS = 2_000_000_000
SECONDS = 2  # of a measurement of bandwidth at the lower rate


def measure() -> Iterator[Measurement]:
    """All measurements of this file; none (with a remark) where something is missing."""
    if lacks(NAME):
        return
    rate = carried_rate(HOSTS, PLANES)
    yield from measure_at(rate, NAME, SECONDS * PLANES * rate // (8 * 65536))
    yield from measure_at(FAST_BPS, f"{NAME}_fast", MESSAGES)


def measure_at(rate_bps: int, name: str, messages: int) -> Iterator[Measurement]:
    """With links of that rate, by so many messages of bandwidth's; `name` begins the names of measurements."""
    fabric = multi_plane_clos(
        f"bench-perftest-{os.getpid()}", planes=PLANES, t0=2, t1=2, hosts=HOSTS, rate_bps=rate_bps
    )
    with running(fabric) as world:
        yield from compare([Path(world.emulation.socket(host)) for host in ("h1", "h3")], name, messages)


if __name__ == "__main__":
    report(measure())
