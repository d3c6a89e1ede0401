"""``mrc run``."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrc_lab.cli.fabric_argument import name_to_make, note_edits, wire_option
from mrc_lab.cli.options import SEEDS, backend_option
from mrc_lab.command_table import COMMANDS, load
from mrc_lab.fabric.switch_option import switch_option

if TYPE_CHECKING:
    from mrc_lab.experiments.files import Experiment

LOST = 3  # exit status when a seed could not be run
INTERRUPTED = 130  # as of any other interrupted command


@click.command(epilog="Example: mrc run mrc_lab/paper/fig09a.yaml --seed 7")
@click.argument("file", type=click.Path(path_type=Path))
@backend_option
@switch_option("Switches in emulation, as for 'mrc up'. May be repeated.")
@wire_option
@name_to_make("experiment")
@click.option("--seed", type=int, help="Seed for everything random. [default: 1]")
@click.option(
    "--seeds", type=SEEDS, help="Several seeds: how many, or which, as in 1-20 or 1,5,9. Gives means and intervals."
)
@click.option("--jobs", "-j", type=click.IntRange(1), help="Seeds that run at once. [default: number of processors]")
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder for results."
)
@click.option("--trace", is_flag=True, help="Keep the event traces of all NICs, for 'mrc trace convert'.")
@click.option(
    "--capture", "captures", multiple=True, metavar="LINK", help="Capture a link too, as in t0-0:t1-0@p0 (sim only)."
)
@click.option(
    "--web", is_flag=True, help="Also write a page that plays the run; in emulation, serve the live view meanwhile."
)
@click.option(
    "--topo",
    "topology",
    type=click.Path(path_type=Path),
    help="Topology of htsim (.topo) for a connection matrix. [default: that beside it, of the same name]",
)
@click.option("--check", is_flag=True, help="Only check the file.")
def run(
    file: Path,
    backend: str | None,
    switch: str,
    wire: str,
    name: str,
    seed: int | None,
    seeds: tuple[int, ...] | None,
    jobs: int | None,
    results: Path,
    trace: bool,
    captures: tuple[str, ...],
    web: bool,
    topology: Path | None,
    check: bool,
) -> int:
    """Run an experiment FILE, or a connection matrix of htsim (.cm), and check its expectations.

    Writes a folder with the file as run, raw series, summary.json, plots and an HTML report. Simulation needs no root.
    The exit status is 0 when every expectation is met and the timing can be trusted. If a process of the emulated
    fabric crashes, the run ends at once with exit status 3 and no results.

    With --seeds every seed has such a folder, and the mean of each metric is printed with its 95 % interval.
    """
    experiment = _load(file, topology)
    backend = experiment.backend_for(backend)
    seeds = _seeds(seed, seeds, jobs, backend, web)
    note_edits()
    for note in experiment.notes_on(backend):
        click.echo(f"note: {note}", err=True)
    if check:
        return _check(experiment, file, backend, seeds[0], captures)
    options = {"switch": switch, "wire": wire, "name": name, "trace": trace, "captures": captures}
    if len(seeds) > 1:
        return _run_seeds(experiment, backend, seeds, jobs, results, options)
    return _run_one(experiment, backend, seeds[0], results, options, web)


def _load(file: Path, topology: Path | None) -> Experiment:
    """The experiment in a file, or that of a connection matrix."""
    from mrc_lab.experiments.files import load_file
    from mrc_lab.experiments.files.from_htsim import SUFFIX, load_matrix

    if file.suffix == SUFFIX:
        return load_matrix(file, topology)
    if topology is not None:
        raise click.UsageError(f"--topo is for a connection matrix ({SUFFIX}): an experiment file has its own fabric.")
    return load_file(file)


def _seeds(
    seed: int | None, seeds: tuple[int, ...] | None, jobs: int | None, backend: str, web: bool
) -> tuple[int, ...]:
    """The seeds to run; UsageError for options that do not fit one another."""
    if jobs is not None and len(seeds or (1,)) == 1:
        raise click.UsageError("--jobs is for several seeds: give --seeds too, as in --seeds 10.")
    if seeds is None:
        return (1 if seed is None else seed,)
    if seed is not None:
        raise click.UsageError("--seed and --seeds exclude each other: leave one of them out.")
    if len(seeds) > 1 and web:
        raise click.UsageError("--web plays one run: give --seed instead of --seeds.")
    if len(seeds) > 1 and backend == "emulation" and (jobs or 1) > 1:
        raise click.UsageError("in emulation seeds run one after the other: leave --jobs out.")
    return seeds


def _check(experiment: Experiment, file: Path, backend: str, seed: int, captures: tuple[str, ...]) -> int:
    """Check a file and print what a run would say of it."""
    from mrc_common.units import counted
    from mrc_lab.experiments.files.fault_draws import draw_faults
    from mrc_lab.experiments.files.model import case_prefix
    from mrc_lab.experiments.running import run_experiment

    experiment = draw_faults(experiment, seed)
    run_experiment.check(experiment, backend, captures)
    for warning in run_experiment.warnings_of(experiment, backend):
        click.echo(f"Warning: {warning}.", err=True)
    for case, lines in run_experiment.extents_of(experiment, seed).items():
        for text in lines:
            click.echo(f"{case_prefix(case)}{text}")
    cases, expectations = counted(len(experiment.cases), "case"), counted(len(experiment.expect), "expectation")
    click.echo(f"{file}: {cases}, {expectations}, all in order")
    return 0


def _run_one(experiment: Experiment, backend: str, seed: int, results: Path, options: dict[str, Any], web: bool) -> int:
    """Run with one seed and print the verdicts."""
    from mrc_lab.reports.run_and_report import run_and_report
    from mrc_lab.reports.verdicts import Verdict
    from mrc_lab.terminal.console import echo
    from mrc_lab.terminal.progress import progress
    from mrc_lab.terminal.state_colour import coloured_verdict

    with progress(experiment.name) as line, _token_file(web) as token:
        result = run_and_report(
            experiment,
            backend,
            seed,
            results,
            **options,
            measure_all=web,
            beside=partial(_live_view, line.print, token) if web else contextlib.nullcontext,
            notify=line.print,
            progress=line.report,
            keep_interrupted=True,
        )
    for verdict in result.lines():
        echo(coloured_verdict(verdict))
    click.echo(f"report: {result.folder / 'report.html'}")
    if web:
        _write_page(result.folder)
    if result.interrupted:
        return INTERRUPTED
    return 0 if result.summary["verdict"] == Verdict.PASS.value else 1


def _run_seeds(
    experiment: Experiment,
    backend: str,
    seeds: tuple[int, ...],
    jobs: int | None,
    results: Path,
    options: dict[str, Any],
) -> int:
    """Run with several seeds and print every metric over them."""
    from mrc_common.units import counted
    from mrc_lab.reports.over_seeds import METHOD
    from mrc_lab.reports.run_seeds import run_seeds
    from mrc_lab.terminal.console import console, show
    from mrc_lab.terminal.plain_table import plain_table
    from mrc_lab.terminal.progress import progress

    at_once = jobs or len(os.sched_getaffinity(0))
    with progress(experiment.name) as line:
        found = run_seeds(
            experiment, backend, seeds, results, jobs=at_once, notify=line.print, progress=line.report, **options
        )
    show(console(), plain_table(*found.table()))
    counts = Counter(run.verdict for run in found.runs)
    verdicts = ", ".join(f"{verdict} {count}" for verdict, count in sorted(counts.items()))
    click.echo(f"{counted(len(seeds), 'seed')}: {verdicts}; {METHOD}")
    click.echo(f"report: {found.folder / 'report.html'}")
    if found.verdict == "error":
        return LOST
    return 0 if found.verdict == "pass" else 1


@contextlib.contextmanager
def _token_file(wanted: bool) -> Iterator[Path]:
    """A file with a token that is good for the pages of all variants, whose fabrics are up one after the other."""
    if not wanted:
        yield Path(os.devnull)
        return
    from mrc_lab.fabric.live_view import new_token

    with tempfile.TemporaryDirectory(prefix="mrc-run-") as place:  # only its owner may enter it
        file = Path(place) / "token"
        file.write_text(new_token())
        yield file


@contextlib.contextmanager
def _live_view(notify: Callable[[str], None], token: Path, fabric: str) -> Iterator[None]:
    """The live view of a fabric that is up, at an address that `notify` prints."""
    from mrc_lab.fabric.live_view import web_beside

    with web_beside(fabric, token) as page:
        notify(page.address)
        yield


def _write_page(folder: Path) -> None:
    """Write the page that plays a result, as ``mrc report`` does, and open it where somebody sits at the machine."""
    from mrc_lab.errors import ExperimentError
    from mrc_lab.reports.result_folder import PLAYBACK

    page = folder / PLAYBACK
    try:
        click.get_current_context().invoke(load(COMMANDS["report"]), folder=folder, output=page)
    except ExperimentError as error:  # the run itself is done
        click.echo(f"no page: {error}. {error.hint}".rstrip(), err=True)
        return
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if screen and os.geteuid() and sys.stdout.isatty():  # browsers refuse to be root's
        click.launch(str(page))
