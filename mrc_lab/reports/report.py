"""The report of a run: one self-contained HTML file to show to a colleague, and its plots as files of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mrc_common.units import show_rate, show_share, show_size, show_time
from mrc_common.written_files import write_text
from mrc_lab.backends import BACKENDS
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.files.model import Case, Experiment, Tenant, case_label, case_prefix, joined
from mrc_lab.experiments.files.workloads import Collective, ListedFlows, RandomFlows, Replayed, Training
from mrc_lab.experiments.running.extent import extent_of
from mrc_lab.experiments.running.recording import Recording
from mrc_lab.reports import flow_plots, flow_times, link_utilisation, plots, queue_plots, tenants
from mrc_lab.reports.fault_recovery import aftermaths, sentences
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.pages import render
from mrc_lab.reports.published_plots import drawings
from mrc_lab.reports.reported_metrics import side_by_side
from mrc_lab.reports.seeds import merged
from mrc_lab.reports.step_times import job_steps
from topologies import drawing
from topologies.fabric import MOST_DRAWN

_MAX_AFTERMATHS = 8  # faults of which a report says what followed
_MAX_ERRORS = 5  # of a case
_FIDELITY = {  # metrics of a Fidelity in words, and what to multiply them by
    "traffic_s": ("{:.3g} s of traffic were watched", 1),
    "machine_round_trip_s": ("the machine delayed a packet and its answer by {:.3g} ms on average", 1e3),
    "machine_delay_p99_s": ("one frame in a hundred by {:.3g} ms or more at one hop", 1e3),
    "machine_link_idle": ("one line idle for {:.1f} % of the run although frames waited", 1e2),
    "fault_off_by_s": ("faults made or taken back up to {:,.0f} ms late or early", 1e3),
    "lag_p99_s": ("wake-ups up to {:.3g} ms late", 1e3),
    "processors_used": ("the fabric took {:.0f} % of the processors", 1e2),
    "idle_p10": ("at busy times {:.0f} % of them were idle", 1e2),
}


def write_report(
    folder: Path,
    experiment: Experiment,
    metrics: MetricTable,
    summary: Mapping[str, Any],
    run: Mapping[str, Any],
) -> None:
    """Write ``report.html`` and the plots into `folder`. `summary` and `run` are those of the result folder."""
    recordings = metrics.recordings
    alone = len(experiment.cases) == 1
    page = render(
        "report",
        title=experiment.title,
        experiment=experiment,
        summary=summary,
        backend=BACKENDS.get(summary["backend"], summary["backend"]),
        warnings=[*_warnings(recordings), *(f"{sentence}." for sentence in summary["no_difference"])],
        timing=list(_timing(recordings)),
        alone=alone,
        beside=_beside(folder, summary),
        together=None if alone else _together(folder, experiment, metrics, summary),
        cases=[
            {
                **_case(folder, experiment, case, metrics, alone=alone),
                "extent": list(extent_of(case, build_fabric(case.fabric), summary["seed"]).lines()),
                "tenants": tenants.table(summary["cases"][case.name]),
            }
            for case in experiment.cases
        ],
        circumstances=list(_circumstances(run, summary)),
    )
    write_text(folder / "report.html", page)


def _warnings(recordings: Mapping[str, Recording]) -> Iterator[str]:
    for name, recording in recordings.items():
        of = case_prefix(name)
        if recording.rate_scale != 1:
            yield (
                f"{of}rates are {recording.rate_scale:.3g} of the file's,"
                f" times {recording.time_scale:,.0f} times as long; published rates and times are scaled alike."
            )
        yield from (f"{of}timing cannot be trusted: {reason}" for reason in recording.fidelity.reasons)
        yield from (f"{of}{warning}." for warning in recording.warnings)
        yield from (f"{of}{warning}." for warning in flow_times.flow_warnings(recording))
        if recording.interrupted:
            yield f"{of}{recording.interrupted}."
        yield from (f"{of}{error}" for error in recording.errors[:_MAX_ERRORS])


def _timing(recordings: Mapping[str, Recording]) -> Iterator[str]:
    """What the verdict on the timing rests on, of cases that ran in real time."""
    for name, recording in recordings.items():
        fidelity = recording.fidelity
        found = [
            words.format(fidelity.measurements[key] * by)
            for key, (words, by) in _FIDELITY.items()
            if key in fidelity.measurements
        ]
        if found:
            of = f"Timing of {case_prefix(name)}" if case_prefix(name) else "Timing: "
            yield f"{of}{'; '.join((*found, *fidelity.notes))}."


def _beside(folder: Path, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Published numbers and curves, and ours."""
    block = merged([summary["published"]])
    figures = _write_figures(folder, "published", dict(drawings(block)))
    published = figures or block["numbers"] or any(one["published"] is not None for one in summary["expectations"])
    return {"numbers": block["numbers"], "figures": figures, "published": bool(published)}


def _together(folder: Path, experiment: Experiment, metrics: MetricTable, summary: Mapping[str, Any]) -> dict[str, Any]:
    """All cases in one: the metrics that the file asks for, and plots."""
    recordings = metrics.recordings
    cases = {case.name: case for case in experiment.cases}
    figures = {}
    if not experiment.cases[0].point:  # what an axis has is drawn over it
        figures = {
            "Throughput of all cases": plots.compare_throughput(metrics),
            "Mean rate of each flow": plots.flow_bars(recordings, cases),
            "Completion times of all cases": plots.completions(recordings, cases),
            "Flows of all cases": flow_plots.distributions(recordings, cases),
            "Slowdown by size of all cases": flow_plots.by_size(recordings, cases),
        }
    return {
        "block": side_by_side(summary["reported"], experiment.name),
        "figures": _write_figures(folder, "together", figures),
    }


def _case(folder: Path, experiment: Experiment, case: Case, metrics: MetricTable, *, alone: bool) -> dict[str, Any]:
    recording = metrics.recordings[case.name]
    figures = {} if case.point else _figures(experiment, case, metrics, alone=alone)  # points are drawn together
    return {
        "name": case.name,
        "description": describe(case),
        "fabric": "" if case.point else _drawing(case, recording),
        "faults": [
            (n, fault.label, show_time(fault.at), "end of the run" if fault.until is None else show_time(fault.until))
            for n, fault in enumerate(recording.faults, 1)
        ],
        "aftermath": list(_aftermath(case, recording)),
        "steps": [sentence for job in job_steps(case, recording) for sentence in job.sentences()],
        "left_out": _left_out(len(recording.faults)),
        "flows": flow_times.table(flow_plots.counted_flows(case, recording), recording.end),
        "links": link_utilisation.table(link_utilisation.utilisation(case, recording)),
        "figures": _write_figures(folder, case.name, figures),
    }


def _drawing(case: Case, recording: Recording) -> Markup:
    """The fabric with the links that faults touch; nothing of one with very many links."""
    fabric = build_fabric(case.fabric)
    if len(fabric.links) > MOST_DRAWN:
        return Markup()
    return Markup(drawing.svg(fabric, [fault.links for fault in recording.faults]))


def _figures(experiment: Experiment, case: Case, metrics: MetricTable, *, alone: bool) -> dict[str, str]:
    """The plots of a case by their titles; empty ones are left out of the page."""
    recording = metrics.recordings[case.name]
    expectations = [one for one in experiment.expect if one.of.variant in (None, case.name)]
    figures = {
        "Throughput over time": plots.throughput(case, recording, expectations),
        "Throughput of each tenant": tenants.throughput(case, metrics),
        "Links: traffic upwards over time": plots.activity(recording) if case.measure.links else "",
        "Paths out of use over time": plots.path_states(recording) if recording.paths else "",
        "Queue depth over time": queue_plots.depth_plot(recording),
        "Pauses of flow control over time": queue_plots.pause_plot(recording),
        "Lost, trimmed, dropped": plots.losses(recording),
    }
    if alone:
        alone_in = {case.name: recording}, {case.name: case}
        figures["Completion times"] = plots.completions(*alone_in)
        figures["Completion times and slowdowns of flows"] = flow_plots.distributions(*alone_in)
        figures["Slowdown by size of flows"] = flow_plots.by_size(*alone_in)
    return figures


def describe(case: Case) -> str:
    """The case in a sentence or two."""
    part = case.fabric
    planes = "1 plane" if part.planes == 1 else f"{part.planes} planes"
    switches = f"{part.t0} T0 and {part.t1} T1"
    if part.t2:
        switches = f"{part.pods} pods of {switches}, and {part.t2} T2"
    shape = f"{planes} of {switches}, {part.hosts} hosts, {show_rate(part.rate_bps)} a link"
    if others := [rule.links for rule in part.links]:
        shape += f" (others: {', '.join(others)})"
    work = " ".join(describe_tenant(tenant) for tenant in case.tenants)
    return f"{shape}. {work} At most {show_time(case.duration)}."


def describe_tenant(tenant: Tenant) -> str:
    """What one of the workloads does, over which transport."""
    load, transport = tenant.workload, tenant.transport
    if isinstance(load, Collective):
        work = f"{load.operation} of {load.bytes} bytes, {load.iterations} times"
    elif isinstance(load, Training):
        sizes = " + ".join(map(str, load.gradients))
        work = f"training, {load.steps} steps of {show_time(load.compute)} computing and {sizes} bytes of gradients"
    elif isinstance(load, Replayed):
        schedule = load.source.schedule
        work = (
            f"{load.name} replay of {load.source.path}: {schedule.ranks} ranks, {len(schedule.operations)} operations"
        )
    elif isinstance(load, ListedFlows):
        work = f"{len(load.file.matrix.flows)} flows of {load.file.path}, a connection matrix of htsim"
    elif isinstance(load, RandomFlows):
        work = (
            f"Random flows: {show_share(load.load)} of the rate of each host's ports, sizes of {load.sizes.written}"
            f" (mean {show_size(load.sizes.distribution.mean)}), pattern {load.pattern.replace('_', ' ')}"
        )
    else:
        name = load.name.replace("_", " ")
        work = f"{name.capitalize()}: writes of {load.message} bytes, {load.outstanding} under way on a queue pair"
    qps = f"{transport.qps} queue pair{'s' if transport.qps > 1 else ''} a flow"
    start = f" From {show_time(load.start)} on." if load.start else ""
    return f"{joined(tenant.name, transport.type.upper())}, {qps}. {work}.{start}"


def _aftermath(case: Case, recording: Recording) -> Iterator[tuple[int, str]]:
    """A paragraph for each fault, as far as there was anything to record: its number and the text."""
    for number, one in enumerate(islice(aftermaths(case, recording), _MAX_AFTERMATHS), 1):
        if text := " ".join(sentences(one, recording)):
            yield number, text


def _left_out(faults: int) -> str:
    if faults <= _MAX_AFTERMATHS:
        return ""
    return f"The first {_MAX_AFTERMATHS} of {faults} faults; events.csv has what followed the others."


def _write_figures(folder: Path, name: str, figures: Mapping[str, str]) -> list[tuple[str, Markup]]:
    """Write each plot there is as a file; titles and drawings for the page."""
    place = folder / name
    drawn = []
    for number, (title, svg) in enumerate(((title, svg) for title, svg in figures.items() if svg), 1):
        word = "".join(letter if letter.isalnum() else "-" for letter in title.split(":")[0].lower())
        place.mkdir(exist_ok=True)
        write_text(place / f"{number}-{word}.svg", svg)
        drawn.append((title, plots.embedded(svg, f"{name}-{number}-")))
    return drawn


def _circumstances(run: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "finished", run["finished"]
    yield "took", f"{run['wall_seconds']:.1f} s, {run['packets_per_wall_second']} packets per second"
    yield "commit", run["commit"]
    yield "versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    yield "Python", f"{run['python']} on {run['system']}"
    for name, case in summary["cases"].items():
        packets = ", ".join(f"{label} {count}" for label, count in case["packets"].items())
        label = ", ".join(filter(None, ("packets", case_label(name))))
        yield label, f"{packets}; {case['checked_bytes']} bytes compared, {case['wrong_bytes']} wrong"
