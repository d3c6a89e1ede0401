"""Experiments and sweeps from Python, in programs and in notebooks.

    from mrc_lab.api import run, sweep

    result = run("incast.yaml", seeds=10)
    result.value("throughput")                  # the mean
    pandas.DataFrame(result.table)              # a row for each seed and metric
    sweep("incast.yaml", {"workload.message": ["64K", "1M"]}, seeds=5)

`run` and `sweep` do what ``mrc run`` and ``mrc sweep`` do and leave the same folders. They block until all is done,
also in a cell of a notebook, whose event loop waits meanwhile. `inputs` says what an experiment may be given as,
`running` runs it, `results` has what comes of it.

Experiments run on the compiled transport, which is faster, if the program calls ``mrc_host.compiled.use()`` before it
imports anything else of the testbed.
"""

from __future__ import annotations

from mrc_lab.api.results import Picture, Results, SweepResults
from mrc_lab.api.running import run, sweep
from mrc_lab.reports.confidence_interval import ConfidenceInterval
from mrc_lab.reports.over_seeds import MetricKind, MetricOverSeeds

__all__ = [
    "ConfidenceInterval",
    "MetricKind",
    "MetricOverSeeds",
    "Picture",
    "Results",
    "SweepResults",
    "run",
    "sweep",
]
