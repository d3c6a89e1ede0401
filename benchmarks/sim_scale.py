"""Large simulations: a world of 1,024 hosts and 8 planes, and a ring all-reduce among 64.

The large world is built, and each of its hosts writes 1 MiB to one below another T0, all at once. The all-reduce is an
experiment as `mrc run` runs it, in which every rank compares its result with the right one. Only the compiled
transport is measured, in a process of its own: plain Python would take several times as long. CPU time counts.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

from benchmarks.compiled_and_plain import COMPILED, measure_compiled
from mrc_host import compiled

if __name__ == "__main__" and sys.argv[1] == COMPILED:
    compiled.use()  # before anything imports the transport

from benchmarks.report import Measurement, report
from benchmarks.sim_fabric import GIGA, PACKETS, write_messages
from mrc_lab.experiments.files.loader import load_text
from mrc_lab.experiments.running.recording import FLOW_COUNTERS
from mrc_lab.experiments.running.run_experiment import run_experiment
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos

HOSTS, PER_T0 = 1024, 16
RANKS = 64
ALL_REDUCE = f"""
title: ring all-reduce
fabric: {{planes: 4, t0: 8, t1: 8, hosts: {RANKS}, rate: 100G}}
workload: {{kind: collective, operation: all_reduce, bytes: 4M, iterations: 1, interleave: yes}}
duration: 1s
measure: {{links: no}}
"""


def measure() -> Iterator[Measurement]:
    """All measurements of this file."""
    return measure_compiled("benchmarks.sim_scale")


def _measurements() -> Iterator[Measurement]:
    start = time.process_time()
    fabric = multi_plane_clos(planes=8, t0=HOSTS // PER_T0, t1=8, hosts=HOSTS)
    with SimulatedWorld(fabric, seed=1, rate=100 * GIGA) as world:
        yield Measurement("sim_1024_hosts_build", time.process_time() - start, "s")
        yield Measurement("sim_1024_hosts_built_memory", _highest_resident(), "MiB")
        start = time.process_time()
        pairs = [(f"h{i + 1}", f"h{(i + PER_T0) % HOSTS + 1}") for i in range(HOSTS)]
        for task in [world.spawn(write_messages(world, *pair, 1)) for pair in pairs]:
            world.run(task)
        speed = HOSTS * PACKETS / (time.process_time() - start)
        yield Measurement("sim_1024_hosts_packets_per_second", speed, "packets/s")
        yield Measurement("sim_1024_hosts_highest_memory", _highest_resident(), "MiB")
    yield Measurement("sim_all_reduce_64_ranks_packets_per_second", _all_reduce(), "packets/s")


def _all_reduce() -> float:
    """Data packets a CPU second, the time to build the world included."""
    start = time.process_time()
    (recording,) = run_experiment(load_text(ALL_REDUCE), "sim", 1).values()
    took = time.process_time() - start
    if recording.errors or recording.wrong_bytes or not recording.checked_bytes:
        raise RuntimeError(f"the all-reduce went wrong: {recording.wrong_bytes} bytes, {recording.errors}")
    received = recording.flow_samples[-1, :, FLOW_COUNTERS.index("received")]
    return float(received.sum()) / took


def _highest_resident() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    report(_measurements())
