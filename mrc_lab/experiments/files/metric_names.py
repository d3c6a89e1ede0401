"""Names in experiment files that are about metrics: the metrics with their units, statistics, relations, and curves.

`reports.metrics` computes them.
"""

from __future__ import annotations

from collections.abc import Mapping

# Metrics, each with the unit of its values: rate, time, size (bytes), share (or another plain number), or count.
METRICS: Mapping[str, str] = {
    "throughput": "rate",
    "link_throughput": "rate",
    "queue_depth": "size",
    "pause_time": "time",
    "pauses": "count",
    "algbw": "rate",
    "busbw": "rate",
    "completion_time": "time",
    "fct": "time",
    "slowdown": "share",
    "outage": "time",
    "failover_time": "time",
    "recovery_time": "time",
    "retransmit_share": "share",
    "fairness": "share",
    "lost": "count",
    "retransmitted": "count",
    "spurious": "count",
    "timeouts": "count",
    "path_failures": "count",
    "paths_bad": "count",
    "trimmed": "count",
    "errors": "count",
    "wrong_bytes": "count",
}
STATISTICS = ("mean", "min", "max", "median", "p1", "p10", "p90", "p99", "p999")
RELATIONS = ("at_least", "at_most", "about")
CURVES = ("throughput", "lost", "retransmitted", "retransmit_share")  # metrics that can be drawn over time
OF_FLOW_SIZES = ("fct", "slowdown")  # metrics of flows that have a size
