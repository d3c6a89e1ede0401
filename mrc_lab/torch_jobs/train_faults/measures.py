"""Measures of one run, from its events: who was left, what each part of a recovery took, what the fault cost.

Times are seconds from the moment the (first) fault began, each that of the last rank of the final group.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrc_lab.torch_jobs.train_faults.events import RankEvent, What

_S = 1e9
_WARM_UP = 2  # steps that are not taken for the usual ones


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """A run. Times are None where that did not happen.

    `rounds` are attempts at a new group, `reconfigurations` those that gave one. `steps_lost` is how often a rank began
    a step that failed, the most of any; `left` are the ranks that trained to the end, none if the job ended before.
    `step` is the usual one, the median before the fault. `pause` is the longest time between two steps after the fault,
    and `cost` the sum of what these times are longer than the usual step. `difference` is that of weights to the
    uninterrupted job's, `spread` between ranks.
    """

    left: tuple[int, ...]
    rounds: int
    reconfigurations: int
    detected: float | None
    aborted: float | None
    reconfigured: float | None
    stepped: float | None
    steps_lost: int
    step: float
    pause: float | None
    cost: float | None
    spread: float | None
    difference: float | None

    @property
    def finished(self) -> bool:
        """Whether the job trained to the end."""
        return bool(self.left)


def events_of(record: Mapping[str, Any]) -> list[RankEvent]:
    """The events of a record of a run, in the order of time."""
    return sorted(map(RankEvent.of, record["events"]), key=lambda event: event.at)


def final_members(events: Iterable[RankEvent]) -> tuple[int, ...]:
    """The ranks that trained to the end."""
    return tuple(sorted(event.rank for event in events if event.what is What.DONE))


def schedule(events: Iterable[RankEvent]) -> list[list[int]]:
    """The ranks that took part in each step, as those say that trained to the end."""
    events = list(events)
    final = final_members(events)
    by_step = {event.step: list(event.members) for event in events if event.what is What.STEP and event.rank in final}
    return [by_step[step] for step in sorted(by_step)]


def measure(record: Mapping[str, Any]) -> RunMeasures:
    """Those of a record; without a fault, times begin when the step was complete after which others have theirs.

    KeyError, TypeError or ValueError if it is no record of a run.
    """
    events, fault_step = events_of(record), record["settings"]["fault_step"]
    final = final_members(events)
    watched = [event for event in events if event.rank in final] or events
    before = [event.at for event in watched if event.what is What.STEP and event.step <= fault_step]
    faults = [fault["at"] for fault in record["faults"]]
    began = min(faults) if faults else max(before)
    after = [event for event in watched if event.at >= began]
    step, gaps = _usual_step(events, began), _gaps(watched, began)
    return RunMeasures(
        left=final,
        rounds=_most(after, What.AGREED),
        reconfigurations=_most(after, What.FORMED),
        detected=_last_first(after, What.FAILED, began),
        aborted=_last_first(after, What.ABORTED, began),
        reconfigured=_last_last(after, What.FORMED, began) if final else None,
        stepped=_stepped(after, began) if final else None,
        steps_lost=_steps_lost(after),
        step=step,
        pause=max(map(max, filter(None, gaps)), default=None) if final else None,
        cost=max(sum(max(0.0, gap - step) for gap in own) for own in gaps) if final else None,
        spread=record["between_ranks"],
        difference=record["to_reference"],
    )


def _by_rank(events: Iterable[RankEvent], what: What) -> dict[int, list[RankEvent]]:
    found: dict[int, list[RankEvent]] = {}
    for event in events:
        if event.what is what:
            found.setdefault(event.rank, []).append(event)
    return found


def _most(events: Sequence[RankEvent], what: What) -> int:
    return max(map(len, _by_rank(events, what).values()), default=0)


def _last_first(events: Sequence[RankEvent], what: What, began: int) -> float | None:
    """When the last rank had its first event of a kind."""
    times = [found[0].at for found in _by_rank(events, what).values()]
    return (max(times) - began) / _S if times else None


def _last_last(events: Sequence[RankEvent], what: What, began: int) -> float | None:
    times = [event.at for event in events if event.what is what]
    return (max(times) - began) / _S if times else None


def _stepped(events: Sequence[RankEvent], began: int) -> float | None:
    """When the last rank had its first step in the last group; None if there was no other group."""
    firsts = []
    for rank, formed in _by_rank(events, What.FORMED).items():
        firsts += [e.at for e in events if e.rank == rank and e.what is What.STEP and e.at > formed[-1].at][:1]
    return (max(firsts) - began) / _S if firsts else None


def _steps_lost(events: Sequence[RankEvent]) -> int:
    """Failures that are not those of forming a group, whose place in the order is behind AGREED."""
    most = 0
    for rank in {event.rank for event in events}:
        own = [event.what for event in events if event.rank == rank and event.what is not What.ABORTED]
        pairs = zip([What.STEP, *own], own, strict=False)
        most = max(most, sum(what is What.FAILED and last is not What.AGREED for last, what in pairs))
    return most


def _usual_step(events: Sequence[RankEvent], began: int) -> float:
    """The median step before the fault, over all ranks."""
    taken: list[int] = []
    for found in _by_rank((event for event in events if event.at <= began), What.STEP).values():
        times = [event.at for event in found][_WARM_UP:]
        taken += [later - at for at, later in itertools.pairwise(times)]
    return statistics.median(taken) / _S if taken else 0.0


def _gaps(events: Sequence[RankEvent], began: int) -> list[list[float]]:
    """Seconds between the ends of two steps, of which the later one is after the fault; a list for each rank."""
    return [
        [(later.at - event.at) / _S for event, later in itertools.pairwise(found) if later.at >= began]
        for found in _by_rank(events, What.STEP).values()
    ]
