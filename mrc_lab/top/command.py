"""``mrc top``."""

from __future__ import annotations

import click

from mrc_lab.cli.fabric_argument import ONLY_ONE, fabric_name


@click.command(epilog="Example: sudo mrc top lab --interval 0.5")
@fabric_name(ONLY_ONE)
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between samples.",
)
def top(name: str | None, interval: float) -> None:
    """Show the planes, links, paths and queue pairs of a fabric that is up, live in the terminal.

    Keys: 1 to 4 show a table, s sorts by the next column, r reverses the order, p pauses, q leaves. Headings can be
    clicked. What is down is red, what is suspected or nearly full amber.
    """
    import sys

    from mrc_lab.errors import ExperimentError
    from mrc_lab.fabric.find_fabric import find_controller
    from mrc_lab.top.app import Top
    from mrc_lab.top.sampling import FabricSampler
    from topologies import loader

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ExperimentError(
            "mrc top needs a terminal", "In a pipe use the prompt's listings: mrc shell NAME -c 'links --json'."
        )
    run = find_controller(name)
    fabric = loader.load_file(run.fabric_file)
    reader = FabricSampler(
        str(run.controller_socket), {nic.name: str(run.host_socket(nic.name)) for nic in fabric.nics}
    )
    try:
        Top(fabric.name, reader.read, interval).run()
    finally:
        reader.close()
