"""Metrics computed from a recording. Each metric is a function of a recording and a selection; None: nothing to take.

Values are in the metric's unit (`METRICS` in experiments/files/metric_names.py): b/s, ns, a share, or a count. Windows
snap to the edges of time bins that lie inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mrc_host.verbs_types import PathState
from mrc_lab.experiments.files.model import Case, Selection
from mrc_lab.experiments.files.workloads import Collective
from mrc_lab.experiments.running.collective_load import BUS_FACTOR
from mrc_lab.experiments.running.recording import (
    FLOW_COUNTERS,
    QUEUE_COUNTERS,
    FlowRecord,
    OperationRecord,
    PathRecord,
    Recording,
    TenantRecord,
)
from mrc_lab.reports.flow_times import flow_statistic
from mrc_lab.reports.statistics import Values, statistic
from topologies.name_patterns import matches

_TIME, _DEPTH, _PEAK, _BYTE_NS, _PAUSED_NS, _PAUSES = range(len(QUEUE_COUNTERS))
_BAD = PathState.ASSUMED_BAD.value
_GOOD = PathState.GOOD.value


class View:
    """A recording seen through a selection: the flows and the bins that count."""

    def __init__(self, case: Case, recording: Recording, selection: Selection) -> None:
        self.case, self.recording, self.selection = case, recording, selection
        scale = recording.time_scale
        self.tenant = case.tenant(selection.tenant)
        self.start = round(self._usual_start() * scale) if selection.start is None else round(selection.start * scale)
        self.end = self._usual_end() if selection.end is None else round(selection.end * scale)
        self.flows = self.flows_of(recording, selection)
        edges = recording.times
        self.first = int(np.searchsorted(edges, self.start, side="left"))
        self.last = int(np.searchsorted(edges, self.end, side="right")) - 1

    @staticmethod
    def flows_of(recording: Recording, selection: Selection) -> list[int]:
        """Numbers of the flows that a selection takes."""
        pattern, tenants = selection.flows or "*", recording.tenants
        return [
            number
            for number, flow in enumerate(recording.flows)
            if (selection.tenant is None or tenants[flow.tenant].name == selection.tenant)
            and _is_called(flow.name, pattern)
        ]

    def _usual_start(self) -> int:
        """The end of the warm-up or, if that is later, when the tenant begins."""
        return max(self.case.measure.warmup, 0 if self.tenant is None else self.tenant.workload.start)

    def _usual_end(self) -> int:
        """When the selected tenant had done all it had to do, or else the end of the run."""
        record = self.record
        return self.recording.end if record is None or record.ended is None else min(record.ended, self.recording.end)

    @property
    def record(self) -> TenantRecord | None:
        """What the selected tenant did; None where all are meant."""
        name = self.selection.tenant
        return None if name is None else next(one for one in self.recording.tenants if one.name == name)

    @property
    def empty(self) -> bool:
        """No flow matches, and nothing was done without any, or no whole bin is inside the window."""
        without_flows = self.selection.flows is None and bool(self.recording.operations)
        return not (self.flows or without_flows) or self.last <= self.first

    def inside(self, time: int) -> bool:
        """Whether a time is in the window."""
        return self.start <= time <= self.end

    def rates(self) -> Values:
        """Payload per bin and selected flow, b/s."""
        return self.recording.rates()[self.first : self.last, self.flows]

    def counted(self, counter: str) -> int:
        """Increase of a flow counter over the window, over the selected flows."""
        samples = self.recording.flow_samples[:, :, FLOW_COUNTERS.index(counter)]
        last = -1 if self.selection.end is None else self.last
        return int((samples[last, self.flows] - samples[self.first, self.flows]).sum())

    def paths(self) -> list[PathRecord]:
        """Path events of the selected flows in the window."""
        flows = set(self.flows)
        return [record for record in self.recording.paths if record.flow in flows and self.inside(record.time)]

    def flow_records(self) -> list[FlowRecord]:
        """Flows that have a size, of the selected sizes, that began in the window."""
        flows, sizes = set(self.flows), self.selection.sizes
        return [
            record
            for record in self.recording.flow_records
            if record.flow in flows and self.inside(record.began) and (sizes is None or record.size in sizes)
        ]

    def operations(self) -> list[OperationRecord]:
        """Collective operations that count."""
        return [
            record
            for record in self.recording.operations
            if record.counted and self.inside(record.ended) and self.is_selected(record.tenant)
        ]

    def is_selected(self, tenant: int) -> bool:
        """Whether a tenant, by its number, counts."""
        name = self.selection.tenant
        return name is None or self.recording.tenants[tenant].name == name


def compute(metric: str, case: Case, recording: Recording, selection: Selection) -> float | None:
    """The metric `metric` of what `selection` takes from a recording."""
    view = View(case, recording, selection)
    if metric not in ("errors", "wrong_bytes", "paths_bad", "trimmed") and view.empty:
        return None
    value = _METRICS[metric](view)
    return None if value is None or not np.isfinite(value) else float(value)


def over_time(metric: str, recording: Recording, selection: Selection) -> Values:
    """A metric of CURVES in every time bin of the run, of the selected flows together."""
    flows = View.flows_of(recording, selection)
    if metric == "throughput":
        return np.asarray(recording.rates()[:, flows].sum(axis=1))
    steps = np.diff(recording.flow_samples[:, flows, :].sum(axis=1), axis=0).astype(float)
    counters = {name: steps[:, number] for number, name in enumerate(FLOW_COUNTERS)}
    if metric == "retransmit_share":
        return np.asarray(counters["retransmitted"] / np.maximum(1, counters["sent"]))
    return np.asarray(counters[metric])


def _over_flows(how: str, values: Sequence[float]) -> float | None:
    return float(getattr(np, how)(values)) if values else None


def _throughput(view: View) -> float | None:
    """Over the flows taken together or, with `over_flows` other than sum, of each flow and then over flows."""
    rates, how = view.rates(), view.selection.over_flows
    if how == "sum":
        return _rate(view, rates.sum(axis=1))
    each = [_rate(view, rates[:, column]) for column in range(rates.shape[1])]
    return _over_flows(how, [value for value in each if value is not None])


def _rate(view: View, per_bin: Values) -> float | None:
    """A statistic over bins; the mean counts every bin by its length. None if the run was over at once."""
    name = view.selection.statistic or "mean"
    if name != "mean":
        return statistic(name, per_bin)
    widths = np.diff(view.recording.times)[view.first : view.last]
    return float(np.average(per_bin, weights=widths)) if widths.any() else None


def _link_throughput(view: View) -> float | None:
    """Frames on the matching links in b/s, without Ethernet's own overhead; both directions, unless it names one."""
    chosen = _channels(view)
    sent = view.recording.link_samples[view.first : view.last + 1, chosen, 1].sum(axis=1)
    widths = np.diff(view.recording.times)[view.first : view.last]
    return _rate(view, np.diff(sent) * 8e9 / np.maximum(widths, 1))


def _channels(view: View) -> list[int]:
    """Numbers of the selected directions of links."""
    links, ends = view.selection.link_directions
    return [n for n, name in enumerate(view.recording.channels) if name[-1] in ends and matches(name[:-1], links)]


def _over_links(view: View, values: Sequence[float] | Values, usual: str) -> float | None:
    """Ports taken together; None when nothing is known of any."""
    return float(getattr(np, view.selection.over_links or usual)(values)) if len(values) else None


def _queue_depth(view: View) -> float | None:
    """Bytes that waited before links: the most, the mean over time, or a statistic of the depths at the bins' edges."""
    samples = view.recording.queue_samples
    if samples is None:
        return None
    chosen = [number for number in _channels(view) if samples[view.first, number, _DEPTH] >= 0]
    if not chosen:
        return None
    window = samples[view.first : view.last + 1, chosen]
    name = view.selection.statistic or "max"
    if name == "max":
        values = window[1:, :, _PEAK].max(axis=0).astype(float)
    elif name == "mean":
        grown = (window[-1] - window[0]).astype(float)
        values = grown[:, _BYTE_NS] / np.maximum(1, grown[:, _TIME])
    else:
        each = [statistic(name, window[:, column, _DEPTH].astype(float)) for column in range(len(chosen))]
        values = np.array([value for value in each if value is not None])
    return _over_links(view, values, "max")


def _paused(counter: int) -> Callable[[View], float | None]:
    """How long, or how often, flow control kept links silent in the window."""

    def value(view: View) -> float | None:
        samples = view.recording.queue_samples
        if samples is None:
            return None
        chosen = [number for number in _channels(view) if samples[view.first, number, counter] >= 0]
        grown = samples[view.last, chosen, counter] - samples[view.first, chosen, counter]
        return _over_links(view, grown.astype(float), "sum")

    return value


def _algbw(view: View) -> float | None:
    timed = [op for op in view.operations() if op.ended > op.began]
    if timed and view.selection.statistic in (None, "mean"):  # of the mean time, as nccl-tests has it
        return 8e9 * sum(op.size for op in timed) / sum(op.ended - op.began for op in timed)
    return statistic(view.selection.statistic or "mean", [8e9 * op.size / (op.ended - op.began) for op in timed])


def _busbw(view: View) -> float | None:
    load = None if view.tenant is None else view.tenant.workload
    assert isinstance(load, Collective)
    ranks = len({flow.source for flow in view.recording.flows if view.is_selected(flow.tenant)})
    alone = _algbw(view)
    return None if alone is None else alone * BUS_FACTOR[load.operation](ranks)


def _completion_time(view: View) -> float | None:
    messages, flows = view.recording.messages, set(view.flows)
    times = [record.ended - record.began for record in view.operations()]
    times += [m.time - m.began for m in messages if m.ok and m.flow in flows and view.inside(m.time)]
    return statistic(view.selection.statistic or "median", times)


def _of_flow_sizes(metric: str) -> Callable[[View], float | None]:
    """Completion time of flows, or their slowdown."""

    def value(view: View) -> float | None:
        name = view.selection.statistic or "median"
        return flow_statistic(name, view.flow_records(), view.recording.end, metric)

    return value


def _outage(view: View) -> float | None:
    """The longest time in which less than half of the window's median rate was delivered, or nothing at all."""
    total = view.rates().sum(axis=1)
    low = (total < np.median(total) / 2) | (total == 0)
    widths = np.diff(view.recording.times)[view.first : view.last]
    longest = current = 0
    for is_low, width in zip(low, widths, strict=True):
        current = current + int(width) if is_low else 0
        longest = max(longest, current)
    return float(longest)


def _failover_time(view: View) -> float | None:
    """From the sending of the first packet that was lost on a path until the path is out of use."""
    found = [p.time - p.first_loss for p in view.paths() if p.new == _BAD and p.first_loss is not None]
    return statistic(view.selection.statistic or "max", found)


def _recovery_time(view: View) -> float | None:
    """From the end of the last fault before until a path is in use again."""
    ends = [fault.until for fault in view.recording.faults if fault.until is not None]
    found = []
    for record in view.paths():
        before = [end for end in ends if end <= record.time]
        if record.old == _BAD and record.new == _GOOD and before:
            found.append(record.time - max(before))
    return statistic(view.selection.statistic or "max", found)


def _retransmit_share(view: View) -> float:
    return view.counted("retransmitted") / max(1, view.counted("sent"))


def _fairness(view: View) -> float:
    """Jain's index of the flows' mean rates: 1 when all are equal, 1/n when one has everything."""
    means = view.rates().mean(axis=0)
    square = float((means**2).sum()) * len(means)
    return float(means.sum()) ** 2 / square if square else 0.0


def _is_called(name: str, pattern: str) -> bool:
    """Whether a pattern means a flow: by its whole name, or without its tenant (``h1>h3`` is also ``a/h1>h3``)."""
    return any(matches(one, pattern) for one in (name, name.rpartition("/")[2]))


def _of_tenants(attribute: str) -> Callable[[View], float]:
    """A figure of the selected tenant, or of the whole run."""

    def value(view: View) -> float:
        found = getattr(view.record or view.recording, attribute)
        return float(len(found) if isinstance(found, tuple) else found)

    return value


def _counter(name: str) -> Callable[[View], float]:
    return lambda view: float(view.counted(name))


_METRICS: Mapping[str, Callable[[View], float | None]] = {
    "throughput": _throughput,
    "link_throughput": _link_throughput,
    "queue_depth": _queue_depth,
    "pause_time": _paused(_PAUSED_NS),
    "pauses": _paused(_PAUSES),
    "algbw": _algbw,
    "busbw": _busbw,
    "completion_time": _completion_time,
    "fct": _of_flow_sizes("fct"),
    "slowdown": _of_flow_sizes("slowdown"),
    "outage": _outage,
    "failover_time": _failover_time,
    "recovery_time": _recovery_time,
    "retransmit_share": _retransmit_share,
    "fairness": _fairness,
    "lost": _counter("lost"),
    "retransmitted": _counter("retransmitted"),
    "spurious": _counter("spurious"),
    "timeouts": _counter("timeouts"),
    "path_failures": lambda view: float(sum(record.new == _BAD for record in view.paths())),
    "paths_bad": _of_tenants("bad_paths"),
    "trimmed": lambda view: float(sum(view.recording.trimmed.values())),
    "errors": _of_tenants("errors"),
    "wrong_bytes": _of_tenants("wrong_bytes"),
}
