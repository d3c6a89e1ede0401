"""Ports of kernel switches: interfaces in a namespace of their own, which is entered for each request.

The namespace is found by the shell of the switch, whose process id is in the run directory.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from controller.errors import ControllerError
from topologies.emulation import namespaces
from topologies.emulation.route_netlink import IFF_UP, RouteSocket
from topologies.emulation.run_directory import RunDirectory
from topologies.fabric import Fabric

T = TypeVar("T")


def inside(fabric: Fabric, switch: str, function: Callable[[], T]) -> T:
    """Run a function in the namespace of a switch; ControllerError if it is gone."""
    shell = RunDirectory(fabric.name).shell(switch)
    if shell is None:
        raise ControllerError(f"Switch {switch} is not on this machine: is the fabric still up?")
    return namespaces.run_inside(shell.pid, function)


def set_interfaces(kernel: RouteSocket, names: Sequence[str], up: bool, absent_ok: bool, where: str) -> None:
    """Take interfaces of this thread's namespace down or up; ControllerError, before any changes, names one not there.

    With `absent_ok` such are passed over.
    """
    indexes = {name: _index(name) for name in names}
    for name, index in indexes.items():
        if index is None and not absent_ok:
            raise ControllerError(f"Interface {name} does not exist {where}: is the fabric still up?")
    for index in indexes.values():
        if index is not None:
            kernel.set_link(index, **{"on" if up else "off": IFF_UP})


def _index(name: str) -> int | None:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return None


def set_up(fabric: Fabric, switch: str, interfaces: Sequence[str], up: bool, absent_ok: bool = False) -> None:
    """Take ports of a switch down or up. ControllerError if one is not there, unless that is all the same."""

    def work() -> None:
        with RouteSocket() as kernel:
            set_interfaces(kernel, interfaces, up, absent_ok, f"in {switch}")

    if absent_ok and RunDirectory(fabric.name).shell(switch) is None:
        return
    inside(fabric, switch, work)


def flags(fabric: Fabric, switch: str) -> Mapping[str, int]:
    """Flags (IFF_*) of the interfaces of a switch, by name; none if it is gone."""

    def work() -> Mapping[str, int]:
        with RouteSocket() as kernel:
            return {link.name or "": link.link_flags for link in kernel.links()}

    if RunDirectory(fabric.name).shell(switch) is None:
        return {}
    return inside(fabric, switch, work)
