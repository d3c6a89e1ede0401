"""Growth of the scale backend: `examples/hundred_thousand.yaml` with fewer racks, or with more flaps.

Each size is run in a process of its own, since its highest memory counts. Time is CPU time, on one processor; it is
that from the file to the recording, without the report. What is compared is time for each NIC, or each flap, with that
of the size before: 1 is linear.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.report import Measurement, read, report
from mrc_common import children
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running.run_experiment import run_experiment

_FILE: Final = Path(__file__).parents[1] / "examples" / "hundred_thousand.yaml"
_RACK: Final = 256  # NICs
_RACKS: Final = (32, 64, 128, 256, 512)
_FLAPS: Final = (1, 4, 16)  # times those of the file, with the fewest racks


def measure() -> Iterator[Measurement]:
    """All measurements of this file."""
    before = 0.0
    for racks in _RACKS:
        found = _in_process(racks, 1)
        each = found["run"].value / racks
        yield _compared(found["run"], each, before, f"for each NIC, {racks // 2 * _RACK} of them")
        yield found["build"]
        yield found["memory"]
        before = each
    before = 0.0
    for flaps in _FLAPS:
        run = _in_process(_RACKS[0], flaps)["run"]
        yield _compared(run, run.value / flaps, before, "for each flap, a quarter of them")
        before = run.value / flaps


def _compared(run: Measurement, each: float, before: float, what: str) -> Measurement:
    return Measurement(run.name, run.value, run.unit, each / before, what) if before else run


def _in_process(racks: int, flaps: int) -> dict[str, Measurement]:
    """What was measured, by the last word of its name."""
    command = children.python("benchmarks.scale_growth", str(racks), str(flaps))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # threads that wait for others take CPU time
    with children.popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = {one.name.rpartition("_")[2]: one for one in map(read, process.stdout)}
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed")
    return found


def _measurements(racks: int, flaps: int) -> Iterator[Measurement]:
    name = f"scale_{racks * _RACK}_nics" + (f"_{flaps}_times_the_flaps" if flaps > 1 else "")
    text = _FILE.read_text("utf-8")
    for asked, wanted in (
        ("hosts: 131072", f"hosts: {racks * _RACK}"),
        ("t0: 512", f"t0: {racks}"),
        ("rate: 4.2/min", f"rate: {4.2 * flaps:.6g}/min"),
    ):
        if asked not in text:
            raise RuntimeError(f"{_FILE} has no {asked} any more")
        text = text.replace(asked, wanted)
    start = time.process_time()
    experiment = load_text(text)
    built = time.process_time()
    (recording,) = run_experiment(experiment, "scale", 1).values()
    took = time.process_time() - built
    if recording.errors:
        raise RuntimeError(f"the run went wrong: {recording.errors}")
    yield Measurement(f"{name}_build", built - start, "s")
    yield Measurement(f"{name}_run", took, "s")
    yield Measurement(f"{name}_memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB")


if __name__ == "__main__":
    report(_measurements(int(sys.argv[1]), int(sys.argv[2])))
