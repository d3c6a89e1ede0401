"""``write_bw`` and ``write_lat`` by hosts' names instead of sockets.

    h3 write_bw             the server, on host h3
    h1 write_bw h3          the client, on host h1
    write_bw h1 h3          both, anywhere on the machine

The tools themselves (`mrc_host.tools`) take the agent's socket and a meeting point. Here a host's name stands for both:
for the agent's socket after -d, which inside a host may be left out, and anywhere else for the point at which that
host's server waits, a socket in the fabric's run directory. With several fabrics up, --fabric chooses one.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence

from mrc_common import children
from mrc_host.tools import write_bw as bandwidth
from mrc_host.tools import write_lat as latency
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric import client_and_server
from mrc_lab.fabric.find_fabric import find_fabric, the_one, this_host
from mrc_lab.perf.hosts import host_named
from topologies.emulation.run_directory import RunDirectory
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.loader import load_file

TOOLS = {"write_bw": bandwidth.main, "write_lat": latency.main}
_DEVICE = ("-d", "--ib-dev")
_PORT = ("-p", "--port")
_HELP = ("-h", "--help")
CANNOT, INTERRUPTED = 3, 130


def translate(tool: str, words: Sequence[str], run: RunDirectory, here: str | None) -> list[str]:
    """Arguments of the tool itself for arguments with hosts' names; `here` is the host we are on, if any."""
    fabric = load_file(run.fabric_file)
    words = list(words)
    _check_device(words, fabric)
    if not set(words).intersection(_DEVICE):
        if here is None:
            raise ExperimentError(
                f"This does not run inside a host: say from where to where, as in '{tool} h1 h3', or whose NIC to use,"
                " as in '-d h1'."
            )
        words = [_DEVICE[0], here, *words]
    result, server, meets = [], None, bool(set(words).intersection(_PORT))
    for before, word in itertools.pairwise(["", *words]):
        host = host_named(fabric, word)
        if before in _DEVICE:
            server = host
            result.append(word if host is None else str(run.host_socket(host)))
        else:
            result.append(word if host is None else client_and_server.meeting_point(tool, run, host))
            meets |= result[-1].startswith("unix:")
    if server is not None and not meets:
        result += [_PORT[0], client_and_server.meeting_point(tool, run, server)]
    return result


def _check_device(words: Sequence[str], fabric: Fabric) -> None:
    """ExperimentError unless what follows -d is a host of the fabric or a path."""
    for flag, device in itertools.pairwise(words):
        if flag in _DEVICE and host_named(fabric, device) is None and "/" not in device:
            raise ExperimentError(
                f"Fabric {fabric.name} has no device {device!r}: give -d one of {', '.join(fabric.nic_names)},"
                " or the socket of a NIC's agent."
            )


def _both_ends(words: Sequence[str], fabric: Fabric) -> tuple[str, str] | None:
    """The two hosts that a command line begins with, if it begins with two names; ExperimentError for others."""
    if len(words) < 2 or any(word.startswith(("-", "unix:")) for word in words[:2]):
        return None
    for word in words[:2]:
        if host_named(fabric, word) is None:
            raise ExperimentError(
                f"Fabric {fabric.name} has no host {word}.", f"Its hosts are {', '.join(fabric.nic_names)}."
            )
    source, destination = (host_named(fabric, word) for word in words[:2])
    assert source is not None
    assert destination is not None
    return source, destination


def run_tool(tool: str, words: Sequence[str]) -> int:
    """One command line; the tool's exit status, or 3 if it could not be started."""
    if set(words).intersection(_HELP):
        return TOOLS[tool](words)
    try:
        name, words = _fabric(words)
        here = this_host() if name is None else None
        run, host = here if here is not None else (find_fabric(name), None)
        ends = _both_ends(words, load_file(run.fabric_file))
        if ends is not None:
            return client_and_server.run_pair(tool, run, *ends, words[2:], _run, _complain)
        arguments = translate(tool, words, run, host)
    except ExperimentError as error:
        print(f"{tool}: {error}", *filter(None, [error.hint]), sep="\n", file=sys.stderr)
        return CANNOT
    except (FabricError, OSError) as error:
        print(f"{tool}: {error}", file=sys.stderr)
        return CANNOT
    except KeyboardInterrupt:
        return INTERRUPTED
    return TOOLS[tool](arguments)


def _run(command: Sequence[str]) -> int:
    return children.run(command).returncode


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


def _fabric(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The fabric after --fabric, if it is there, and the words without it; ExperimentError if there are two."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--fabric", action="append", default=[])
    found, rest = finder.parse_known_args(words)
    return the_one(found.fabric), rest


def write_bw() -> int:
    """Console script."""
    return run_tool("write_bw", sys.argv[1:])


def write_lat() -> int:
    """Console script."""
    return run_tool("write_lat", sys.argv[1:])
