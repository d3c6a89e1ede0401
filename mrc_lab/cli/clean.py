"""``mrc clean``."""

from __future__ import annotations

import click

from mrc_lab.cli.fabric_argument import fabric_name


@click.command(epilog="Example: sudo mrc clean")
@fabric_name("all")
@click.option("--force", is_flag=True, help="Take down fabrics that are in use as well.")
def clean(name: str | None, force: bool) -> None:
    """Remove leftovers of crashed runs: interfaces, namespaces, processes, sockets.

    Fabrics that are in use are not touched unless --force is given.
    """
    import os

    from mrc_lab.errors import ExperimentError
    from topologies.emulation import cleanup

    if os.geteuid() != 0:
        raise ExperimentError("cleaning up needs root", "Run the same command with sudo.")
    if name is None:
        reports = cleanup.clean_all(force=force)
    else:
        reports = [report for report in [cleanup.clean(name, force=force)] if report]
    for report in reports:
        click.echo(f"{report.name}: removed {report.processes} processes and {report.interfaces} interfaces")
    if not reports:
        click.echo("nothing to remove")
