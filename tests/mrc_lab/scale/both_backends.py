"""One file on both backends, and what of the two recordings is compared (docs/scale.md)."""

from __future__ import annotations

import functools

import numpy as np

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running.recording import FLOW_COUNTERS, Recording
from mrc_lab.experiments.running.run_experiment import run_experiment

RATE, RETRANSMISSIONS = 0.02, 0.10
WARM = 100_000  # ns, in which windows and queues find their size
EVERYBODY = """
workload: {kind: permutation, message: 128K, outstanding: 16}
measure: {bin: 10us, links: no}
"""  # of 64 hosts below 8 T0s, all send and fill the uplinks
HALF = """
workload:
  kind: permutation
  message: 128K
  outstanding: 16
  hosts: ["h[1-4]", "h[9-12]", "h[17-20]", "h[25-28]", "h[33-36]", "h[41-44]", "h[49-52]", "h[57-60]"]
measure: {bin: 10us, links: no}
"""  # uplinks for twice what they send


def values(plane: int, *t1s: int) -> set[int]:
    """The entropy values of paths over some T1s of a plane."""
    return {plane << 10 | t1 for t1 in t1s}


@functools.cache  # several tests look at one run
def both(text: str, seed: int = 1) -> tuple[Recording, Recording]:
    """Recordings of a file with packets, and without."""
    experiment = load_text(text)
    found = [run_experiment(experiment, backend, seed)["only"] for backend in ("sim", "scale")]
    return found[0], found[1]


def counted(recording: Recording, counter: str, start: int = 0) -> float:
    """All of a counter from a time on."""
    first = int(np.searchsorted(recording.times, start))
    samples = recording.flow_samples[:, :, FLOW_COUNTERS.index(counter)]
    return float((samples[-1] - samples[first]).sum())


def throughput(recording: Recording, start: int = WARM) -> float:
    """Payload of all flows from a time on, b/s."""
    first = int(np.searchsorted(recording.times, start))
    return float(recording.rates()[first:].sum(axis=1) @ np.diff(recording.times)[first:]) / float(
        recording.times[-1] - recording.times[first]
    )


def bad_paths(recording: Recording, evs: set[int]) -> set[tuple[int, int]]:
    """Flows and paths that went out of use, of those with the entropy values `evs`."""
    return {(path.flow, path.ev) for path in recording.paths if path.new == "assumed_bad" and path.ev in evs}


def steps(recording: Recording) -> list[int]:
    """Times of operations."""
    return [one.ended - one.began for one in recording.operations]


def close(ours: float, theirs: float, within: float) -> bool:
    """Whether two values differ by less than a share of the second."""
    return abs(ours - theirs) <= within * abs(theirs)
