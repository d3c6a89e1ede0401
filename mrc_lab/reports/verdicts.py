"""Verdicts on expectations, from the table of metrics and nothing else."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mrc_common.units import show_rate, show_size, show_time
from mrc_lab.experiments.files.model import Expectation, Experiment, Selection
from mrc_lab.reports.metric_table import MetricTable, scale
from mrc_lab.reports.published import NEAR

ALWAYS = ("errors", "wrong_bytes")  # metrics that are judged of every run, and however its timing was
_UNKNOWN = {"scale": ("wrong_bytes",)}  # of these, what a backend does not compute


class Verdict(enum.Enum):
    """Outcome of one expectation. UNTRUSTED: the run's timing was off, so it says nothing either way."""

    PASS = "pass"
    FAIL = "fail"
    UNTRUSTED = "untrusted"


@dataclass(frozen=True, slots=True)
class Judged:
    """An expectation with what came of it. `published` and `ours` are in `unit`; `ratio` is ours over published."""

    title: str
    metric: str
    unit: str
    relation: str
    expected: float
    tolerance: float
    ours: float | None
    published: float | None
    published_text: str
    certainty: str
    ratio: float | None
    verdict: Verdict
    note: str


def judge(experiment: Experiment, metrics: MetricTable, backend: str) -> list[Judged]:
    """Every expectation that the file has of this backend, and always: no queue pair failed, no byte was wrong.

    The scale backend moves no bytes, so the second is not judged there. No run passes that was interrupted.

    Expected and published rates are scaled as the run was, and so are times.
    """
    expected = [expectation for expectation in experiment.expect if expectation.backend in ("", backend)]
    judged = [_judge(expectation, metrics) for expectation in expected]
    titles = "work requests or queue pairs that failed", "bytes that were wrong"
    for metric, title in zip(ALWAYS, titles, strict=True):
        if metric in _UNKNOWN.get(backend, ()):
            continue
        if not any(expectation.metric == metric for expectation in experiment.expect):
            judged.append(_always(metric, title, metrics))
    if any(recording.interrupted for recording in metrics.recordings.values()):
        judged.append(_interrupted(metrics))
    return judged


def passed(judged: list[Judged]) -> bool:
    """Whether every expectation came true."""
    return all(one.verdict is Verdict.PASS for one in judged)


def overall(judged: list[Judged], trusted: bool) -> Verdict:
    """The verdict on a whole run: a failure counts whatever the timing, a pass only when the timing can be trusted."""
    if any(one.verdict is Verdict.FAIL for one in judged):
        return Verdict.FAIL
    return Verdict.PASS if trusted and passed(judged) else Verdict.UNTRUSTED


def _judge(expectation: Expectation, metrics: MetricTable) -> Judged:
    ours = metrics.over(expectation.metric, expectation.of, expectation.against)
    compared = [of for of in (expectation.of, expectation.against) if of is not None]
    recordings = [metrics.row(expectation.metric, of).recording for of in compared]
    trusted = expectation.metric in ALWAYS or all(recording.fidelity.trusted for recording in recordings)
    by = scale(recordings[0], expectation.unit)
    expected = expectation.number * by
    published = expectation.published
    number = None if published is None or published.number is None else published.number * by
    held = ours is not None and holds(ours, expectation.relation, expected, expectation.tolerance)
    return Judged(
        title=expectation.title or _title(expectation),
        metric=expectation.metric,
        unit=expectation.unit,
        relation=expectation.relation,
        expected=expected,
        tolerance=expectation.tolerance,
        ours=ours,
        published=number,
        published_text="" if published is None else published.text,
        certainty="" if published is None else published.certainty,
        ratio=ours / number if ours is not None and number else None,
        verdict=(Verdict.PASS if held else Verdict.FAIL) if trusted else Verdict.UNTRUSTED,
        note=expectation.note,
    )


def _always(metric: str, title: str, metrics: MetricTable) -> Judged:
    found = [metrics.value(metric, Selection(variant=name)) for name in metrics.recordings]
    ours = sum(value for value in found if value is not None)
    verdict = Verdict.PASS if ours == 0 else Verdict.FAIL
    return Judged(title, metric, "count", "at_most", 0.0, 0.0, ours, None, "", "", None, verdict, "")


def _interrupted(metrics: MetricTable) -> Judged:
    """That a run was not ended before its time was over: only told where one was."""
    ours = float(sum(bool(recording.interrupted) for recording in metrics.recordings.values()))
    title = "runs that were interrupted"
    return Judged(title, "interrupted", "count", "at_most", 0.0, 0.0, ours, None, "", "", None, Verdict.FAIL, "")


def holds(ours: float, relation: str, expected: float, tolerance: float) -> bool:
    """Whether `ours` is at least, at most or about `expected`; `tolerance` is a share of `expected`."""
    slack = abs(expected) * tolerance
    if relation == "at_least":
        return ours >= expected - slack
    if relation == "at_most":
        return ours <= expected + slack
    return abs(ours - expected) <= slack


def differs(one: Mapping[str, Any]) -> bool:
    """Whether our value is far from the published one, whatever was expected; `one` is of a summary's expectations."""
    return one["ratio"] is not None and abs(one["ratio"] - 1) > NEAR


def show(value: float | None, unit: str) -> str:
    """A value in words."""
    if value is None:
        return "none"
    if unit == "rate":
        return show_rate(value)
    if unit == "time":
        return show_time(value)
    if unit == "size":
        return show_size(value)
    return f"{value:.4g}"


def _title(expectation: Expectation) -> str:
    of = expectation.of
    parts = [of.statistic or "", expectation.metric.replace("_", " ")]
    parts += [f"of {of.variant}"] if of.variant else []
    parts += [f"({of.flows or of.link})"] if of.flows or of.link else []
    return " ".join(filter(None, parts))
