"""``python -m controller``: program and verify all switches of a fabric, then serve until it is stopped.

When every switch holds what it should, a line is written to the descriptor ``--ready-fd`` (and to standard output).
If that does not come about in time, each problem is printed and the exit status is 1. On leaving, every
fault is taken back, unless ``--keep-faults`` says otherwise. The file ``--fault-file`` informs the next controller of
those that are there still: it goes on with them with ``--keep-faults``, and else takes them back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from controller import fault_file
from controller.errors import ControllerError
from controller.events import Events
from controller.fleet import Fleet
from controller.injector import FaultInjector
from controller.link_events import LinkEvents
from controller.links import FabricLinks
from controller.path_map.service import PathMapService
from controller.rerouting import FleetRerouting
from controller.server import Listening, Server, make_server
from controller.service import ControllerService
from controller.table_changes import TableChanges
from controller.values import EventKind
from mrc_common.open_files import raise_limit
from topologies import loader
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults import FaultState
from topologies.p4_program import P4Program, check_reroutes, fabric_program, saved_program

_PATH = click.Path(path_type=Path)
_STOP_GRACE_S = 0.2
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says."""

    switches: str
    p4_folder: Path | None
    agents: str
    fault_file: Path | None
    keep_faults: bool
    ready_fd: int | None
    ready_timeout: float


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: python -m controller --fabric fabric.yaml --switches unix:/run/sw.sock --socket /run/c.sock",
)
@click.option("--fabric", "fabric_file", required=True, type=_PATH, help="Fabric file (YAML).")
@click.option(
    "--switches",
    required=True,
    help="gRPC address of the switches, unix:PATH or host:port; {name} in it stands for each switch's name.",
)
@click.option(
    "--agents", default="", help="UNIX socket of the hosts' agents; {name} in it stands for each host's name."
)
@click.option("--socket", "socket_path", type=_PATH, help="UNIX socket to serve on.")
@click.option("--listen", "address", default="", help="host:port to serve on as well, or instead.")
@click.option("--token-file", type=_PATH, help="File with the token that clients must present.")
@click.option("--tls-cert", type=_PATH, help="File with the certificate (PEM) for --listen.")
@click.option("--tls-key", type=_PATH, help="File with its private key (PEM).")
@click.option("--keep-faults", is_flag=True, help="Keep faults on exit; resume those in --fault-file.")
@click.option("--fault-file", type=_PATH, help="File in which faults are saved for the next controller.")
@click.option("--ready-fd", type=int, help="Descriptor to write a line to when all switches are verified.")
@click.option("--ready-timeout", default=60.0, show_default=True, help="Seconds to wait for that.")
@click.option("--p4", "p4_folder", type=_PATH, help="Folder with a compiled P4 program. [default: the fabric's own]")
def main(
    fabric_file: Path,
    socket_path: Path | None,
    address: str,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    **rest: object,
) -> None:
    """Program the switches of a fabric over P4Runtime and serve faults, links and status.

    Exit statuses: 0 stopped by a signal, 1 failed (the message says why), 2 wrong arguments.
    """
    if socket_path is None and not address:
        raise click.UsageError("no address to serve at: give --socket PATH, --listen HOST:PORT, or both")
    settings = Settings(**rest)  # type: ignore[arg-type]
    if settings.keep_faults and settings.fault_file is None:
        raise click.UsageError("--keep-faults needs --fault-file, so that somebody can clear them afterwards")
    listening = Listening(socket_path, address, token_file, tls_cert, tls_key)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    try:
        fabric = loader.load_file(fabric_file)
        raise_limit()
        asyncio.run(_serve(fabric, listening, settings))
    except (ControllerError, FabricError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


async def _serve(fabric: Fabric, listening: Listening, settings: Settings) -> None:
    events = Events()
    program = fabric_program() if settings.p4_folder is None else saved_program(settings.p4_folder)
    fleet = Fleet(fabric, settings.switches, program, events=events)
    links = FabricLinks(fabric, fleet.set_delays)
    injector = FaultInjector(fabric, fleet, links, events, changed=lambda: _save(injector, settings))
    tables = TableChanges(fabric, fleet, settings.p4_folder)
    tables.take_over()
    service = ControllerService(
        fabric, fleet, links, events=events, injector=injector, agents=settings.agents, tables=tables
    )
    path_map = PathMapService(fabric, settings.agents)
    server = make_server(listening, service, path_map)
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        await _take_over(fabric, fleet, injector, settings)
        async with _watching(fabric, fleet, events, program), _running(server, fleet, injector, links, settings):
            stop = asyncio.create_task(stopping.wait())
            ready = asyncio.create_task(_report_ready(fleet, server, settings))
            await asyncio.wait((stop, ready), return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                ready.result()
            await stop
    finally:
        await path_map.close()
        await links.close()
        if listening.socket is not None:
            listening.socket.unlink(missing_ok=True)


async def _take_over(fabric: Fabric, fleet: Fleet, injector: FaultInjector, settings: Settings) -> None:
    """Go on with what a controller before this one has left, or take it back."""
    known = fault_file.load(settings.fault_file) if settings.fault_file is not None else []
    over = [] if settings.keep_faults else [replace(record, state=FaultState.CLEARED) for record in known]
    injector.registry.resume_after(over or known)
    left = [record for record in known if record.state is not FaultState.CLEARED]
    if not settings.keep_faults:
        await injector.undo(left)
        _save(injector, settings)
        return
    await injector.resume(left)
    fleet.expect_faults(injector.wanted_entries())


@contextlib.asynccontextmanager
async def _running(
    server: Server, fleet: Fleet, injector: FaultInjector, links: FabricLinks, settings: Settings
) -> AsyncIterator[None]:
    await server.start()
    fleet.start()
    try:
        yield
    finally:
        await server.stop(_STOP_GRACE_S)
        try:
            await injector.close(keep=settings.keep_faults)
        except ControllerError as error:
            print(f"Faults stay: {error}", file=sys.stderr)
        await fleet.stop()


@contextlib.asynccontextmanager
async def _watching(fabric: Fabric, fleet: Fleet, events: Events, program: P4Program) -> AsyncIterator[None]:
    """Publish changes of links, and reroute; before the fleet starts, so that its first routes are right."""
    check_reroutes(fabric, program.tables(), program.name)

    def on_change(link: str, up: bool) -> None:
        events.publish(EventKind.LINK_UP if up else EventKind.LINK_DOWN, link)
        if rerouting is not None:
            rerouting.link_changed(link)

    watch = LinkEvents(fabric, on_change)
    after = fabric.reroute_ns
    rerouting = None if after is None else FleetRerouting(fabric, fleet, events, lambda: watch.lost, after)
    for switch in fleet.kernel.values():
        switch.notify = watch.changed
    watch.start()
    if rerouting is not None:
        fleet.expect_routes(rerouting.begin())
    try:
        yield
    finally:
        watch.stop()
        if rerouting is not None:
            await rerouting.close()


def _save(injector: FaultInjector, settings: Settings) -> None:
    if settings.fault_file is None:
        return
    try:
        fault_file.save(settings.fault_file, injector.registry.to_keep())
    except OSError as error:
        _LOG.error("%s cannot be written: %s", settings.fault_file, error.strerror)


async def _report_ready(fleet: Fleet, server: Server, settings: Settings) -> None:
    if not await fleet.wait_verified(settings.ready_timeout):
        raise ControllerError("\n".join(fleet.status.problems))
    await server.ready()
    count = sum(switch.entries for switch in fleet.status.switches)
    line = f"ready: {len(fleet.status.switches)} switches, {count} entries verified\n"
    print(line, end="", flush=True)
    if settings.ready_fd is not None:
        os.write(settings.ready_fd, line.encode())
        os.close(settings.ready_fd)


if __name__ == "__main__":
    main()
