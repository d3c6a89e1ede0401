"""Figures side by side for all variants of an experiment: a table and a plot, computed from the recordings.

What an experiment file lists under `show` becomes a block of its summary; the report and the page of all experiments
draw the same block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mrc_lab.experiments.files.model import METRICS, Experiment, case_label
from mrc_lab.experiments.running.recording import Recording
from mrc_lab.reports.metrics import compute
from mrc_lab.reports.verdicts import show


def shown(experiment: Experiment, recordings: Mapping[str, Recording]) -> list[dict[str, Any]]:
    """For each figure: its title, its unit, and its value in every case (None where there is none)."""
    return [
        {
            "title": figure.title or figure.metric.replace("_", " "),
            "unit": METRICS[figure.metric],
            "values": {
                case.name: compute(figure.metric, case, recordings[case.name], figure.of) for case in experiment.cases
            },
        }
        for figure in experiment.show
    ]


def side_by_side(found: Sequence[Mapping[str, Any]], prefix: str) -> dict[str, Any] | None:
    """A table with a row a case, and the plot below it, for a page; None when nothing is shown.

    Ids of the plot begin with `prefix`.
    """
    from mrc_lab.reports import plots  # matplotlib takes a second to load

    if not found:
        return None
    return {
        "head": ("", *(figure["title"] for figure in found)),
        "rows": [
            [case_label(case), *(show(figure["values"][case], figure["unit"]) for figure in found)]
            for case in found[0]["values"]
        ],
        "numbers": range(1, 1 + len(found)),
        "plot": plots.embedded(plots.bars(found), f"{prefix}-shown-"),
    }
