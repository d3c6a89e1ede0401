"""The paths to one peer: which there are, on which plane each lies, and which of them a controller has denied.

A path is numbered by its place in the list of the fabric's entropy values. All queue pairs to the peer share the
numbers. Switches that hash take any value for a path, so queue pairs may add further ones there (``profiles``).
"""

from __future__ import annotations

from mrc_host.config import Destination, EvFormat
from mrc_host.transport.denylist import Denylist
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.transport.nic_context import NicContext


class PeerPaths:
    """`evs` and `plane_of` are by path, `members` are the paths by plane, `planes` is the mask of planes with paths."""

    __slots__ = ("_destination", "_nic", "denied", "evs", "index_of", "members", "plane_of", "planes", "values")

    def __init__(self, nic: NicContext, destination: Destination) -> None:
        self._nic = nic
        self._destination = destination
        ports = len(nic.config.ports)
        planes = destination.planes()
        self.evs = [ev for ev, plane in zip(destination.evs, planes, strict=True) if plane < ports]
        self.plane_of = bytes([plane for plane in planes if plane < ports])
        self.index_of = {ev: index for index, ev in enumerate(self.evs)}
        self.members: list[list[int]] = [[] for _ in range(ports)]
        for index, plane in enumerate(self.plane_of):
            self.members[plane].append(index)
        self.planes = sum([1 << plane for plane, members in enumerate(self.members) if members])
        self.denied = Denylist(ports)
        self.values = EntropyValues.of(nic, destination, self.evs, self.index_of)

    def add(self, ev: int) -> int:
        """Add a path with a new entropy value; -1 where values are fixed (SRv6), or if it is in no plane of ours."""
        plane = self._destination.template.plane(ev)
        widest = 16 if self._nic.settings.ev_format is EvFormat.UDP else 32
        if self._nic.srv6 or plane >= len(self.members) or ev >> widest:
            return -1
        index = len(self.evs)
        self.evs.append(ev)
        self.plane_of += bytes([plane])
        self.index_of[ev] = index
        self.members[plane].append(index)
        self.planes |= 1 << plane
        return index

    def allowed(self, planes: int) -> int:
        """The planes in mask `planes` with a path that is not denied."""
        return self.denied.open(planes, self.members)
