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

    The page plays both on one time slider, and has a report of what differs. FIRST and SECOND may also be recordings
    of 'mrc web --record' or pages of 'mrc report', as rc.html and mrc.html; with one of these, there is no report.
    """
    from mrc_common.written_files import write_text
    from mrc_lab.web.player_page import side_by_side
    from mrc_lab.web.result_page import comparison_page

    if first.is_file() or second.is_file():
        write_text(output, side_by_side(first, second))
        click.echo(f"page: {output}")
        return
    write_text(output, comparison_page(first, second))
    click.echo(f"report: {output}")
