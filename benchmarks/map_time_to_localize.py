"""Path mapping: seconds from a fault to the right name, and wrong names, in simulation and emulated.

Every kind of fault is tried at places and times drawn from `TRIALS` seeds, with the default plan (10 probes a second,
link and direction) on 2 planes of 2 T0s and 4 T1s with 4 hosts. "named" counts the trials in which everything that
was broken got its name within the case's limit, "wrong" the names given to what was not. The emulated part needs root
and cuts links of a fabric under traffic; it is left out elsewhere. The last measurements are what probing costs: the
throughput of a write with the map and without, taken in turn.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator

from benchmarks.report import Measurement
from controller.path_map.client import PathMapClient
from mrc_host import verbs
from mrc_lab.fabric.emulation import running
from mrc_lab.path_map_trials.trials import CASES, trial
from mrc_lab.workloads.verified_write import Transfer
from topologies.clos import multi_plane_clos
from topologies.probe_plan import probe_plan

TRIALS = 20
_LONG_TRIALS = 10  # of cases that take minutes of virtual time
_CUTS = 5
_PAIRS = 6
_WRITE = 8 << 20


def measure() -> Iterator[Measurement]:
    """All measurements."""
    yield from _simulated()
    if os.geteuid() == 0:
        yield from _emulated()


def _simulated() -> Iterator[Measurement]:
    fabric = multi_plane_clos()
    plan = probe_plan(fabric)
    for case in CASES:
        count = TRIALS if case.limit_s < 100 else _LONG_TRIALS
        outcomes = [trial(case, fabric, seed, plan=plan) for seed in range(1, count + 1)]
        subject = f"map {case.name}"
        named = sorted(outcome.seconds for outcome in outcomes if outcome.seconds is not None)
        healed = sorted(outcome.healed for outcome in outcomes if outcome.healed is not None)
        if any(outcome.directions for outcome in outcomes):
            yield Measurement(f"{subject}: named", len(named), "trials", len(named) / count, f"{count} trials")
            right, asked = (sum(getattr(o, a) for o in outcomes) for a in ("direction_right", "directions"))
            yield Measurement(f"{subject}: direction right", right, "names", right / asked, f"{asked} names")
        for what, times in (("time to name", named), ("time to heal", healed)):
            if times:
                yield Measurement(f"{subject}: {what}, median", round(statistics.median(times), 3), "s")
                yield Measurement(f"{subject}: {what}, longest", round(times[-1], 3), "s")
        yield Measurement(f"{subject}: wrong names", sum(len(outcome.wrong) for outcome in outcomes), "names")


def _emulated() -> Iterator[Measurement]:
    with (
        running(multi_plane_clos("benchmap", rate_bps=40_000_000)) as world,
        world.controller() as controller,
        verbs.open(world.emulation.socket("h1")) as near,
        verbs.open(world.emulation.socket("h3")) as far,
    ):
        transfer = Transfer(near, far)
        transfer.write(_WRITE)
        yield from _cost(controller, transfer)
        controller.start_map()
        time.sleep(3)
        yield from _cuts(controller, transfer)


def _cost(controller: PathMapClient, transfer: Transfer) -> Iterator[Measurement]:
    """Throughput with the map and without, in turn."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * _PAIRS):
        mapping = number % 2 == 0
        if mapping:
            controller.start_map()
        else:
            controller.stop_map()
        time.sleep(0.5)
        rates[mapping].append(transfer.write(_WRITE).bits_per_second / 1e6)
    with_map, without = (statistics.median(rates[mapping]) for mapping in (True, False))
    yield Measurement("map emulated: write without a map", round(without, 2), "Mb/s")
    yield Measurement("map emulated: write with a map", round(with_map, 2), "Mb/s", with_map / without, "without a map")


def _cuts(controller: PathMapClient, transfer: Transfer) -> Iterator[Measurement]:
    """Cut and restore links of both kinds while data flows."""
    wrong: set[str] = set()
    for kind, links in (
        ("T0-T1 link cut", [f"t0-{n % 2}:t1-{n % 4}@p{n % 2}" for n in range(_CUTS)]),
        ("NIC-T0 link cut", [f"h{n % 4 + 1}@p{n % 2}" for n in range(_CUTS)]),
    ):
        named, healed = [], []
        for link in links:
            transfer.write(1 << 20)
            began = controller.link_down(link).began_at_ns
            named.append(_until(controller, link, True, wrong) - began)
            began = controller.link_up(link).began_at_ns
            healed.append(_until(controller, link, False, wrong) - began)
        for what, times in (("time to name", named), ("time to heal", healed)):
            yield Measurement(f"map emulated {kind}: {what}, median", round(statistics.median(times) / 1e9, 3), "s")
            yield Measurement(f"map emulated {kind}: {what}, longest", round(max(times) / 1e9, 3), "s")
    yield Measurement("map emulated: wrong names", len(wrong), "names")


def _until(controller: PathMapClient, link: str, named: bool, wrong: set[str]) -> int:
    """When (monotonic ns) the map has, or has no longer, the name; collects names that are wrong."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        names = {fault.name for fault in controller.path_map().suspected}
        wrong |= names - {link}
        if (link in names) is named:
            return time.monotonic_ns()
        time.sleep(0.02)
    raise RuntimeError(f"the map did not {'name' if named else 'release'} {link} within a minute")
