"""Run a whole experiment: every case on a fresh backend, recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.checks import build_fabric, check_memory, checked_fabric
from mrc_lab.experiments.files.fault_draws import draw_faults
from mrc_lab.experiments.files.model import Case, Experiment, case_label, case_prefix, joined
from mrc_lab.experiments.running.backend import Backend
from mrc_lab.experiments.running.case_warnings import case_warnings
from mrc_lab.experiments.running.extent import extent_of
from mrc_lab.experiments.running.first_interrupt import first_interrupt
from mrc_lab.experiments.running.kept_memory import kept_memory
from mrc_lab.experiments.running.recording import Recording
from mrc_lab.experiments.running.run_case import run_case
from simulation.errors import SimulationError
from topologies.emulation import switch_kind, wire_kind
from topologies.emulation.switch_kind import SwitchKind, program_of
from topologies.errors import FabricError

Beside = Callable[[str], AbstractContextManager[object]]
Opener = Callable[[Case, int], AbstractContextManager[Backend]]


@kept_memory()
def run_experiment(
    experiment: Experiment,
    backend: str,
    seed: int,
    *,
    switch: str = switch_kind.DEFAULT,
    wire: str = wire_kind.DEFAULT,
    name: str = "experiment",
    trace: Path | None = None,
    captures: Sequence[str] = (),
    measure_all: bool = False,
    beside: Beside = lambda fabric: nullcontext(),
    notify: Callable[[str], None] = lambda text: None,
    progress: Callable[[float], None] = lambda share: None,
    keep_interrupted: bool = False,
) -> dict[str, Recording]:
    """Run every case and return the recordings by case.

    `notify` is called with one line as each begins, `progress` with the share of all that is done, from 0 to 1.
    `switch`, `wire` and `name` (of the fabric) are for emulation. In the folder `trace`, if one is given, every case
    gets a folder with the event traces of its NICs and the captures of the links `captures` (simulation only). Links
    and queues are measured whatever the file says with traces or `measure_all`. While an emulated fabric is up, what
    `beside` returns for its name is entered. With `keep_interrupted` Ctrl-C on the scale backend ends the run, and
    what has been recorded by then is returned, without the cases that had not begun.
    """
    experiment = draw_faults(experiment, seed)
    check(experiment, backend, captures)
    if backend == "scale":
        if trace is not None or measure_all:
            what = "no event traces" if trace is not None else "no page that plays the run"
            raise ExperimentError(f"the scale backend has no packets, so it has {what}", "Use --backend sim.")
        return _run_states(experiment, seed, notify, progress, keep_interrupted)
    opener = _opener(experiment, backend, switch, wire, name)
    recordings: dict[str, Recording] = {}
    extents = extents_of(experiment, seed)
    for number, case in enumerate(experiment.cases, 1):
        notify(f"{joined(experiment.name, case_label(case.name))} ({number} of {len(experiment.cases)})")
        for line in extents.get(case.name, ()):
            notify(line)
        try:
            if trace is not None or measure_all:
                case = _measured(case, switch)
            with opener(case, seed) as running, _beside(backend, beside, running):
                for warning in case_warnings(case, running.fabric, running.time_scale):
                    notify(f"Warning: {case_prefix(case.name)}{warning}.")
                partly = partial(_of_all, progress, number - 1, len(experiment.cases))
                traces = None if trace is None else trace / case.name
                recordings[case.name] = run_case(case, running, seed, traces, captures, partly)
        except SimulationError as error:
            raise ExperimentError(f"{experiment.name}: {case_prefix(case.name)}{error}") from error
    return recordings


def _run_states(
    experiment: Experiment,
    seed: int,
    notify: Callable[[str], None],
    progress: Callable[[float], None],
    keep_interrupted: bool,
) -> dict[str, Recording]:
    """Every case as states, without packets (docs/scale.md)."""
    from mrc_lab.experiments.running.scale_case import run_scale_case

    recordings: dict[str, Recording] = {}
    with first_interrupt() if keep_interrupted else nullcontext(lambda: False) as interrupted:
        for number, case in enumerate(experiment.cases, 1):
            notify(f"{joined(experiment.name, case_label(case.name))} ({number} of {len(experiment.cases)})")
            partly = partial(_of_all, progress, number - 1, len(experiment.cases))
            try:
                recordings[case.name] = run_scale_case(case, seed, notify, partly, interrupted)
            except KeyboardInterrupt:
                if not keep_interrupted or not recordings:
                    raise
            if interrupted():
                break
    return recordings


def _beside(backend: str, beside: Beside, running: Backend) -> AbstractContextManager[object]:
    """What goes beside a case while it runs."""
    return beside(running.fabric.name) if backend == "emulation" else nullcontext()


def _of_all(progress: Callable[[float], None], done: int, cases: int, share: float) -> None:
    """So much of a case is done after `done` of all `cases`."""
    progress((done + share) / cases)


def _measured(case: Case, switch: str) -> Case:
    """The case with all that a trace shows of it."""
    queues = case.measure.queues or program_of(switch) is not SwitchKind.BMV2
    return replace(case, measure=replace(case.measure, links=True, queues=queues))


def check(experiment: Experiment, backend: str, captures: Sequence[str] = ()) -> None:
    """ExperimentError for the first case that the backend cannot carry or make, or has not a link to capture."""
    if captures and backend == "emulation":
        raise ExperimentError(
            "links of an emulated experiment are not captured", "Use --backend sim, or 'capture' at the prompt."
        )
    if captures and backend == "scale":
        raise ExperimentError("the scale backend has no packets to capture", "Use --backend sim.")
    if captures:
        for case in experiment.cases:
            fabric = build_fabric(case.fabric)
            try:
                for link in captures:
                    fabric.link(link)
            except FabricError as error:
                raise ExperimentError(f"{experiment.name}: {case_prefix(case.name)}--capture: {error}") from None
    if backend == "scale":
        from mrc_lab.experiments.files.scale_checks import check_scale

        check_scale(experiment)
    elif experiment.backend == "scale":  # otherwise that was checked when the file was read
        for case in experiment.cases:
            if case.document is not None:
                fabric = checked_fabric(replace(case.fabric, packets=True), case.document)
                check_memory(case, fabric, case.document)
    if backend == "emulation":
        from mrc_lab.experiments.running.emulated_backend import check as check_case
        from mrc_lab.experiments.running.scaling import scale_of

        scale = scale_of(experiment.cases)
        for case in experiment.cases:
            check_case(case, scale)


def extents_of(experiment: Experiment, seed: int = 1) -> dict[str, list[str]]:
    """What names and patterns came to mean, in lines, by case; only of cases where it differs from the case before."""
    found: dict[str, list[str]] = {}
    before: list[str] = []
    for case in experiment.cases:
        lines = list(extent_of(case, build_fabric(case.fabric), seed).lines())
        if lines != before:
            found[case.name] = before = lines
    return found


def warnings_of(experiment: Experiment, backend: str) -> Iterator[str]:
    """What a run of the experiment would warn about, without running it: sentences without a full stop."""
    if backend in ("sim", "scale"):
        from mrc_lab.experiments.running.fitted_fabric import fitted_fabric

        fabrics = ((case, fitted_fabric(case), 1.0) for case in experiment.cases)
    else:
        from mrc_lab.experiments.running.scaling import scale_of, scaled_fabric

        scale = scale_of(experiment.cases)
        fabrics = ((case, scaled_fabric(case, scale), 1 / scale) for case in experiment.cases)
    for case, fabric, time_scale in fabrics:
        for warning in case_warnings(case, fabric, time_scale):
            yield f"{case_prefix(case.name)}{warning}"


def _opener(experiment: Experiment, backend: str, switch: str, wire: str, name: str) -> Opener:
    """Only the backend that is asked for is imported: simulation needs no Mininet."""
    if backend == "sim":
        from mrc_lab.experiments.running.simulated_backend import simulated_backend

        return simulated_backend
    from mrc_lab.experiments.running.emulated_backend import emulated_backend
    from mrc_lab.experiments.running.scaling import scale_of

    scale = scale_of(experiment.cases)
    return lambda case, seed: emulated_backend(case, scale, switch, name, wire)
