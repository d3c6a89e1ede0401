"""Replay one seed, or run as many as fit into a time.

    python -m tests.swarm --seed 1113                     replay, and shrink if it fails
    python -m tests.swarm --seed 1113 --faults 2 --writes 0,7     replay a part of it
    python -m tests.swarm --seconds 3600 --jobs 2         soak
    python -m tests.swarm --first -500 --runs 500         soak fabrics of three tiers: those of negative seeds

Ends with status 0 when all is well, 1 when a run failed, 2 when the command line makes no sense.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import fields

import click

from mrc_host.verbs_types import QpAttributes
from tests.swarm.denylists import Denied
from tests.swarm.generate_scenario import generate
from tests.swarm.run import SwarmOutcome, run
from tests.swarm.scenario import EVERY_PLANE, FOREVER, PlannedPair, Scenario
from tests.swarm.shrink import shrink
from tests.swarm.wall_time_limit import LONGEST_S, limited
from topologies.faults import Fault

_DIED = "the process crashed during this run or another one; only a replay shows which"
Result = tuple[int, "SwarmOutcome | None", str]  # the seed, its outcome, or what went wrong with running it


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, help="Replay this seed.")
@click.option(
    "--faults", "kept_faults", metavar="I,J", help="With --seed: only these faults (by position; '' for none)."
)
@click.option("--writes", "kept_writes", metavar="I,J", help="With --seed: only these writes.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Duration without --seed.")
@click.option("--runs", type=int, help="Stop after this number of runs.")
@click.option("--first", type=int, default=1, show_default=True, help="First seed of a soak.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--shrink/--no-shrink", "shrinking", default=True, show_default=True, help="Reduce failing scenarios.")
def main(
    seed: int | None,
    kept_faults: str | None,
    kept_writes: str | None,
    seconds: float,
    runs: int | None,
    first: int,
    jobs: int,
    shrinking: bool,
) -> None:
    """Run random fabrics, workloads and fault schedules in simulation and check everything."""
    if seed is None:
        sys.exit(_soak(first, seconds, runs, jobs, shrinking))
    scenario = generate(seed)
    part = scenario.only(
        faults=_positions("--faults", kept_faults, len(scenario.faults)),
        writes=_positions("--writes", kept_writes, len(scenario.writes)),
    )
    describe(part)
    found = _replay(part)
    for violation in found:
        print(f"VIOLATION: {violation}", flush=True)
    if found and shrinking and kept_faults is None and kept_writes is None:
        _report_shrunk(scenario)
    sys.exit(1 if found else 0)


def _replay(scenario: Scenario) -> tuple[str, ...]:
    """Run a plan and print the outcome; returns its violations, including exceptions."""
    try:
        with limited(LONGEST_S):
            outcome = run(scenario)
    except Exception as error:  # whatever it is, it is a finding
        traceback.print_exc(file=sys.stdout)
        return (f"{type(error).__name__}: {error}",)
    print(
        f"\n{outcome.packets} data packets, {outcome.frames} frames, {outcome.end} ns,"
        f" {outcome.failed_pairs} pairs failed, trace {outcome.trace}"
    )
    return outcome.violations


def describe(scenario: Scenario) -> None:
    """Print a plan."""
    fabric = scenario.fabric
    print(
        f"seed {scenario.seed}: {fabric.planes} planes, {fabric.t0_count} T0, {fabric.t1_count} T1, "
        f"{f'{fabric.t2_count} T2, ' if fabric.t2_count else ''}{len(fabric.nics)}"
        f" NICs, {fabric.links[0].rate_bps / 1e9:g} Gb/s, {scenario.delay} ns a link,"
        f" queues of {scenario.queues.max_packets} packets{', flow control' if fabric.queues.pfc else ''},"
        f"{f' reroutes after {fabric.reroute_ns} ns,' if fabric.reroute_ns else ''}"
        f" round trip {scenario.fit.round_trip} ns"
    )
    used = {write.pair for write in scenario.writes}
    for number, pair in enumerate(scenario.pairs):
        if number in used:
            print(f"  pair {number}: {pair.kind.name} {pair.first}-{pair.second} {_described(pair)}")
    for number, write in enumerate(scenario.writes):
        print(f"  write {number}: {write}")
    for number, fault in enumerate(scenario.faults):
        end = "for good" if fault.end >= FOREVER else f"to {fault.end} ns"
        print(f"  fault {number}: from {fault.start} {end} {_brief(fault.fault)}")


def _described(pair: PlannedPair) -> str:
    planes = "" if pair.planes == EVERY_PLANE else f" planes={pair.planes[0]:#b}/{pair.planes[1]:#b}"
    return f"{_unusual(pair.attributes)}{planes}{', others in each life' if pair.renewed else ''}"


def _unusual(attributes: QpAttributes) -> str:
    """The attributes that differ from their defaults."""
    usual = QpAttributes()
    names = (field.name for field in fields(attributes))
    return " ".join(f"{name}={getattr(attributes, name)}" for name in names if _differs(attributes, usual, name))


def _differs(one: QpAttributes, other: QpAttributes, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def _brief(fault: Fault) -> str:
    """A fault on one line, however many paths it denies."""
    if not isinstance(fault, Denied):
        return str(fault)
    ends = sorted({f"{source}-{target}" for source, target, _ in fault.routes})
    return f"Denied({len(fault.routes)} paths of {', '.join(ends)})"


def _soak(first: int, seconds: float, runs: int | None, jobs: int, shrinking: bool) -> int:
    start = time.monotonic()
    done = packets = failed = 0
    for seed, outcome, problem in _results(first, start + seconds, runs, jobs):
        done += 1
        packets += outcome.packets if outcome else 0
        found = outcome.violations if outcome else (problem,)
        if found:
            failed += 1
            print(f"seed {seed} FAILED: {found[0]}\n  replay: python -m tests.swarm --seed {seed}", flush=True)
            if shrinking and problem != _DIED:
                _report_shrunk(generate(seed))
        if done % 100 == 0:
            print(f"{done} runs, {packets} data packets, {failed} failed, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{done} runs, {packets} data packets, {failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


def _results(first: int, deadline: float, runs: int | None, jobs: int) -> Iterator[Result]:
    """Results as they come, until the deadline or `runs` of them. A process that crashes loses the runs under way."""
    seeds = iter(range(first, first + runs) if runs is not None else range(first, sys.maxsize))
    under_way: dict[Future[SwarmOutcome], int] = {}
    more = True
    while more or under_way:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
            broken = False
            while (more or under_way) and not broken:
                while more and len(under_way) < 2 * jobs:
                    seed = next(seeds, None)
                    if seed is None or time.monotonic() >= deadline:
                        more = False
                    else:
                        under_way[pool.submit(play, seed)] = seed
                finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in finished:
                    result = _result(under_way.pop(future), future)
                    broken |= result[2] == _DIED
                    yield result
            for future, seed in under_way.items():
                yield _result(seed, future)
            under_way.clear()


def _result(seed: int, future: Future[SwarmOutcome]) -> Result:
    error = future.exception()
    if error is None:
        return seed, future.result(), ""
    return seed, None, _DIED if isinstance(error, BrokenExecutor) else f"{type(error).__name__}: {error}"


def play(seed: int) -> SwarmOutcome:
    """Run the plan of a seed; RunTooLongError when it does not end."""
    with limited(LONGEST_S):
        return run(generate(seed))


def _report_shrunk(scenario: Scenario) -> None:
    small = shrink(scenario)
    print(f"  shrunk in {small.tries} tries to: {small.violations[0] if small.violations else 'nothing'}")
    print(
        f"  python -m tests.swarm --seed {scenario.seed}"
        f" --faults '{_join(small.faults)}' --writes '{_join(small.writes)}'",
        flush=True,
    )


def _join(positions: tuple[int, ...]) -> str:
    return ",".join(map(str, positions))


def _positions(option: str, text: str | None, count: int) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        found = tuple(int(word) for word in text.split(",") if word)
    except ValueError:
        found = (-1,)
    if any(not 0 <= position < count for position in found):
        raise click.UsageError(f"{option} takes numbers from 0 to {count - 1} with commas, not {text!r}.")
    return found


if __name__ == "__main__":
    main()
