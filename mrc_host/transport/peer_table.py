"""Every NIC that this one has paths to.

What is kept of one (``Peer``) is made when it is first needed, by a queue pair, a packet or the controller: a NIC of a
large fabric talks to few of those it could talk to. The random numbers that a peer starts with are drawn for all of
them when the NIC is made, so that nothing else that is random depends on which peer is used first.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable

from mrc_host.config import Destination
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.peer import FirstNumbers, Peer
from mrc_host.verbs_types import DestinationInfo


class PeerTable:
    """The peers of one NIC, by address."""

    __slots__ = ("_destinations", "_first_numbers", "_made", "_nic")

    def __init__(self, nic: NicContext, destinations: Iterable[Destination]) -> None:
        self._nic = nic
        self._destinations = {destination.address: destination for destination in destinations}
        self._first_numbers = array("I", [_draw(nic.rng) for _ in self._destinations])  # in their order
        self._made: dict[bytes, Peer] = {}
        nic.slow_ports.when_retired = self._ports_retired

    def get(self, address: bytes) -> Peer | None:
        """The peer with this address; None if there are no paths to any."""
        peer = self._made.get(address)
        return peer if peer is not None else self._make(address)

    def _make(self, address: bytes) -> Peer | None:
        destination = self._destinations.get(address)
        if destination is None:
            return None
        bits = self._first_numbers[list(self._destinations).index(address)]
        peer = self._made[address] = Peer(self._nic, destination, FirstNumbers(bits >> 16, bits & 0xFFFF))
        return peer

    def _ports_retired(self, now: int) -> None:
        for peer in self.made():
            peer.ports_retired(now)

    def made(self) -> list[Peer]:
        """Those that were needed so far, in the order of the NIC's destinations."""
        made = self._made
        if len(made) == len(self._destinations):
            return [made[address] for address in self._destinations]
        return [made[address] for address in self._destinations if address in made]

    def infos(self) -> tuple[DestinationInfo, ...]:
        """All of them, with their paths."""
        return tuple(self._info(address, destination) for address, destination in self._destinations.items())

    def _info(self, address: bytes, destination: Destination) -> DestinationInfo:
        peer = self._made.get(address)
        if peer is not None:
            paths, values = peer.paths, peer.paths.values
            return DestinationInfo(
                destination.name, address, tuple(paths.evs), tuple(paths.plane_of), values.per_path, values.spare_shift
            )
        ports, planes = len(self._nic.config.ports), destination.planes()
        evs = tuple(ev for ev, plane in zip(destination.evs, planes, strict=True) if plane < ports)
        values = EntropyValues.of(self._nic, destination, evs, {})
        used = tuple(plane for plane in planes if plane < ports)
        return DestinationInfo(destination.name, address, evs, used, values.per_path, values.spare_shift)


def _draw(rng: random.Random) -> int:
    """Two numbers of 16 bits, in one of 32."""
    first = rng.getrandbits(16)
    return first << 16 | rng.getrandbits(16)
