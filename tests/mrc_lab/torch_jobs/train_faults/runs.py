"""Records of runs as `mrc train-faults` keeps them, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mrc_lab.torch_jobs.train_faults.events import RankEvent, What

MS = 1_000_000
STEP_MS = 100
FAULT_STEP = 8
ALL = (0, 1, 2, 3)


def steps(rank: int, first: int, last: int, begin_ms: int, members: Sequence[int] = ALL) -> list[RankEvent]:
    """A rank's steps `first` to `last`, the first of which ends a step's time after `begin_ms`."""
    return [
        RankEvent(What.STEP, rank, (begin_ms + STEP_MS * (number - first + 1)) * MS, number, tuple(members))
        for number in range(first, last + 1)
    ]


def event(what: What, rank: int, at_ms: int, step: int, members: Sequence[int] = ALL, words: str = "") -> RankEvent:
    """One event."""
    return RankEvent(what, rank, at_ms * MS, step, tuple(members), words)


def record(
    events: Sequence[RankEvent], faults: Sequence[tuple[int, str]], case: str = "cut-port", stack: str = "mrc"
) -> dict[str, Any]:
    """The record of a run; faults with their times in ms."""
    return {
        "case": case,
        "stack": stack,
        "settings": {"hosts": 4, "steps": 12, "fault_step": FAULT_STEP, "operation_s": 10.0, "recovery_s": 60.0},
        "faults": [{"at": at * MS, "words": words} for at, words in faults],
        "events": [each.plain() for each in events],
        "between_ranks": 0.0,
        "to_reference": 1e-12,
    }


def undisturbed(late_ms: int = 0, case: str = "cut-port", stack: str = "mrc") -> dict[str, Any]:
    """A run of twelve steps, the ninth of which takes `late_ms` longer; the fault comes 10 ms after the eighth."""
    events = []
    for rank in ALL:
        events += steps(rank, 1, 8, 0) + steps(rank, 9, 12, 800 + late_ms)
        events.append(event(What.DONE, rank, 1300 + late_ms, 12))
    return record(events, [] if case == "healthy" else [(810, "link down h3@p0")], case, stack)


def recovered(case: str = "cut-port", stack: str = "gloo") -> dict[str, Any]:
    """A run in which rank 2 is lost: known after 200 ms, a first attempt fails, the second holds after 900 ms."""
    left, events = (0, 1, 3), []
    for rank in ALL:
        events += steps(rank, 1, 8, 0)
    for number, rank in enumerate(left):
        events += [
            event(What.FAILED, rank, 1010 + number, 8, words="[pair.cc:1] all_reduce failed: Connection closed"),
            event(What.ABORTED, rank, 1020 + number, 8),
            event(What.AGREED, rank, 1100, 8),
            event(What.FAILED, rank, 1300, 8, words="timed out"),
            event(What.ABORTED, rank, 1310, 8),
            event(What.AGREED, rank, 1400, 8, left),
            event(What.FORMED, rank, 1700 + number, 8, left),
            *steps(rank, 9, 12, 1710, left),
            event(What.DONE, rank, 2200, 12, left),
        ]
    events += [event(What.FAILED, 2, 1010, 8), event(What.AGREED, 2, 1100, 8), event(What.OUT, 2, 1400, 8)]
    return record(events, [(810, "link down h3@p0")], case, stack)


def ended(case: str = "cut-port", stack: str = "rc") -> dict[str, Any]:
    """A run in which no group is formed any more."""
    events = []
    for rank in ALL:
        events += steps(rank, 1, 8, 0)
        events += [event(What.FAILED, rank, 1000, 8), event(What.AGREED, rank, 1100, 8)]
        events += [event(What.FAILED, rank, 2000, 8), event(What.GAVE_UP, rank, 2001, 8)]
    return record(events, [(810, "blackhole t1-0@p0")], case, stack) | {"between_ranks": None, "to_reference": None}
