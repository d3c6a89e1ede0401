"""The time line of one run as lines of text: each line is what all ranks did for the n-th time, with who and when."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mrc_lab.torch_jobs.train_faults.events import RankEvent, What
from mrc_lab.torch_jobs.train_faults.measures import events_of

_S = 1e9
_MOST_LINES = 14
_WORDS = 90  # characters of an error
_WHERE = re.compile(r"^\[[^\]]*\] ")  # gloo's, with its source file
_VERBS = {
    What.STEP: "first step after that",
    What.FAILED: "failed",
    What.ABORTED: "old group ended",
    What.AGREED: "agreed on who goes on",
    What.FORMED: "new group",
    What.OUT: "others go on without it",
    What.GAVE_UP: "gave up",
    What.DONE: "done",
}


@dataclass(slots=True)
class _Mark:
    """Ranks that did the same for the same time; ns."""

    first: int
    last: int
    words: str
    ranks: list[int] = field(default_factory=list)


def timeline(record: Mapping[str, Any]) -> list[str]:
    """Lines of a record, in seconds from its first fault on, or from the first step."""
    events = events_of(record)
    faults = sorted((fault["at"], fault["words"]) for fault in record["faults"])
    began = faults[0][0] if faults else min(event.at for event in events if event.what is What.STEP)
    found = [_Mark(at, at, f"FAULT: {words}") for at, words in faults]
    found += _marks([event for event in events if event.at >= began])
    lines = [_line(mark, began) for mark in sorted(found, key=lambda mark: mark.first)]
    if len(lines) > _MOST_LINES:
        cut = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 4 : _MOST_LINES - 4 + cut] = [f"{'...':>9}{cut:>4} lines like these"]
    return lines


def _marks(events: Sequence[RankEvent]) -> list[_Mark]:
    marks: dict[tuple[What, int], _Mark] = {}
    counts: dict[tuple[What, int], int] = {}
    waiting = {event.rank for event in events}  # for a first step: after the fault, and after each new group
    for event in events:
        if event.what not in _VERBS:
            continue
        if event.what is What.STEP:
            if event.rank not in waiting:
                continue
            waiting.discard(event.rank)
        elif event.what is What.FORMED:
            waiting.add(event.rank)
        number = counts[event.what, event.rank] = counts.get((event.what, event.rank), 0) + 1
        mark = marks.setdefault((event.what, number), _Mark(event.at, event.at, _words(event)))
        mark.last = event.at
        mark.ranks.append(event.rank)
    return list(marks.values())


def _words(event: RankEvent) -> str:
    text = _VERBS[event.what]
    if event.what is What.AGREED:
        text += f", {', '.join(map(_host, event.members))}"
    if not event.words:
        return text
    reason = _WHERE.sub("", event.words).rpartition("failed: ")[2]  # behind whose callback and operation it was
    return f"{text}: {reason[:_WORDS].strip()}{'...' * (len(reason) > _WORDS)}"


def _line(mark: _Mark, began: int) -> str:
    first, last = (mark.first - began) / _S, (mark.last - began) / _S
    who = f"{', '.join(map(_host, sorted(mark.ranks)))}: " if mark.ranks else ""
    until = f" to {last:.3f}" if mark.last > mark.first else ""
    return f"{first:9.3f}{until:<10}  {who}{mark.words}"


def _host(rank: int) -> str:
    return f"h{rank + 1}"
