"""A permutation of 128 hosts in simulation, and the same in htsim, side by side: data packets a second of one core.

Host i writes 1 MiB, in packets of 4096 bytes, to host i + 8: all at once, each from its T0 over a T1 to another T0.
Links have 400 Gb/s. In simulation that is a plane of 16 T0s and 8 T1s; the P4 program runs at each hop, and the bytes
are compared at the end. htsim (Broadcom's csg-htsim, a simulator in C++ with packets that have no content) runs
it with EQDS on its fat tree of two tiers, which has the same switches. Give the path of its binary ``htsim_eqds``:
``python -m benchmarks --htsim PATH sim``; without it only the simulation is measured. CPU time is what counts; that of
both includes building the network.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.compiled_and_plain import COMPILED, measure_each
from mrc_host import compiled

if __name__ == "__main__" and sys.argv[1] == COMPILED:
    compiled.use()  # before anything imports the transport

from benchmarks.report import Measurement, report
from benchmarks.sim_fabric import MESSAGE, PACKETS, write_messages
from mrc_common import children
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos

HOSTS, SHIFT = 128, 8  # htsim's fat tree for so many hosts has 8 below each switch
RATE = 400_000_000_000
_SENT = re.compile(r"^New: (\d+) ", re.MULTILINE)
_LONGEST = 600.0  # seconds

_htsim: list[Path] = []  # the binary to compare with


def use(binary: Path) -> None:
    """Compare with this htsim."""
    _htsim[:] = [binary]


def simulate() -> float:
    """Packets a CPU second."""
    start = time.process_time()
    with SimulatedWorld(multi_plane_clos(planes=1, t0=16, t1=8, hosts=HOSTS), seed=1, rate=RATE) as world:
        pairs = [(f"h{i + 1}", f"h{(i + SHIFT) % HOSTS + 1}") for i in range(HOSTS)]
        for task in [world.spawn(write_messages(world, *pair, 1)) for pair in pairs]:
            world.run(task)
        return HOSTS * PACKETS / (time.process_time() - start)


def run_htsim(binary: Path) -> float:
    """Packets a CPU second. RuntimeError if it fails, or prints something else than a csg-htsim does."""
    with tempfile.TemporaryDirectory() as folder:
        flows = [f"{i}->{(i + SHIFT) % HOSTS} id {i + 1} start 0 size {MESSAGE}" for i in range(HOSTS)]
        matrix = Path(folder, "permutation.cm")
        matrix.write_text("\n".join([f"Nodes {HOSTS}", f"Connections {HOSTS}", *flows, ""]))
        size = ("-nodes", str(HOSTS), "-tiers", "2", "-linkspeed", str(RATE // 1_000_000), "-mtu", "4096")
        end = ("-strat", "perm", "-end", "100000", "-o", f"{folder}/log")
        command = [str(binary.resolve()), "-tm", str(matrix), *size, *end]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:  # it leaves files where it runs
            done = children.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_LONGEST)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"htsim does not run: {error}") from None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    sent, finished = _SENT.search(done.stdout), done.stdout.count(" finished at ")
    if done.returncode or sent is None or finished != HOSTS:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(
            f"{binary} finished {finished} of {HOSTS} flows (exit status {done.returncode}); it should be htsim_eqds of"
            f" csg-htsim. It printed last: {said[-1] if said else 'nothing'}"
        )
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return int(sent[1]) / max(took, 1e-3)


def measure() -> Iterator[Measurement]:
    """The simulation with each of the two kinds of transport, and htsim, if its path is given."""
    other = max(run_htsim(_htsim[0]) for _ in range(3)) if _htsim else None
    if other is not None:
        yield Measurement("sim_permutation_of_htsim_packets_per_second", other, "packets/s")
    for measured in measure_each("benchmarks.sim_permutation"):
        if other is not None:
            measured = Measurement(measured.name, measured.value, measured.unit, measured.value / other, "htsim")
        yield measured


def _measurements(prefix: str) -> Iterator[Measurement]:
    speed = max(simulate() for _ in range(2))
    yield Measurement(f"{prefix}_permutation_packets_per_second", speed, "packets/s")


if __name__ == "__main__":
    report(_measurements("sim" if sys.argv[1] == COMPILED else "sim_plain"))
