"""Table of metrics: what verdicts, summary, published numbers and plots read of a run, each metric computed once.

A row belongs to a case, a metric and a selection. `metrics` says how each metric is computed; nothing else in reports
computes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from mrc_lab.experiments.files.model import Case, Selection
from mrc_lab.experiments.running.recording import Recording
from mrc_lab.reports.metrics import compute, over_time
from mrc_lab.reports.statistics import Values


class MetricRow:
    """One metric of what a selection takes of a case, in the unit of METRICS; computed when it is first read."""

    def __init__(self, metric: str, case: Case, recording: Recording, selection: Selection) -> None:
        self.metric, self.case, self.recording, self.selection = metric, case, recording, selection

    @cached_property
    def value(self) -> float | None:
        """The metric; None if there is nothing to take it from."""
        return compute(self.metric, self.case, self.recording, self.selection)

    @cached_property
    def series(self) -> Values:
        """The metric in every time bin of the run, of the selected flows together; of metrics in CURVES alone."""
        return over_time(self.metric, self.recording, self.selection)


class MetricTable:
    """The metrics of some recorded cases, `recordings` by name. Rows are made when they are asked for, and kept."""

    def __init__(self, cases: Sequence[Case], recordings: Mapping[str, Recording]) -> None:
        self.recordings = recordings
        self._cases = {case.name: case for case in cases}
        self._rows: dict[tuple[str, Selection], MetricRow] = {}

    def row(self, metric: str, of: Selection) -> MetricRow:
        """The row of a metric and a selection; the first case unless `of` has a variant."""
        name = next(iter(self._cases)) if of.variant is None else of.variant
        key = metric, replace(of, variant=name)
        if key not in self._rows:
            self._rows[key] = MetricRow(metric, self._cases[name], self.recordings[name], key[1])
        return self._rows[key]

    def value(self, metric: str, of: Selection) -> float | None:
        """The value of a row."""
        return self.row(metric, of).value

    def over(self, metric: str, of: Selection, against: Selection | None) -> float | None:
        """The value of a row or, with `against`, its ratio to another; None if one is missing, or would divide by 0."""
        ours = self.value(metric, of)
        if against is None or ours is None:
            return ours
        below = self.value(metric, against)
        return ours / below if below else None


def scale(recording: Recording, unit: str) -> float:
    """What values of a file in `unit` are multiplied by in this run."""
    return {"rate": recording.rate_scale, "time": recording.time_scale}.get(unit, 1.0)


def middles(recording: Recording) -> Values:
    """The middle of every time bin, ns."""
    return np.asarray((recording.times[:-1] + recording.times[1:]) / 2)
