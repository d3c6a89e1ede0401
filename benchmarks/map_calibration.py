"""Path mapping: is a name's confidence earned, with one to four faults at once; and the CPU time of an update.

`TRIALS` seeds for each number of faults, on four small fabrics (mrc_lab/path_map_trials/calibration.py). "wrong" is the
share of suspicions, each counted once an update, that name something healthy. CPU time is that of building the map and
of one update (five a second), with 64 hosts on 8 planes of 8 T0s and 8 T1s, and with twice as many hosts and T1s; the
four faults are in two planes.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator

from benchmarks.report import Measurement
from controller.path_map.values import ElementKind
from mrc_lab.path_map_trials.calibration import BANDS, calibrate, total
from mrc_lab.path_map_trials.sampled import FaultyElement, SampledFabric
from topologies.clos import multi_plane_clos
from topologies.probe_plan import probe_plan

TRIALS = 200
_UPDATES = 25
_LARGE = ((8, 8, 8, 64), (8, 8, 16, 128))  # planes, T0s and T1s in each, hosts
_FOUR_FAULTS = (
    FaultyElement(ElementKind.T0_T1, "t0-1:t1-1@p0"),
    FaultyElement(ElementKind.SWITCH, "t1-3@p0"),
    FaultyElement(ElementKind.NIC_T0, "h1@p1", 0.3),
    FaultyElement(ElementKind.NIC_T0, "h3@p0", 0.5),
)


def measure() -> Iterator[Measurement]:
    """All measurements."""
    for shape in _LARGE:
        yield from _cpu_time(*shape)
    for faults in range(1, 5):
        yield from _calibration(faults)


def _calibration(faults: int) -> Iterator[Measurement]:
    found = total(calibrate(seed, faults) for seed in range(1, TRIALS + 1))
    subject = f"map with {faults} fault{'s' if faults > 1 else ''}"
    yield Measurement(
        f"{subject}: trials with a wrong name at 0.9 or more",
        found.misled,
        "trials",
        found.misled / TRIALS,
        f"{TRIALS} trials",
    )
    for band in BANDS:
        made, wrong = found.at_least(band)
        yield Measurement(
            f"{subject}: wrong at {band:g} or more", wrong, "suspicions", wrong / max(1, made), f"{made} suspicions"
        )
    named = sorted(seconds for seconds in found.seconds if seconds is not None)
    shown = len(found.seconds)
    yield Measurement(f"{subject}: named within 12 s", len(named), "faults", len(named) / shown, f"{shown} faults")
    yield Measurement(f"{subject}: time to name, median", round(statistics.median(named), 2), "s")
    yield Measurement(f"{subject}: time to name, 90 % within", round(named[len(named) * 9 // 10], 2), "s")


def _cpu_time(planes: int, t0: int, t1: int, hosts: int) -> Iterator[Measurement]:
    plan = probe_plan(multi_plane_clos(planes=planes, t0=t0, t1=t1, hosts=hosts))
    subject = f"map of {planes} planes, {t0} T0s, {t1} T1s, {hosts} hosts"
    began = time.process_time()
    fabric = SampledFabric(plan, random.Random(1))
    yield Measurement(f"{subject}: building", round(time.process_time() - began, 3), "s CPU")
    for what, faults in (("no fault", ()), ("one fault", _FOUR_FAULTS[:1]), ("four faults", _FOUR_FAULTS)):
        fabric.set_faults(*faults)
        spent = []
        for _ in range(_UPDATES):
            fabric.probe()
            began = time.process_time()
            fabric.path_map.update(fabric.now)
            spent.append(1000 * (time.process_time() - began))
        yield Measurement(f"{subject}: update, {what}, mean", round(statistics.mean(spent), 1), "ms CPU")
        yield Measurement(f"{subject}: update, {what}, longest", round(max(spent), 1), "ms CPU")
