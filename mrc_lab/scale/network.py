"""A fabric of two tiers as arrays: where NICs are, and the rate of every link.

Links between NICs and T0s are *access* links, indexed [NIC, plane]; those between T0s and T1s are *uplinks*, indexed
[plane, rack, T1], where a rack is a T0 number. A missing link has rate 0. Both directions are the first index of what
differs by direction: `UP` towards the T1s, `DOWN` towards the NICs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topologies.fabric import Fabric, Link, LinkEnd, LinkKind

UP: Final = 0
DOWN: Final = 1
DIRECTIONS: Final = (UP, DOWN)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Network:
    """`rack` is by NIC, `access` [NIC, plane] and `uplink` [plane, rack, T1] are rates in b/s of either direction."""

    fabric: Fabric
    rack: Integers
    access: Floats
    uplink: Floats

    @classmethod
    def of(cls, fabric: Fabric) -> Network:
        """The arrays of a fabric of two tiers, or of one."""
        rack = np.array([nic.t0 for nic in fabric.nics], dtype=np.int64)
        access = np.zeros((len(fabric.nics), fabric.planes))
        uplink = np.zeros((fabric.planes, fabric.t0_count, fabric.t1_count))
        network = cls(fabric, rack, access, uplink)
        for link in fabric.links:
            kind, place = network.place(link)
            (access if kind is LinkKind.NIC_T0 else uplink)[place] = link.rate_bps
        return network

    @property
    def nics(self) -> int:
        """NICs."""
        return int(self.access.shape[0])

    @property
    def planes(self) -> int:
        """Planes."""
        return int(self.access.shape[1])

    @property
    def racks(self) -> int:
        """T0s of a plane."""
        return int(self.uplink.shape[1])

    @property
    def t1s(self) -> int:
        """T1s of a plane."""
        return int(self.uplink.shape[2])

    def place(self, link: Link) -> tuple[LinkKind, tuple[int, ...]]:
        """The array that a link is in, by its kind, and its index there."""
        if link.kind is LinkKind.NIC_T0:
            return link.kind, (self.fabric.nic(link.lower.node).index, link.plane)
        lower, upper = self.fabric.switch(link.lower.node), self.fabric.switch(link.upper.node)
        return link.kind, (link.plane, lower.index, upper.index)

    def direction(self, end: LinkEnd) -> tuple[LinkKind, tuple[int, ...]]:
        """The same of the direction that leaves `end`: with the direction as the first index."""
        link = self.fabric.link_at(end)
        assert link is not None, "faults name ends of links"
        kind, place = self.place(link)
        return kind, (UP if end == link.lower else DOWN, *place)
