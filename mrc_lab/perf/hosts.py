"""Which NICs of a fabric a tool uses, and how."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from mrc_lab.errors import ExperimentError
from topologies import addressing
from topologies.emulation import namespaces
from topologies.emulation.run_directory import RunDirectory
from topologies.fabric import Fabric
from topologies.loader import load_file


@dataclass(frozen=True, slots=True)
class HostNic:
    """A host, and the socket of its NIC's agent.

    Where a rank runs its host's NIC itself (`mrc up --own-nic`), `path` is the NIC's configuration file, and `enter`
    the words before a command that runs it inside the host.
    """

    host: str
    path: Path
    enter: tuple[str, ...] = ()


def find_nics(run: RunDirectory, hosts: tuple[str, ...] | None) -> tuple[HostNic, ...]:
    """The NICs of `hosts` (None: of all hosts, in the fabric's order); raises `ExperimentError`."""
    names = load_file(run.fabric_file).nic_names
    unknown = [host for host in hosts or () if host not in names]
    if unknown:
        raise ExperimentError(f"Fabric {run.name} has no host {unknown[0]}.", f"Its hosts are {', '.join(names)}.")
    return tuple(_find_nic(run, host) for host in hosts or names)


def _find_nic(run: RunDirectory, host: str) -> HostNic:
    socket = run.host_socket(host)
    if socket.is_socket():
        return HostNic(host, socket)
    shell = run.shell(host)
    if not run.has_started(host) and shell is not None:
        return HostNic(host, run.config_file(host), tuple(namespaces.enter_host(shell.pid)))
    raise ExperimentError(f"The agent of {host} does not run ({socket} is missing).")


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
