"""``mrc map``."""

from __future__ import annotations

import click

from controller.path_map.client import PathMapClient
from mrc_lab.cli.fabric_argument import ONLY_ONE, fabric_name
from mrc_lab.commands.map_command import watch
from mrc_lab.fabric.find_fabric import find_controller
from mrc_lab.terminal.console import echo
from mrc_lab.terminal.state_colour import coloured
from topologies import loader


@click.command(name="map", epilog="Example: sudo mrc map lab --watch 30")
@fabric_name(ONLY_ONE)
@click.option(
    "--watch", "seconds", type=click.FloatRange(0, 1e6), default=0.0, help="Refresh it for this many seconds."
)
@click.option("--rate", type=float, help="Probes per second on every link in each direction.  [default: 10]")
@click.option("--deny/--allow", "feed", default=None, help="Whether hosts stop using paths over suspected faults.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, once, when --watch is over.")
@click.option("--stop", is_flag=True, help="Stop probing.")
def path_map(name: str | None, seconds: float, rate: float | None, feed: bool | None, as_json: bool, stop: bool) -> int:
    """Probe the fabric and show which links and switches lose packets.

    The exit status is 1 when a fault is suspected. The map keeps running until it is stopped or the fabric is taken
    down.
    """
    run = find_controller(name)
    fabric = loader.load_file(run.fabric_file)
    with PathMapClient(run.controller_socket) as controller:
        if stop:
            controller.stop_map()
            return 0
        before = controller.path_map()
        wanted = before.rate if rate is None and before.running else rate or 0.0
        controller.start_map(wanted, feed=before.feeding if feed is None else feed)
        lines = click.echo if as_json else _echo_states
        return 1 if watch(controller, fabric, seconds, lines, as_json=as_json).suspected else 0


def _echo_states(text: str) -> None:
    echo(coloured(text))
