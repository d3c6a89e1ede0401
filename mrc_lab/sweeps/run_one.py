"""A run of a sweep, for every worker, here or on a cluster: in simulation, or on the backend that its file names.

A run either ends with a record (of its summary, or of the error that the same file and seed would always meet), or is
lost to something outside of it, and can be had by doing it again.
"""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.fault_draws import draw_faults
from mrc_lab.experiments.files.loader import load_text
from mrc_lab.experiments.running.run_experiment import run_experiment
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.summary import commit, summarize
from mrc_lab.reports.verdicts import judge
from mrc_lab.sweeps.grid import SweepRun, backend_of
from mrc_lab.sweeps.version import digest
from topologies.errors import FabricError


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """What came of a run: its record, or how it was lost."""

    run: SweepRun
    record: dict[str, Any] | None
    lost: str = ""


def execute(run: SweepRun) -> SweepOutcome:
    """Do a run. All of its record but `wall_s`, `finished`, `commit`, `sources` and `node` depends on file and seed."""
    began = time.monotonic()
    result: dict[str, Any]
    try:
        result = {"summary": _summary(run)}
    except (ExperimentError, MrcError, FabricError) as error:
        result = {"error": str(error)}
    except Exception as error:  # no room, no compiler, ...: nothing that the run says of itself
        return SweepOutcome(run, None, f"{type(error).__name__}: {error}")
    record = {
        "run": run.id,
        "experiment": run.experiment,
        "settings": dict(run.settings),
        "seed": run.seed,
        **result,
        "wall_s": round(time.monotonic() - began, 3),
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "sources": digest(),
        "node": platform.node(),
    }
    return SweepOutcome(run, record)


def _summary(run: SweepRun) -> dict[str, Any]:
    experiment = draw_faults(load_text(run.text, source=run.source, name=run.experiment), run.seed)
    backend = backend_of(experiment)
    metrics = MetricTable(experiment.cases, run_experiment(experiment, backend, run.seed))
    return summarize(experiment, metrics, judge(experiment, metrics, backend), backend, run.seed)
