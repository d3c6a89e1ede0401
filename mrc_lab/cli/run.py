"""``mrc run``."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click

from mrc_lab.cli.fabric_argument import name_to_make, note_edits, wire_option
from mrc_lab.cli.options import backend_option
from mrc_lab.command_table import COMMANDS, load
from mrc_lab.fabric.switch_option import switch_option


@click.command(epilog="Example: mrc run mrc_lab/paper/fig09a.yaml --seed 7")
@click.argument("file", type=click.Path(path_type=Path))
@backend_option
@switch_option("Switches in emulation, as for 'mrc up'. May be repeated.")
@wire_option
@name_to_make("experiment")
@click.option("--seed", default=1, show_default=True, help="Seed for everything random.")
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
@click.option("--check", is_flag=True, help="Only check the file.")
def run(
    file: Path,
    backend: str,
    switch: str,
    wire: str,
    name: str,
    seed: int,
    results: Path,
    trace: bool,
    captures: tuple[str, ...],
    web: bool,
    check: bool,
) -> int:
    """Run an experiment FILE and check its expectations.

    Writes a folder with the file as run, raw series, summary.json, plots and an HTML report. Simulation needs no root.
    The exit status is 0 when every expectation is met and the timing can be trusted. If a process of the emulated
    fabric crashes, the run ends at once with exit status 3 and no results.
    """
    from mrc_common.units import counted
    from mrc_lab.experiments.files import load_file
    from mrc_lab.experiments.files.model import case_prefix
    from mrc_lab.experiments.running import run_experiment
    from mrc_lab.reports.run_and_report import run_and_report
    from mrc_lab.reports.verdicts import Verdict
    from mrc_lab.terminal.console import echo
    from mrc_lab.terminal.progress import progress
    from mrc_lab.terminal.state_colour import coloured_verdict

    experiment = load_file(file)
    note_edits()
    for note in experiment.notes_on(backend):
        click.echo(f"note: {note}", err=True)
    if check:
        run_experiment.check(experiment, backend, captures)
        for warning in run_experiment.warnings_of(experiment, backend):
            click.echo(f"Warning: {warning}.", err=True)
        for case, lines in run_experiment.extents_of(experiment, seed).items():
            for text in lines:
                click.echo(f"{case_prefix(case)}{text}")
        cases, expectations = counted(len(experiment.cases), "case"), counted(len(experiment.expect), "expectation")
        click.echo(f"{file}: {cases}, {expectations}, all in order")
        return 0
    with progress(experiment.name) as line, _token_file(web) as token:
        result = run_and_report(
            experiment,
            backend,
            seed,
            results,
            switch=switch,
            wire=wire,
            name=name,
            trace=trace,
            captures=captures,
            measure_all=web,
            beside=partial(_live_view, line.print, token) if web else contextlib.nullcontext,
            notify=line.print,
            progress=line.report,
        )
    for verdict in result.lines():
        echo(coloured_verdict(verdict))
    click.echo(f"report: {result.folder / 'report.html'}")
    if web:
        _write_page(result.folder)
    return 0 if result.summary["verdict"] == Verdict.PASS.value else 1


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
