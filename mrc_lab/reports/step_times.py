"""Steps of a job around a fault: how long they took before, while it lasted and after, and what time it cost.

Steps are those of a training job or, in the same way, the operations of a collective that is done again and again. The
demo and the reports of experiments measure them alike. Times are ns.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mrc_common.units import counted, show_time
from mrc_lab.experiments.files.model import Case, joined
from mrc_lab.experiments.files.workloads import Ranks, Training
from mrc_lab.experiments.running.recording import Recording


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the whole job: first rank's begin, last rank's end, slowest rank's time."""

    number: int
    begin_ns: int
    end_ns: int
    duration_ns: int

    @property
    def duration_s(self) -> float:
        """The slowest rank's time in seconds."""
        return self.duration_ns / 1e9


@dataclass(frozen=True, slots=True)
class StepsAroundFault:
    """The steps before a fault, those that it met, and those after it; and what they took longer than usual in all.

    A step is usual if it takes as long as the median one before. `lost_ns` is over the steps that the fault met and
    those after it until one was no slower than the slowest before; None without a step before or with the fault.
    """

    before: tuple[Step, ...]
    during: tuple[Step, ...]
    after: tuple[Step, ...]

    @property
    def lost_ns(self) -> int | None:
        """What the fault cost."""
        if not self.before or not self.during:
            return None
        usual = statistics.median(step.duration_ns for step in self.before)
        slowest = max(step.duration_ns for step in self.before)
        late = list(self.during)
        for step in self.after:
            if step.duration_ns <= slowest:
                break
            late.append(step)
        return max(0, round(sum(step.duration_ns - usual for step in late)))


def steps_around(
    steps: Sequence[Step], down_ns: int, up_ns: int | None, *, begin_ns: int, end_ns: int, first: int = 0
) -> StepsAroundFault:
    """The steps around a fault from `down_ns` to `up_ns` (None: it lasted), between `begin_ns` and `end_ns`.

    Those are when the fault before was over and the next one began, or the run. Steps before number `first` warm up.
    """
    return StepsAroundFault(
        tuple(s for s in steps if s.end_ns <= down_ns and s.begin_ns >= begin_ns and s.number >= first),
        tuple(s for s in steps if s.end_ns > down_ns and s.begin_ns < (up_ns or end_ns)),
        tuple(s for s in steps if up_ns is not None and s.begin_ns >= up_ns and s.end_ns <= end_ns),
    )


@dataclass(frozen=True, slots=True)
class JobSteps:
    """The steps of a tenant's job, and those around each fault (by its number in the report, from 1)."""

    tenant: str
    word: str
    steps: tuple[Step, ...]
    faults: tuple[tuple[int, StepsAroundFault], ...]

    def sentences(self) -> Iterator[str]:
        """What the job's steps took, for people, and what each fault cost: without a full stop."""
        if not self.steps:
            return
        slowest = max(self.steps, key=lambda step: step.duration_ns)
        yield joined(
            self.tenant,
            f"{counted(len(self.steps), self.word)}, median {_median(self.steps)}, "
            f"slowest {show_time(slowest.duration_ns)} (number {slowest.number + 1})",
        )
        for number, around in self.faults:
            yield joined(self.tenant, self._cost(number, around))

    def _cost(self, number: int, around: StepsAroundFault) -> str:
        parts = [
            f"{when} {_median(steps)} (max {show_time(max(step.duration_ns for step in steps))})"
            for when, steps in (("before", around.before), ("during", around.during), ("after", around.after))
            if steps
        ]
        lost = around.lost_ns
        cost = "" if lost is None else f"; it cost {show_time(lost)}"
        if not around.during:
            return f"fault {number} met no {self.word}"
        return f"{self.word}s around fault {number}: {', '.join(parts)}{cost}"

    def numbers(self) -> dict[str, object]:
        """For ``summary.json``: all times in ns."""
        return {
            "count": len(self.steps),
            "median_ns": round(statistics.median(step.duration_ns for step in self.steps)),
            "slowest_ns": max(step.duration_ns for step in self.steps),
            "slowest": max(self.steps, key=lambda step: step.duration_ns).number + 1,
            "faults": [
                {
                    "fault": number,
                    **{f"{when}_ns": _spread(getattr(around, when)) for when in ("before", "during", "after")},
                    "lost_ns": around.lost_ns,
                }
                for number, around in self.faults
            ],
        }


def job_steps(case: Case, recording: Recording) -> list[JobSteps]:
    """The steps of each tenant that does steps or operations, without those that warm up; none without any."""
    found = []
    for tenant_number, tenant in enumerate(case.tenants):
        if not isinstance(tenant.workload, Ranks):
            continue
        records = [one for one in recording.operations if one.tenant == tenant_number and one.counted]
        steps = tuple(Step(n, one.began, one.ended, one.ended - one.began) for n, one in enumerate(records))
        if steps:
            word = "step" if isinstance(tenant.workload, Training) else "operation"
            found.append(JobSteps(tenant.name, word, steps, tuple(_around_faults(steps, recording))))
    return found


def _around_faults(steps: Sequence[Step], recording: Recording) -> Iterator[tuple[int, StepsAroundFault]]:
    faults = sorted(enumerate(recording.faults, 1), key=lambda pair: pair[1].at)
    for place, (number, fault) in enumerate(faults):
        earlier = [other.until for _, other in faults[:place] if other.until is not None and other.until <= fault.at]
        later = [other.at for _, other in faults[place + 1 :] if other.at >= (fault.until or recording.end)]
        begin, end = max(earlier, default=0), min(later, default=recording.end)
        yield number, steps_around(steps, fault.at, fault.until, begin_ns=begin, end_ns=end)


def _median(steps: Sequence[Step]) -> str:
    return show_time(round(statistics.median(step.duration_ns for step in steps)))


def _spread(steps: Sequence[Step]) -> dict[str, int] | None:
    """Number, least, median and largest duration; None of none."""
    if not steps:
        return None
    times = [step.duration_ns for step in steps]
    return {"count": len(times), "least": min(times), "median": round(statistics.median(times)), "largest": max(times)}
