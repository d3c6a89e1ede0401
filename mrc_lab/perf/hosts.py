"""The agents of a fabric that a performance tool talks to."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from mrc_lab.errors import ExperimentError
from topologies import addressing
from topologies.emulation.run_directory import RunDirectory
from topologies.fabric import Fabric
from topologies.loader import load_file


@dataclass(frozen=True, slots=True)
class AgentSocket:
    """A host and where its agent listens."""

    host: str
    path: Path


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
