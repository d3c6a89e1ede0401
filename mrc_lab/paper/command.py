"""``mrc paper``."""

from __future__ import annotations

from pathlib import Path

import click

from mrc_lab.backends import DEFAULT
from mrc_lab.cli.options import SEEDS, backend_option


@click.command(epilog="Example: mrc paper --only fig09a --only fig20")
@click.option("--only", multiple=True, help="Only this figure, by its file's name; may be repeated.")
@backend_option
@click.option(
    "--seeds",
    type=SEEDS,
    default="1",
    show_default=True,
    help="How many seeds, or which, as in 1-10; several give means and intervals.",
)
@click.option("--seed", type=int, hidden=True)
@click.option("--jobs", "-j", default=1, show_default=True, help="Parallel runs (not in emulation).")
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder for results."
)
def paper(
    only: tuple[str, ...], backend: str | None, seeds: tuple[int, ...], seed: int | None, jobs: int, results: Path
) -> int:
    """Reproduce the published figures and compare ours with them.

    Writes results/paper/latest with index.html, listing.md (numbers outside 10 %, with causes) and summary.json. The
    exit status is 0 when every run meets the expectations of its file, however many published numbers are reproduced
    within 10 %.
    """
    import mrc_lab.paper
    from mrc_common.declared.field_types import suggest
    from mrc_lab.errors import ExperimentError
    from mrc_lab.paper.reproduction import reproduce

    known = {path.stem: path for path in sorted(Path(mrc_lab.paper.__path__[0]).glob("*.yaml"))}
    for name in only:
        if name not in known:
            raise ExperimentError(f"no figure is called {name}; {suggest(name, known)}")
    files = [path for name, path in known.items() if not only or name in only]
    if seed is not None:
        click.echo("Note: --seed is now --seeds.", err=True)
        seeds = (seed,)
    whole = not only and backend in (None, DEFAULT)
    folder, summary = reproduce(
        files,
        results,
        backend=backend,
        seeds=seeds,
        jobs=jobs,
        whole=whole,
        notify=lambda text: click.echo(text, err=True),
    )
    click.echo(f"{summary['passed']} of {summary['experiments']} experiments, {summary['expectations_passed']} of"
               f" {summary['expectations']} values as expected")  # fmt: skip
    score = summary["score"]
    click.echo(f"{score['within']} of {score['values']} published numbers within 10 %, {score['met']} of"
               f" {score['bounds']} bounds met")  # fmt: skip
    click.echo(f"report: {folder / 'index.html'}")
    return 0 if summary["verdict"] == "pass" else 1
