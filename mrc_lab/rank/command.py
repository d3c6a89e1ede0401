"""``mrc rank``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mrc_common import named_files, strict_json
from mrc_common.units import counted
from mrc_lab.cli.options import SEEDS

MISSING = 3


@click.command(epilog="Example: mrc rank --only permutation --only cut-link --seeds 1-10")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Only this workload, condition or transport; may be repeated."
)
@click.option("--seeds", type=SEEDS, default="1", show_default=True, help="How many seeds, or which, as in 1-10.")
@click.option("--jobs", "-j", type=click.IntRange(1), help="Parallel runs. [default: number of processors]")
@click.option("--ray", "address", metavar="ADDRESS", help="Run on a Ray cluster, as in 10.0.0.1:6379 (or local).")
@click.option("--output", type=click.Path(path_type=Path), help="Folder of the ranking. [default: results/rank]")
@click.option("--list", "listed", is_flag=True, help="Only list what there is.")
def rank(
    only: tuple[str, ...],
    seeds: tuple[int, ...],
    jobs: int | None,
    address: str | None,
    output: Path | None,
    listed: bool,
) -> int:
    """Rank MRC and the baselines: the same workloads and faults for all, in simulation.

    Writes ranking.md, ranking.csv and the experiments, each of which 'mrc run' runs alone. Repeating the command runs
    only what is missing. The exit status is 0 when all runs are done, 3 when some are missing.
    """
    from mrc_common.written_files import write_text
    from mrc_lab.rank.comparison import experiment_files, load, write_experiments
    from mrc_lab.rank.ranking import ranking
    from mrc_lab.rank.table import markdown, tidy
    from mrc_lab.sweeps.command import run_with_progress, spread
    from mrc_lab.sweeps.grid import make_grid

    everything = load()
    comparison = everything.only(only)
    if listed:
        for title, parts in (
            ("transports", comparison.transports),
            ("workloads", comparison.workloads),
            ("conditions", comparison.conditions),
        ):
            click.echo(f"{title}: {', '.join(str(part['name']) for part in parts)}")
        return 0
    chosen = [name for name in everything.names if name in only]
    folder = output or Path("results", "+".join(("rank", *chosen)))
    runs, missing, failed = {}, 0, 0
    for transport in comparison.transports:
        name = str(transport["name"])
        click.echo(name, err=True)
        files = experiment_files(comparison, transport, folder / name / "experiments")
        tally = run_with_progress(make_grid(files, (), seeds), folder / name, spread(jobs, address))
        write_experiments(files)  # only now: the folder may be another ranking's
        missing += tally.total - tally.done
        failed += tally.verdicts.get("error", 0)
        runs[name] = _done(tally.table, seeds)
    rows = ranking(comparison, runs)
    text = markdown(comparison, rows, seeds)
    write_text(folder / "ranking.md", text)
    write_text(folder / "ranking.csv", tidy(rows))
    click.echo(text)
    click.echo(f"ranking: {folder / 'ranking.md'}, {folder / 'ranking.csv'}")
    if failed:
        click.echo(f"{counted(failed, 'run')} failed, left out here: see 'error' in table.jsonl", err=True)
    if missing:
        click.echo(f"{missing} runs are missing; repeat the command", err=True)
        return MISSING
    return 0


def _done(table: Path | None, seeds: tuple[int, ...]) -> list[dict[str, Any]]:
    """The runs of a sweep that were done with these seeds."""
    if table is None:
        return []
    rows = map(strict_json.loads, named_files.lines(table))
    return [row for row in rows if row["seed"] in seeds and row["case"] is not None]
