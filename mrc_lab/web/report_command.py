"""``mrc report``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(epilog="Example: mrc report results/fig09a/latest --output fig09a.html")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write. [default: in FOLDER]")
def report(folder: Path, output: Path | None) -> None:
    """Write a result FOLDER of 'mrc run' as one page that plays it.

    The page has the fabric with its links, paths and events over the time of the run, with a slider, steps and slow
    motion, every variant by itself or two side by side, and the report. It is one file, which any browser opens from
    disk, without a network.
    """
    from mrc_common.written_files import write_text
    from mrc_lab.reports.result_folder import PLAYBACK
    from mrc_lab.web.result_page import result_page

    target = output or folder / PLAYBACK
    write_text(target, result_page(folder))
    click.echo(f"page: {target}")
