"""perftest beside our own tools, as in ``host_perftest``, between two hosts of a fabric: with switches, at a rate.

Here perftest's spinning takes processor time from the switches, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.host_perftest import compare, lacks
from benchmarks.report import Measurement, report
from mrc_lab.fabric.emulation import running
from mrc_lab.fabric.link_rate import carried_rate
from topologies.clos import multi_plane_clos

PLANES, HOSTS = 2, 4


def measure() -> Iterator[Measurement]:
    """All measurements of this file; none (with a remark) where something is missing."""
    if lacks("fabric_perftest"):
        return
    fabric = multi_plane_clos(
        f"bench-perftest-{os.getpid()}", planes=PLANES, t0=2, t1=2, hosts=HOSTS, rate_bps=carried_rate(HOSTS, PLANES)
    )
    with running(fabric) as world:
        yield from compare([Path(world.emulation.socket(host)) for host in ("h1", "h3")], "fabric_perftest")


if __name__ == "__main__":
    report(measure())
