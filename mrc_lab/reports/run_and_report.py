"""From an experiment to its result folder, in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mrc_lab.experiments.files.fault_draws import draw_faults
from mrc_lab.experiments.files.model import Experiment, PublishedPart, case_prefix
from mrc_lab.experiments.running.recording import Recording
from mrc_lab.experiments.running.run_experiment import Beside, run_experiment
from mrc_lab.reports import flow_times
from mrc_lab.reports import result_folder as folders
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.step_times import job_steps
from mrc_lab.reports.summary import circumstances, summarize
from mrc_lab.reports.verdicts import Judged, judge, show
from topologies.emulation import switch_kind, wire_kind

_RELATIONS = {"at_least": ">=", "at_most": "<=", "about": "about"}
_MANY_ROWS = 500_000  # which take some seconds to write
_MOST_ERRORS = 5  # of a case, on the terminal
_MOST_STEP_LINES = 4  # of a job, on the terminal
_MOST_VALUES = 6  # of a reported metric; of more cases the lowest and the highest are shown


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run, or what there is of one that the user has `interrupted`."""

    experiment: Experiment
    recordings: Mapping[str, Recording]
    judged: list[Judged]
    summary: Mapping[str, Any]
    folder: Path
    wall_seconds: float
    interrupted: bool = False

    def lines(self) -> Iterator[str]:
        """For a terminal: verdicts, what went wrong, reported metrics, and why timing cannot be trusted."""
        for name, recording in self.recordings.items():
            for reason in recording.fidelity.reasons:
                yield f"{case_prefix(name)}timing cannot be trusted: {reason}"
        for one in self.judged:
            ours, expected = show(one.ours, one.unit), show(one.expected, one.unit)
            within = f" within {one.tolerance:.3g}" if one.tolerance else ""
            line = f"{one.verdict.value:<9} {one.title}: {ours} ({_RELATIONS[one.relation]} {expected}{within})"
            yield line + (f", published {show(one.published, one.unit)}" if one.published is not None else "")
        yield from self._errors()
        for sentence in self.summary["no_difference"]:
            yield f"{'note':<9} {sentence}"
        yield from self._flows()
        yield from self._steps()
        yield from self._reported()
        for number in self.summary["published"]["numbers"]:
            ours, theirs = show(number["ours"], number["unit"]), show(number["published"], number["unit"])
            bound = f"{_RELATIONS[number['bound']]} " if number["bound"] else ""
            yield f"{number['standing']:<12} {number['what']}: {ours}, published {bound}{theirs}"
        for name, recording in self.recordings.items():
            for reason in recording.fidelity.reasons:
                yield f"untrusted {case_prefix(name)}{reason}"

    def _errors(self) -> Iterator[str]:
        for name, recording in self.recordings.items():
            if recording.interrupted:
                yield f"{'note':<9} {case_prefix(name)}{recording.interrupted}"
            for error in recording.errors[:_MOST_ERRORS]:
                yield f"{'error':<9} {case_prefix(name)}{error}"
            if len(recording.errors) > _MOST_ERRORS:
                yield f"{'error':<9} {case_prefix(name)}and {len(recording.errors) - _MOST_ERRORS} more"

    def _flows(self) -> Iterator[str]:
        """What completion times of flows do not say."""
        for name, recording in self.recordings.items():
            for sentence in flow_times.flow_warnings(recording):
                yield f"{'note':<9} {case_prefix(name)}{sentence}"

    def _steps(self) -> Iterator[str]:
        """What steps of training jobs took around faults."""
        for case in self.experiment.cases:
            for job in job_steps(case, self.recordings[case.name]):
                if job.word == "step" or job.faults:
                    for sentence in list(job.sentences())[:_MOST_STEP_LINES]:
                        yield f"{'steps':<9} {case_prefix(case.name)}{sentence}"

    def _reported(self) -> Iterator[str]:
        for metric in self.summary["reported"]:
            values = {name: show(value, metric["unit"]) for name, value in metric["values"].items()}
            shown = list(values) if len(values) <= _MOST_VALUES else _extremes(metric["values"])
            text = ", ".join(f"{case_prefix(name)}{values[name]}" for name in shown)
            if len(shown) < len(values):
                text = (
                    f"lowest and highest of {len(values)} cases: {text}; report.html lists all"
                    if text
                    else f"none of {len(values)} cases has it"
                )
            yield f"{'reported':<9} {metric['title']}: {text}"


def _extremes(values: Mapping[str, float | None]) -> list[str]:
    """The cases with the lowest and the highest value; none where no case has one."""
    known = {name: value for name, value in values.items() if value is not None}
    if not known:
        return []
    return [min(known, key=known.__getitem__), max(known, key=known.__getitem__)]


def _only(experiment: Experiment, recordings: Mapping[str, Recording]) -> Experiment:
    """The cases of an interrupted experiment that were run, with nothing that is expected of all of it."""
    cases = tuple(case for case in experiment.cases if case.name in recordings)
    return replace(experiment, cases=cases, expect=(), published=PublishedPart())


def run_and_report(
    experiment: Experiment,
    backend: str,
    seed: int,
    results: Path,
    *,
    switch: str = switch_kind.DEFAULT,
    wire: str = wire_kind.DEFAULT,
    name: str = "experiment",
    trace: bool = False,
    captures: Sequence[str] = (),
    measure_all: bool = False,
    beside: Beside = lambda fabric: nullcontext(),
    notify: Callable[[str], None] = lambda text: None,
    progress: Callable[[float], None] = lambda share: None,
    keep_interrupted: bool = False,
    place: Path | None = None,
) -> FinishedRun:
    """Run, judge, write everything; returns what came of it. Raises ExperimentError and the worlds' errors.

    The result folder is a new one below `results`, named after the time, or the one at `place`, which is made.

    With `trace` or `captures` the result has the event traces of all NICs too, and those links' captures.
    `measure_all`, `beside` and `keep_interrupted` are those of :func:`run_experiment`; expectations of an interrupted
    run are not judged.
    """
    began = time.monotonic()
    experiment = draw_faults(experiment, seed)
    with (
        folders.unfinished_folder(results, experiment.name) if place is None else folders.given_folder(place) as folder,
        folders.place_of_traces(results) if trace or captures else nullcontext() as traces,
    ):
        recordings = run_experiment(
            experiment,
            backend,
            seed,
            switch=switch,
            wire=wire,
            name=name,
            trace=traces,
            captures=captures,
            measure_all=measure_all,
            beside=beside,
            notify=notify,
            progress=progress,
            keep_interrupted=keep_interrupted,
        )
        cut = any(recording.interrupted for recording in recordings.values())
        interrupted = cut or len(recordings) < len(experiment.cases)
        if interrupted:
            experiment = _only(experiment, recordings)
        wall = time.monotonic() - began
        rows = sum((len(one.times) - 1) * len(one.flows) for one in recordings.values())
        if rows > _MANY_ROWS:
            notify(f"writing {rows} rows of flows.csv, and the report")
        metrics = MetricTable(experiment.cases, recordings)
        judged = judge(experiment, metrics, backend)
        summary = summarize(experiment, metrics, judged, backend, seed)
        packets = sum(int(recording.flow_samples[-1, :, 0].sum()) for recording in recordings.values())
        run = circumstances(wall, packets)
        folders.write_result(folder, experiment, recordings, summary, run)
        if traces is not None:
            folders.keep_traces(traces, folder)
        from mrc_lab.reports.report import write_report  # not at the top: matplotlib takes a second to load

        write_report(folder, experiment, metrics, summary, run)
    folder = folders.finish(folder, newest=place is None)
    return FinishedRun(experiment, recordings, judged, summary, folder, wall, interrupted)
