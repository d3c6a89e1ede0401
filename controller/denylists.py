"""Paths that hosts may not use: read and set through the controller's side of each host's NIC (docs/verbs.md).

Agents are asked one after the other in a thread, since their connections block.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from controller.errors import ControllerError, NoAgentsError
from controller.values import AGENT_TIMEOUT_S, HostDeniedPath
from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.verbs_types import DestinationInfo
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.name_patterns import matches

T = TypeVar("T")


_ADDRESS = re.compile("[0-9a-f]{32}")  # of a NIC that is not of the fabric, as `read` returns it


class Denylists:
    """The denylists of a fabric's hosts. `sockets` is the path of an agent's socket, with ``{name}`` for its host."""

    def __init__(self, fabric: Fabric, sockets: str) -> None:
        self._fabric = fabric
        self._sockets = sockets

    async def read(self, pattern: str) -> list[HostDeniedPath]:
        """Everything that hosts that match (empty: all) may not use. ControllerError when an agent does not answer."""
        return await asyncio.to_thread(lambda: list(self._each(pattern, _denied)))

    async def set(self, pattern: str, peers: str, evs: Collection[int], *, denied: bool) -> list[HostDeniedPath]:
        """Forbid paths, or allow them again (all that are denied, without `evs`); returns those that were set."""
        if denied and not evs:
            raise FabricError("the request names no entropy value to deny")
        if peers and (denied or not _ADDRESS.fullmatch(peers)):  # what is denied may be a NIC of no name
            self._fabric.find_nics(peers)

        def change(name: str, nic: verbs.Controller) -> Iterator[HostDeniedPath]:
            if evs:
                chosen = list(self._chosen(name, nic, peers, evs))
            else:
                chosen = [path for path in _denied(name, nic) if matches(path.peer, peers or "*")]
            known = {destination.name: destination.address for destination in nic.destinations()}
            for path in chosen:
                address = known[path.peer] if path.peer in known else bytes.fromhex(path.peer)  # as _denied returns it
                (nic.deny if denied else nic.allow)(address, path.ev)
                yield path

        found = await asyncio.to_thread(lambda: list(self._each(pattern, change)))
        if evs and not found:
            shown = ", ".join(f"{ev:#x}" for ev in sorted(evs))
            raise FabricError(f"no path from {pattern or '*'!r} to {peers or '*'!r} has the entropy value {shown}")
        return found

    def _chosen(self, name: str, nic: verbs.Controller, peers: str, evs: Collection[int]) -> Iterator[HostDeniedPath]:
        for destination in nic.destinations():
            if destination.name != name and matches(destination.name, peers or "*"):
                yield from (HostDeniedPath(name, destination.name, ev) for ev in destination.evs if ev in evs)

    def _each(self, pattern: str, ask: Callable[[str, verbs.Controller], Iterator[T]]) -> Iterator[T]:
        names = [nic.name for nic in self._fabric.find_nics(pattern or "*")]
        if not self._sockets:
            raise NoAgentsError
        for name in names:
            socket = self._sockets.format(name=name)
            with _errors_named(name), verbs.open_controller(socket, timeout_s=AGENT_TIMEOUT_S) as nic:
                yield from ask(name, nic)


@contextmanager
def _errors_named(name: str) -> Iterator[None]:
    try:
        yield
    except (MrcError, OSError) as error:
        raise ControllerError(f"The agent of {name} cannot be asked: {error}") from None


def _denied(name: str, nic: verbs.Controller) -> Iterator[HostDeniedPath]:
    names: dict[bytes, DestinationInfo] = {destination.address: destination for destination in nic.destinations()}
    for path in nic.denied():
        yield HostDeniedPath(name, names[path.peer].name if path.peer in names else path.peer.hex(), path.ev)
