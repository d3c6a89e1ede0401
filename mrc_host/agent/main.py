"""The agent's command line: `python -m mrc_host.agent --config nic.json --socket PATH`.

Started as root, the agent opens its ports, sockets, log and trace, then drops its privileges: while it serves it has no
capabilities and may open no file for writing (docs/privileges.md).

Exit statuses: 0 after SIGTERM or SIGINT, 1 for errors with a message, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from mrc_common.c_build.errors import CBuildError
from mrc_common.frame_rings import FrameRingError, RingEnd
from mrc_common.open_files import raise_limit
from mrc_common.privileges import PrivilegeError, drop
from mrc_common.unix_sockets import DEFAULT_GROUP, SocketError, group_id
from mrc_host import plugins
from mrc_host.agent.config_file import load_config
from mrc_host.agent.server import AgentServer
from mrc_host.agent.stop_signals import stopped_by_signals
from mrc_host.config import SPRAYING, NicConfig
from mrc_host.driver import DEFAULT_BURST_NS, DEFAULT_COALESCE_NS, Loop, NicDriver
from mrc_host.driver.nic_claim import NicClaim
from mrc_host.driver.packet_port import PacketSockets
from mrc_host.errors import MrcError
from mrc_host.nic import Nic
from mrc_host.verbs.remote.connection import control_socket

if TYPE_CHECKING:
    from mrc_host.driver.frame_ring import FrameRing

EXAMPLE = "example: ip netns exec h1 python -m mrc_host.agent --config h1.json --socket /run/mrc/demo/h1.sock"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; returns the exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        filename=options.log,
        level=logging.INFO,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(message)s",
        datefmt="%T",
    )
    try:
        run(options)
    except (MrcError, CBuildError, SocketError, PrivilegeError, FrameRingError, OSError) as error:
        logging.getLogger("mrc.agent").error("%s", error)
        print(f"mrc agent: {error}", file=sys.stderr)
        return 1
    except Exception:  # a bug: log it before the process exits and all its clients' objects are lost
        logging.getLogger("mrc.agent").critical("stopped by an internal error", exc_info=True)
        raise
    return 0


def run(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT. Closes everything on the way out, also on errors."""
    raise_limit()
    config = _configured(load_config(options.config), options)
    seed = int.from_bytes(os.urandom(8), "big") if options.seed is None else options.seed
    with ExitStack() as stack:
        loop = Loop()
        stack.callback(loop.close)
        stack.enter_context(stopped_by_signals(loop))
        for plugin in config.settings.transport.plugins:
            plugins.load(plugin)
        stack.callback(NicClaim(port.interface for port in config.ports).close)
        nic = Nic(config, seed=seed, incarnation=time.time_ns())
        sockets = PacketSockets(_rings(options.ring))
        stack.callback(sockets.close)
        driver = NicDriver(
            nic,
            config,
            loop,
            burst_ns=options.burst_us * 1000,
            coalesce_ns=options.coalesce_us * 1000,
            open_port=sockets.open,
        )
        stack.callback(driver.close)
        driver.start()
        server = AgentServer(
            nic,
            loop,
            options.socket,
            control=control_socket(options.socket),
            group=group_id(options.group),
            ports=driver.ports,
            enable_port=driver.enable_port,
            delays=driver.delays,
            measure_delays=driver.measure_delays,
        )
        stack.callback(server.close)
        server.start()
        if options.trace:
            server.trace_to(options.trace)
        if not options.keep_privileges:
            drop(removable=(os.path.dirname(os.path.abspath(options.socket)),))
        # What exists now stays: keep the garbage collector from scanning it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        _announce(f"ready {config.name} {options.socket}", options.ready_fd)
        loop.run()


def _rings(given: Sequence[str]) -> dict[str, FrameRing]:
    """The rings of interfaces, from `INTERFACE=NUMBERS`."""
    if not given:
        return {}
    from mrc_host.driver.frame_ring import FrameRing

    rings = {}
    for text in given:
        interface, _, numbers = text.partition("=")
        end = RingEnd.parse(numbers)
        rings[interface] = FrameRing(end.map(), end.receiving, end.bell, end.other_bell)
    return rings


def _configured(config: NicConfig, options: argparse.Namespace) -> NicConfig:
    """The configuration with the settings that the command line overrides."""
    given = {
        "congestion": options.congestion,
        "rc_congestion": options.rc_congestion,
        "base_rtt": None if options.base_rtt_us is None else options.base_rtt_us * 1000,
        "spraying": options.spraying,
        "path_selection": options.path_selection,
        "plugins": tuple(map(str, options.plugin)) or None,
    }
    settings = config.settings
    transport = replace(settings.transport, **{name: value for name, value in given.items() if value is not None})
    return replace(config, settings=replace(settings, transport=transport))


def _announce(line: str, ready_fd: int | None) -> None:
    if ready_fd is None:
        print(line, flush=True)
        return
    os.write(ready_fd, f"{line}\n".encode())
    os.close(ready_fd)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mrc_host.agent", description=__doc__, epilog=EXAMPLE)
    parser.add_argument("--config", required=True, metavar="FILE", help="the NIC's configuration, JSON")
    parser.add_argument(
        "--socket",
        required=True,
        metavar="PATH",
        help="UNIX socket (NAME.sock) for applications; the controller's is NAME.control.sock",
    )
    parser.add_argument(
        "--group",
        default=DEFAULT_GROUP,
        metavar="NAME",
        help=f"group whose members may use the socket too ('' for none; default: {DEFAULT_GROUP}, if it exists)",
    )
    parser.add_argument(
        "--keep-privileges",
        action="store_true",
        help="keep the privileges of the user who started the agent, for debugging",
    )
    parser.add_argument("--log", metavar="FILE", help="append the log here instead of writing it to stderr")
    parser.add_argument("--trace", metavar="FILE", help="write the NIC's event trace here (docs/trace.md)")
    parser.add_argument("--seed", type=int, help="seed of the NIC's random choices (default: random)")
    parser.add_argument(
        "--burst-us",
        type=int,
        default=DEFAULT_BURST_NS // 1000,
        metavar="US",
        help="how much transmission time a late port may catch up on",
    )
    parser.add_argument(
        "--coalesce-us",
        type=int,
        default=DEFAULT_COALESCE_NS // 1000,
        metavar="US",
        help="how long to collect closely spaced frames before processing them, longer while ports are busy (0: never)",
    )
    parser.add_argument(
        "--ring",
        action="append",
        default=[],
        metavar="IF=N,N,N,N",
        help="inherited descriptors of an interface's shared-memory rings (mrc_common.frame_rings.RingEnd)",
    )
    transport = parser.add_argument_group("overrides of the configuration (docs/congestion.md)")
    transport.add_argument("--congestion", metavar="NAME", help="congestion control of MRC: nscc, fixed or none")
    transport.add_argument("--rc-congestion", metavar="NAME", help="congestion control of RC: dcqcn, fixed or none")
    transport.add_argument("--base-rtt-us", type=int, metavar="US", help="unloaded round-trip time, needed by NSCC")
    transport.add_argument("--spraying", choices=SPRAYING, help="whether paths react to marks and losses")
    transport.add_argument("--path-selection", metavar="NAME", help="path selection of a plugin")
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="Python file with congestion controls or path selections, run as the user who starts the agent",
    )
    parser.add_argument("--ready-fd", type=int, metavar="FD", help="write the ready line to this descriptor")
    return parser
