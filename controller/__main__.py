"""``python -m controller``: program and verify all switches of a fabric, then serve until told to stop.

When every switch holds what it should, a line is written to the descriptor ``--ready-fd`` (and to standard output).
If that does not come about in time, each problem is printed as a sentence and the exit status is 1.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click
import grpc

from controller.errors import ControllerError
from controller.fleet import Fleet
from controller.links import FabricLinks
from controller.path_map.service import PathMapService
from controller.proto.controller_v1_pb2_grpc import add_ControllerServicer_to_server
from controller.proto.path_map_v1_pb2_grpc import add_PathMapServicer_to_server
from controller.service import ControllerService
from p4src import BUILD
from topologies import loader
from topologies.errors import FabricError
from topologies.fabric import Fabric

_PATH = click.Path(path_type=Path)
_STOP_GRACE_S = 0.2


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--fabric", "fabric_file", required=True, type=_PATH, help="Fabric file (YAML).")
@click.option(
    "--switches",
    required=True,
    help="gRPC address of the switches, unix:PATH or host:port; {name} in it stands for each switch's name.",
)
@click.option(
    "--socket", "socket_path", required=True, type=click.Path(path_type=Path), help="UNIX socket to serve on."
)
@click.option(
    "--agents", default="", help="UNIX socket of the hosts' agents; {name} in it stands for each host's name."
)
@click.option("--ready-fd", type=int, help="Descriptor to write a line to when all switches are verified.")
@click.option("--ready-timeout", default=60.0, show_default=True, help="Seconds to wait for that.")
@click.option("--p4", "p4_build", default=BUILD, show_default=True, type=click.Path(path_type=Path), help="P4 build.")
def main(
    fabric_file: Path,
    switches: str,
    socket_path: Path,
    agents: str,
    ready_fd: int | None,
    ready_timeout: float,
    p4_build: Path,
) -> None:
    """Program the switches of a fabric over P4Runtime and serve faults, links and status on a UNIX socket."""
    try:
        fabric = loader.load_file(fabric_file)
        asyncio.run(_serve(fabric, switches, agents, socket_path, ready_fd, ready_timeout, p4_build))
    except (ControllerError, FabricError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


async def _serve(
    fabric: Fabric,
    switches: str,
    agents: str,
    socket_path: Path,
    ready_fd: int | None,
    ready_timeout: float,
    p4_build: Path,
) -> None:
    fleet = Fleet(fabric, switches, p4info=p4_build / "fabric.p4info.txtpb", p4blob=p4_build / "fabric.json")
    links = FabricLinks(fabric)
    server = grpc.aio.server()
    add_service: Any = add_ControllerServicer_to_server  # generated without types
    add_service(ControllerService(fabric, fleet, links), server)
    path_map = PathMapService(fabric, agents)
    add_map: Any = add_PathMapServicer_to_server
    add_map(path_map, server)
    socket_path.unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{socket_path}")
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await server.start()
    fleet.start()
    try:
        stop = asyncio.create_task(stopping.wait())
        ready = asyncio.create_task(_report_ready(fleet, ready_fd, ready_timeout))
        await asyncio.wait((stop, ready), return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
        await stop
    finally:
        await server.stop(_STOP_GRACE_S)
        await path_map.close()
        await fleet.stop()
        await links.close()
        socket_path.unlink(missing_ok=True)


async def _report_ready(fleet: Fleet, ready_fd: int | None, timeout_s: float) -> None:
    if not await fleet.wait_verified(timeout_s):
        raise ControllerError("\n".join(fleet.status.problems))
    count = sum(switch.entries for switch in fleet.status.switches)
    line = f"ready: {len(fleet.switches)} switches, {count} entries verified\n"
    print(line, end="", flush=True)
    if ready_fd is not None:
        os.write(ready_fd, line.encode())
        os.close(ready_fd)


if __name__ == "__main__":
    main()
