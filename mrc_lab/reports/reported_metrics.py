"""Metrics side by side for all variants of an experiment: a table and a plot.

What an experiment file lists under `report` becomes a block of its summary; the report and the page of all experiments
draw the same block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mrc_lab.experiments.files.metric_names import METRICS
from mrc_lab.experiments.files.model import Experiment, case_label
from mrc_lab.experiments.files.sizes import size_of
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.verdicts import show


def reported_metrics(experiment: Experiment, metrics: MetricTable) -> list[dict[str, Any]]:
    """For each metric: its title, its unit, its value in every case (None: there is none), and points of an axis.

    `sizes` has the message size of every case at a point, in bytes, so that a metric is a function of the size.
    """
    return [
        {
            "title": asked.title or asked.metric.replace("_", " "),
            "unit": METRICS[asked.metric],
            "values": {
                name: metrics.value(asked.metric, replace(asked.of, variant=name)) for name in metrics.recordings
            },
            "sizes": {
                case.name: size
                for case in experiment.cases
                if case.point and (tenant := case.tenant(asked.of.tenant)) and (size := size_of(tenant.workload))
            },
            "points": {case.name: case.point for case in experiment.cases if case.point},
        }
        for asked in experiment.report
    ]


def side_by_side(found: Sequence[Mapping[str, Any]], prefix: str) -> dict[str, Any] | None:
    """A table with a row a case, and the plot below it, for a page; None when there is none.

    Ids of the plot begin with `prefix`.
    """
    from mrc_lab.reports import plots  # matplotlib takes a second to load

    if not found:
        return None
    return {
        "head": ("", *(metric["title"] for metric in found)),
        "rows": [
            [case_label(case), *(show(metric["values"][case], metric["unit"]) for metric in found)]
            for case in found[0]["values"]
        ],
        "numbers": range(1, 1 + len(found)),
        "plot": plots.embedded(
            plots.over_axis(found) if found[0]["points"] else plots.bars(found), f"{prefix}-reported-"
        ),
    }
