"""Bring-up of whole fabrics, the demo's and a large one: seconds by phase, memory, and a write between every two hosts.

Memory is the proportional set size (PSS, proc(5)) summed over the fabric's processes and this one, so that what they
share is counted once. Every write is verified; one wrong byte ends the benchmark with an error.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.report import Measurement
from mrc_host import verbs
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.fabric.link_rate import carried_rate
from mrc_lab.workloads.verified_write import Transfer
from topologies.clos import multi_plane_clos

SHAPES = {
    "demo": {"planes": 2, "t0": 2, "t1": 4, "hosts": 4},
    "large": {"planes": 8, "t0": 4, "t1": 4, "hosts": 16},
}
NBYTES = 1 << 16  # of each write


def measure() -> Iterator[Measurement]:
    """Each fabric comes up twice, as the first time fills the caches of Python and of the compiled switch program."""
    for shape in SHAPES:
        with running(multi_plane_clos(_name("warm"), **SHAPES[shape])):
            pass
        yield from _measure(shape)


def _name(what: str) -> str:
    return f"bench-{what}-{os.getpid()}"


def _measure(shape: str) -> Iterator[Measurement]:
    numbers = SHAPES[shape]
    rate = carried_rate(numbers["hosts"], numbers["planes"])
    fabric = multi_plane_clos(_name(shape), **numbers, rate_bps=rate)
    with running(fabric) as world:
        for phase, seconds in world.bring_up.items():
            yield Measurement(f"fabric_{shape}_bringup_{phase.removesuffix('_s')}", seconds, "s")
        with world.controller() as controller:
            if not controller.status().ready:
                raise RuntimeError("the controller does not find every switch programmed")
        yield Measurement(f"fabric_{shape}_links", len(fabric.links), "links")
        pids = [child.process.pid for child in world.emulation.children.values()]
        shells = [world.emulation.host(name).pid for name in fabric.nic_names]
        yield Measurement(f"fabric_{shape}_processes", len(pids) + len(shells) + 1, "processes")
        began = time.monotonic()
        pairs = _write_all_pairs(world)
        yield Measurement(f"fabric_{shape}_pairs_verified", pairs, "pairs")
        yield Measurement(f"fabric_{shape}_pairs_seconds", time.monotonic() - began, "s")
        memory = sum(map(_proportional_bytes, (*pids, *shells, os.getpid())))
        yield Measurement(f"fabric_{shape}_memory", memory, "bytes")
        began = time.monotonic()
    yield Measurement(f"fabric_{shape}_takedown", time.monotonic() - began, "s")


def _write_all_pairs(world: EmulatedWorld) -> int:
    """Write from every host to every other and compare; returns how many pairs there are."""
    pairs = 0
    with ExitStack() as stack:
        names = tuple(world.fabric.nic_names)
        nics = {name: stack.enter_context(verbs.open(world.emulation.socket(name))) for name in names}
        for source, destination in itertools.permutations(names, 2):
            with Transfer(nics[source], nics[destination], memory=NBYTES) as transfer:
                report = transfer.write(NBYTES)
            if report.wrong_bytes:
                raise RuntimeError(f"{report.wrong_bytes} bytes from {source} to {destination} are wrong")
            pairs += 1
    return pairs


def _proportional_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.partition("\nPss:")[2].split()[0]) * 1024
