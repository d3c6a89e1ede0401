"""``mrc_ping`` by hosts' names instead of sockets, and with the switches that each path goes over.

    mrc_ping h1 h3          anywhere
    h1 mrc_ping h3          inside host h1

The tool itself is `mrc_host.tools.mrc_ping`; what it does not know, where agents listen and what an entropy value means
in this fabric, is found here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mrc_host.errors import MrcError
from mrc_host.tools import mrc_ping as tool
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.find_fabric import find_fabric, the_one, this_host
from mrc_lab.perf.hosts import host_named
from topologies.addressing import path_ev
from topologies.emulation.run_directory import RunDirectory
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.loader import load_file
from topologies.up_down import nodes

NAME = "mrc_ping"


def switches_by_path(fabric: Fabric, source: str, destination: str) -> dict[int, tuple[str, ...]]:
    """By entropy value, the switches of each path between two hosts, in order."""
    near, far = fabric.nic(source), fabric.nic(destination)
    return {path_ev(path): nodes(fabric, near, far, path) for path in fabric.paths(near, far)}


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = tool.parser(NAME)
    flags.add_argument(
        "--fabric",
        action="append",
        default=[],
        help="name or .yaml file of the fabric (default: that of this host, or the only one that is up)",
    )
    return flags


def run(words: Sequence[str]) -> int:
    """One command line; the exit status, which is ping's 2 when nothing could be tried."""
    flags = parser()
    options = flags.parse_intermixed_args(words)
    if len(options.hosts) > 2:
        flags.error("say one destination, and before it perhaps where to ping from")
    try:
        return _ping(options)
    except ExperimentError as error:
        print(f"{NAME}: {error}", *filter(None, [error.hint]), sep="\n", file=sys.stderr)
    except (FabricError, MrcError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
    return tool.CANNOT


def _ping(options: argparse.Namespace) -> int:
    def echo(text: str) -> None:
        print(text, flush=True)

    *source, destination = options.hosts
    if options.ib_dev and "/" in options.ib_dev:  # a socket: it need not be of a fabric of ours
        return tool.ping(options, options.ib_dev, destination, echo)
    fabric_name = the_one(options.fabric)
    here = this_host() if fabric_name is None else None
    run, host = here if here is not None else (find_fabric(fabric_name), None)
    fabric = load_file(run.fabric_file)
    near = _host(run, fabric, source[0] if source else options.ib_dev or host)
    far = _host(run, fabric, destination)
    if near == far:
        raise ExperimentError(f"{near} cannot ping itself.", f"Its hosts are {', '.join(fabric.nic_names)}.")
    return tool.ping(options, str(run.host_socket(near)), far, echo, switches_by_path(fabric, near, far))


def _host(run: RunDirectory, fabric: Fabric, word: str | None) -> str:
    if word is None:
        raise ExperimentError("Say from where to where, as in: mrc_ping h1 h3 (this does not run inside a host).")
    found = host_named(fabric, word)
    if found is None:
        raise ExperimentError(f"Fabric {run.name} has no host {word}.", f"Its hosts are {', '.join(fabric.nic_names)}.")
    return found


def main() -> int:
    """Console script."""
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
