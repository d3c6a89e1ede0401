"""``mrc metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mrc_lab.cli.fabric_argument import ONLY_ONE, fabric_name
from mrc_lab.telemetry import DEFAULT_ADDRESS

if TYPE_CHECKING:
    from mrc_lab.telemetry.readings import FabricReader


@click.command(epilog="Example: sudo mrc metrics lab")
@fabric_name(ONLY_ONE)
@click.option("--listen", "address", default=DEFAULT_ADDRESS, show_default=True, help="host:port to serve /metrics on.")
@click.option("--public", is_flag=True, help="Allow an address off loopback, where anyone may read the metrics.")
@click.option("--queue-pairs", is_flag=True, help="Add about 50 series for each queue pair.")
@click.option("--once", is_flag=True, help="Print the metrics, and serve nothing.")
@click.option("--dashboard", is_flag=True, help="Print a dashboard for Grafana as JSON; needs no fabric.")
def metrics(name: str | None, address: str, public: bool, queue_pairs: bool, once: bool, dashboard: bool) -> None:
    """Serve the metrics of a fabric to Prometheus, until Ctrl-C.

    NICs have the names of node_exporter's infiniband collector, with the host as device and the plane as port; paths,
    windows, trims, queues and the like have names that begin with mrc_ (docs/telemetry.md). While the fabric is down
    there is only mrc_up 0, and when it is up again, its metrics are there again.
    """
    if dashboard and once:
        raise click.UsageError("give --once or --dashboard, not both")
    if dashboard:
        from importlib.resources import files

        click.echo(files("mrc_lab.telemetry").joinpath("grafana.json").read_text("utf-8"), nl=False)
        return
    import asyncio

    from mrc_lab.fabric.find_fabric import find_controller
    from mrc_lab.telemetry.exporter import check_address
    from mrc_lab.telemetry.readings import FabricReader

    where = check_address(address, public=public)
    reader = FabricReader(find_controller(name).name)
    try:
        asyncio.run(_print(reader, queue_pairs) if once else _serve(reader, where, queue_pairs))
    finally:
        reader.close()


async def _print(reader: FabricReader, queue_pairs: bool) -> None:
    from mrc_lab.telemetry.exporter import text

    click.echo(text(await reader.read(), queue_pairs=queue_pairs), nl=False)


async def _serve(reader: FabricReader, where: tuple[str, int], queue_pairs: bool) -> None:
    """Serve until Ctrl-C or SIGTERM, which both are a regular end."""
    import asyncio
    import signal

    from mrc_lab.telemetry.exporter import Exporter

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    exporter = Exporter(reader.read, *where, queue_pairs=queue_pairs)
    await exporter.start()
    try:
        click.echo(f"metrics of fabric {reader.name} on http://{exporter.address}/metrics, until Ctrl-C")
        await ended.wait()
    finally:
        await exporter.close()
