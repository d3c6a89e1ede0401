"""Looks for a small part of a failing plan that still fails: first without faults, then without writes, then again.

Greedy, in the manner of delta debugging: halves, then quarters, down to single items, are left out as long as a
violation of the same kind remains (the same message except for names and numbers), so that one failure is not exchanged
for another on the way. Every try is a whole run, so the number of tries is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.swarm.run import run
from tests.swarm.scenario import Scenario
from tests.swarm.wall_time_limit import LONGEST_S, limited

MAX_TRIES = 400

Positions = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Positions of the faults and writes that are needed for the failure, and what it then is."""

    faults: Positions
    writes: Positions
    violations: tuple[str, ...]
    tries: int


def shrink(scenario: Scenario, fails: Callable[[Scenario], tuple[str, ...]] | None = None) -> Shrunk:
    """Shrink a failing plan. `fails` returns its violations (default: run it); an exception counts as one."""
    judge = fails or violations
    tries = 0
    last: tuple[str, ...] = judge(scenario)
    kinds = {kind(violation) for violation in last}
    faults: Positions = tuple(range(len(scenario.faults)))
    writes: Positions = tuple(range(len(scenario.writes)))

    def still(kept_faults: Positions, kept_writes: Positions) -> bool:
        nonlocal tries, last
        if tries >= MAX_TRIES:
            return False
        tries += 1
        judged = judge(scenario.only(faults=kept_faults, writes=kept_writes))
        found = tuple(violation for violation in judged if kind(violation) in kinds)
        last = found or last
        return bool(found)

    while True:
        fewer_faults = _reduce(faults, partial(_swapped, still, writes))
        fewer_writes = _reduce(writes, partial(still, fewer_faults))
        if (fewer_faults, fewer_writes) == (faults, writes):
            return Shrunk(faults, writes, last, tries)
        faults, writes = fewer_faults, fewer_writes


def _swapped(still: Callable[[Positions, Positions], bool], writes: Positions, faults: Positions) -> bool:
    return still(faults, writes)


def violations(scenario: Scenario) -> tuple[str, ...]:
    """What is wrong with a plan's run, an exception included."""
    try:
        with limited(LONGEST_S):
            return run(scenario).violations
    except Exception as error:  # whatever it is, it is a finding
        return (f"{type(error).__name__}: {error}",)


def kind(violation: str) -> str:
    """What remains of a violation when its words with figures, names of NICs too, are taken out."""
    return " ".join(re.sub(r"\S*\d\S*", "", violation).split())


def _reduce(items: Positions, fails: Callable[[Positions], bool]) -> Positions:
    size = max(1, len(items) // 2)
    while items:
        at = 0
        while at < len(items):
            rest = items[:at] + items[at + size :]
            if fails(rest):
                items = rest
            else:
                at += size
        if size == 1:
            break
        size //= 2
    return items
