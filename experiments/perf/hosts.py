"""Which fabric and which agents a tool talks to.

A tool started inside a host of a fabric knows both: the namespace's cookie is in the records of the run directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from experiments.errors import ExperimentError
from topologies import addressing
from topologies.emulation.namespaces import cookie
from topologies.emulation.rundir import DEFAULT_ROOT, RunDirectory, existing
from topologies.fabric import Fabric
from topologies.loader import load_file

_SHELL = "shell-"  # begins the name of a host's record


@dataclass(frozen=True, slots=True)
class AgentSocket:
    """A host and where its agent listens."""

    host: str
    path: Path


def find_fabric(name: str | None, root: Path = DEFAULT_ROOT) -> RunDirectory:
    """The fabric of that name; without one that of the host we are in, or the only one that is up.

    Raises `ExperimentError`.
    """
    here = this_host(root) if name is None else None
    if here is not None:
        return here[0]
    up = [each for each in existing(root) if RunDirectory(each, root).fabric_file.exists()]
    if name is not None:
        if name not in up:
            raise ExperimentError(f"Fabric {name} is not up.", _hint(up))
        return RunDirectory(name, root)
    if len(up) != 1:
        raise ExperimentError("No fabric is up." if not up else "Several fabrics are up.", _hint(up))
    return RunDirectory(up[0], root)


def find_agents(run: RunDirectory, hosts: tuple[str, ...] | None) -> tuple[AgentSocket, ...]:
    """The agents of `hosts` (None: of all hosts, in the fabric's order); raises `ExperimentError`."""
    names = load_file(run.fabric_file).nic_names
    unknown = [host for host in hosts or () if host not in names]
    if unknown:
        raise ExperimentError(f"Fabric {run.name} has no host {unknown[0]}.", f"Its hosts are {', '.join(names)}.")
    agents = tuple(AgentSocket(host, run.host_socket(host)) for host in hosts or names)
    for agent in agents:
        if not agent.path.is_socket():
            raise ExperimentError(f"The agent of {agent.host} does not run ({agent.path} is missing).")
    return agents


def host_named(fabric: Fabric, word: str) -> str | None:
    """The host that `word` means, by its name or by one of its addresses; None if it means none.

    Mininet's prompt puts an address in the place of every host's name behind the first (``h1 ping h3``).
    """
    if word in fabric.nic_names:
        return word
    try:
        address = IPv6Address(word)
    except ValueError:
        return None
    for nic in fabric.nics:
        kernel = (addressing.kernel_address(fabric, nic, plane) for plane in range(fabric.planes))
        if address in (addressing.nic_address(fabric, nic), *kernel):
            return nic.name
    return None


def this_host(root: Path = DEFAULT_ROOT) -> tuple[RunDirectory, str] | None:
    """The fabric and the host in whose network namespace this process runs, None if it is in no host's."""
    own = cookie()
    for name in existing(root):
        run = RunDirectory(name, root)
        for record in run.records():
            if record.namespace == own and record.alive():
                return run, record.name.removeprefix(_SHELL)
    return None


def _hint(up: list[str]) -> str:
    if not up:
        return "Start one with 'make run' or 'mrc shell' and try again from another terminal."
    return f"Choose one with --fabric: {', '.join(up)}."
