"""``mrc compare``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(epilog="Example: mrc compare results/fig09a/latest results/fig09a/20261121-101500")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), default=Path("compare.html"), show_default=True)
def compare(first: Path, second: Path, output: Path) -> None:
    """Put two results of 'mrc run', FIRST and SECOND, side by side in one HTML page.

    FIRST and SECOND may also be recordings of 'mrc web --record', as rc.html and mrc.html: these play on one
    time slider.
    """
    from mrc_lab.reports.compare import compare as compared
    from mrc_lab.reports.write_file import write_text
    from mrc_lab.web.side_by_side import side_by_side

    if first.is_file() and second.is_file():
        write_text(output, side_by_side(first, second))
        click.echo(f"page: {output}")
        return
    write_text(output, compared(first, second))
    click.echo(f"report: {output}")
