"""``mrc sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrc_common.units import counted
from mrc_lab.cli.options import SEEDS

if TYPE_CHECKING:
    from mrc_lab.sweeps.grid import Grid
    from mrc_lab.sweeps.run_sweep import Spread, Tally

MISSING = 3
SHOWN_WARNINGS = 10
SHOWN_EXTENTS = 40  # lines
SHOWN_ROWS = 60  # of the tables of metrics


@click.command(
    epilog="Example: mrc sweep trial.yaml --set workload.message=64K,1M --set fabric.planes=1,2,4 --seeds 1-20"
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="KEY=V1,V2", help="A key and its values; may be repeated.")
@click.option(
    "--seeds", type=SEEDS, default="1", show_default=True, help="How many seeds, or which: 10, 1-20 or 1,5,9."
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(1),
    help="Parallel runs. [default: number of processors, here or of the cluster]",
)
@click.option("--ray", "address", metavar="ADDRESS", help="Run on a Ray cluster, as in 10.0.0.1:6379 (or local).")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Folder of the sweep. [default: results/sweep/NAME of the first]"
)
@click.option("--check", is_flag=True, help="Only check and count the runs.")
def sweep(
    files: tuple[Path, ...],
    settings: tuple[str, ...],
    seeds: tuple[int, ...],
    jobs: int | None,
    address: str | None,
    output: Path | None,
    check: bool,
) -> int:
    """Run experiment FILEs with every combination of settings and seeds, in simulation.

    Prints the mean of each metric with its 95 % interval over seeds (Student's t), by point. Writes table.jsonl with a
    row for each run and case, metrics.csv with one for each point, seed and metric, and plots.

    Repeating the command runs only what is missing: runs whose worker was killed, and new values or seeds. The exit
    status is 0 when every run met its expectations, 1 when one did not, 3 when runs are missing.
    """
    from mrc_lab.sweeps.grid import make_grid

    grid = make_grid(files, settings, seeds, with_extents=check)
    for note in grid.notes:
        click.echo(f"note: {note}", err=True)
    for warning in grid.warnings[:SHOWN_WARNINGS]:
        click.echo(f"Warning: {warning}.", err=True)
    if len(grid.warnings) > SHOWN_WARNINGS:
        click.echo(f"Warning: {len(grid.warnings) - SHOWN_WARNINGS} more like these.", err=True)
    if check:
        for line in grid.extents[:SHOWN_EXTENTS]:
            click.echo(line)
        if len(grid.extents) > SHOWN_EXTENTS:
            click.echo(f"{len(grid.extents) - SHOWN_EXTENTS} more lines like these")
        click.echo(f"{counted(len(grid.runs), 'run')}, all in order")
        return 0
    tally = run_with_progress(grid, output or Path("results", "sweep", files[0].stem), spread(jobs, address))
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(tally.verdicts.items()))
    before = f", {tally.before} of them before" if tally.before else ""
    click.echo(f"{tally.done} of {tally.total} runs done{before}: {verdicts or 'none'}")
    if tally.lost:
        click.echo(f"lost: {len(tally.lost)}; repeat the command to run what is missing", err=True)
    if tally.table is not None:
        _report(tally.table.parent, tally)
    if tally.done < tally.total:
        return MISSING
    return 0 if set(tally.verdicts) <= {"pass"} else 1


def _report(folder: Path, tally: Tally) -> None:
    """Print the metrics of all points, draw the plots, and say where everything is."""
    from mrc_lab.reports.over_seeds import METHOD
    from mrc_lab.sweeps.points import by_metric, table
    from mrc_lab.sweeps.sweep_plots import MOST_KEYS, write_plots  # matplotlib takes a second to load
    from mrc_lab.terminal.console import console, show
    from mrc_lab.terminal.plain_table import plain_table

    metrics, room = by_metric(tally.points), SHOWN_ROWS
    several = len({metric.experiment for metric in metrics}) > 1
    for metric in metrics:
        head, rows = table(metric)
        if room <= 0:
            break
        click.echo(f"\n{f'{metric.experiment}: ' * several}{metric.title}")
        show(console(), plain_table(head, rows[:room]))
        room -= len(rows)
    total = sum(len(metric.rows) for metric in metrics)
    if total > SHOWN_ROWS:
        click.echo(f"and {total - SHOWN_ROWS} more rows, in {folder / 'intervals.csv'}")
    plots = write_plots(folder / "plots", metrics)
    varying = {key for metric in metrics for key in metric.varying}
    click.echo(f"\n{METHOD}, over the seeds of each point: {folder / 'intervals.csv'}")
    click.echo(f"values: {folder / 'metrics.csv'}, a row for each point, seed and metric")
    if plots:
        click.echo(f"plots: {folder / 'plots'} ({counted(len(plots), 'file')})")
    elif len(varying) > MOST_KEYS:
        click.echo(f"plots: none, since {len(varying)} keys vary; they are drawn for {MOST_KEYS} at most")
    click.echo(f"table: {tally.table}")


def spread(jobs: int | None, address: str | None) -> Spread:
    """Over local processes, as many as `jobs` or as there are processors, or over the Ray cluster at `address`."""
    if address is not None:
        from mrc_lab.sweeps.ray_cluster import over_ray

        return over_ray(address, jobs=jobs)
    import os

    from mrc_lab.sweeps.local_processes import over_processes

    at_once = jobs or len(os.sched_getaffinity(0))
    return lambda runs: over_processes(runs, at_once)


def run_with_progress(grid: Grid, output: Path, spread: Spread) -> Tally:
    """Run the sweep with a progress bar; losses and errors are printed as they occur."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from mrc_lab.sweeps.run_one import SweepOutcome
    from mrc_lab.sweeps.run_sweep import sweep as run_sweep

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        line = progress.add_task("runs", total=len(grid.runs), visible=False)

        def notify(tally: Tally, outcome: SweepOutcome | None) -> None:
            bad = tally.done - tally.verdicts.get("pass", 0)
            words = [f"{bad} not as expected"] * bool(bad) + [f"{len(tally.lost)} lost"] * bool(tally.lost)
            progress.update(line, visible=True, completed=tally.done, description=", ".join(["runs", *words]))
            if outcome is None and tally.other_version:
                console.print(
                    f"note: {counted(tally.other_version, 'run')} in {output} were done by another version of this"
                    " project; remove the folder to do them again",
                    markup=False,
                )
            if outcome is not None and outcome.record is None:
                console.print(f"lost: {outcome.run}: {outcome.lost}", markup=False)
            elif outcome is not None and "error" in (outcome.record or {}):
                console.print(f"error: {outcome.run}: {(outcome.record or {})['error']}", markup=False)

        return run_sweep(grid, output, spread, notify)
