"""A fabric as arrays: where NICs are, the rate of every link, and which links a path crosses.

Links between NICs and T0s are *access* links, indexed [NIC, plane]. Those above are *uplinks* of switches, by tier: of
T0s [plane, rack, T1], where a rack is a T0 number, and of T1s [plane, T1, T2]. Uplinks count from 0 at each switch:
those of a T0 lead to the T1s of its pod, and those of T1 number u of a pod to T2s u * K to u * K + K - 1, the same for
every pod (:class:`~topologies.parts.T2Wiring`, GROUPS). Two tiers are one pod whose T1s have no uplinks. A missing link
has rate 0.

Each uplink has two *directions*, `UP` and `DOWN`, with a number of their own (`Directions`). A path between two racks
is known by where it *turns*: of one pod, by the number of the T1 in it; of two pods, by that of the T2. It crosses a
direction up and one down of each tier below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from topologies.fabric import Fabric, Link, LinkEnd, LinkKind
from topologies.parts import Tier
from topologies.up_down import FabricPath

UP: Final = 0
DOWN: Final = 1
WAYS: Final = (UP, DOWN)
LOWER_TIERS: Final = (Tier.T0, Tier.T1)  # whose switches have uplinks

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
_Number = TypeVar("_Number", int, Integers)


class UplinkDirection(NamedTuple):
    """A direction of uplink number `uplink` of switch number `lower` of a tier."""

    tier: Tier
    way: int
    plane: int
    lower: int
    uplink: int


@dataclass(frozen=True)
class Directions:
    """Numbers of the directions of all uplinks; `shapes` are planes, switches of a plane and uplinks of each, by tier.

    The last number, `none`, is no direction: paths that turn below a tier have it there. What is by number says of it
    that nothing is wrong.
    """

    shapes: tuple[tuple[int, int, int], ...]

    @cached_property
    def _first(self) -> tuple[int, ...]:
        sizes = [len(WAYS) * math.prod(shape) for shape in self.shapes]
        return tuple(sum(sizes[:tier]) for tier in range(len(sizes) + 1))

    @property
    def none(self) -> int:
        """The number of no direction; there are so many others."""
        return self._first[-1]

    def of_tier(self, values: NDArray[Any], tier: Tier) -> NDArray[Any]:
        """What of `values`, by number, is of one tier: a view of it [way, plane, switch, uplink]."""
        return values[self._first[tier] : self._first[tier + 1]].reshape(len(WAYS), *self.shapes[tier])

    def number(self, tier: Tier, way: int, plane: Any, lower: _Number, uplink: Any) -> _Number:
        """The number of a direction, or of several."""
        planes, switches, uplinks = self.shapes[tier]
        found: _Number = self._first[tier] + ((way * planes + plane) * switches + lower) * uplinks + uplink
        return found

    def place(self, number: int) -> UplinkDirection:
        """The direction of a number."""
        tier = Tier.T0 if number < self._first[1] else Tier.T1
        planes, switches, uplinks = self.shapes[tier]
        rest, uplink = divmod(number - self._first[tier], uplinks)
        rest, lower = divmod(rest, switches)
        return UplinkDirection(tier, *divmod(rest, planes), lower, uplink)


@dataclass(frozen=True)
class Network:
    """`rack` is by NIC, `pod` by rack, `access` [NIC, plane] are rates in b/s of either direction.

    `uplinks` are rates in b/s by number of the direction.
    """

    fabric: Fabric
    rack: Integers
    pod: Integers
    access: Floats
    directions: Directions
    uplinks: Floats

    @classmethod
    def of(cls, fabric: Fabric) -> Network:
        """The arrays of a fabric of one to three tiers, whose T2s join T1s in groups."""
        rack = np.array([nic.t0 for nic in fabric.nics], dtype=np.int64)
        pod = np.array([switch.pod for switch in fabric.tier(Tier.T0, 0)], dtype=np.int64)
        group = fabric.t2_count // max(fabric.t1_per_pod, 1)
        directions = Directions(
            ((fabric.planes, fabric.t0_count, fabric.t1_per_pod), (fabric.planes, fabric.t1_count, group))
        )
        uplinks = np.zeros(directions.none + 1)
        uplinks[-1] = np.inf
        network = cls(fabric, rack, pod, np.zeros((len(fabric.nics), fabric.planes)), directions, uplinks)
        by_tier = [directions.of_tier(uplinks, tier) for tier in LOWER_TIERS]
        for link in fabric.links:
            if link.kind is LinkKind.NIC_T0:
                network.access[network.port(link)] = link.rate_bps
            else:
                tier, plane, lower, uplink = network._place(link)
                by_tier[tier][:, plane, lower, uplink] = link.rate_bps
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
        return len(self.pod)

    @property
    def pods(self) -> int:
        """Pods."""
        return int(self.pod[-1]) + 1

    @property
    def t1s(self) -> int:
        """T1s of a pod in a plane, which is uplinks of a T0."""
        return self.directions.shapes[Tier.T0][2]

    @property
    def group(self) -> int:
        """T2s above a T1; 0 with two tiers."""
        return self.directions.shapes[Tier.T1][2]

    def paths_between(self, tier: Tier) -> int:
        """Paths of a plane that turn at a tier, if no link is missing."""
        return (1, self.t1s, self.t1s * self.group)[tier]

    # ---- links ------------------------------------------------------------------------------------------------------

    def port(self, link: Link) -> tuple[int, int]:
        """NIC and plane of an access link."""
        return self.fabric.nic(link.lower.node).index, link.plane

    def number(self, link: Link, end: LinkEnd) -> int:
        """The number of the direction of an uplink that leaves `end`."""
        tier, *place = self._place(link)
        return self.directions.number(tier, way(link, end), *place)

    def _place(self, link: Link) -> tuple[Tier, int, int, int]:
        """Tier, plane, switch and number there of an uplink."""
        lower, upper = self.fabric.switch(link.lower.node), self.fabric.switch(link.upper.node)
        uplinks = self.directions.shapes[lower.tier][2]
        return lower.tier, link.plane, lower.index, upper.index % uplinks

    # ---- paths ------------------------------------------------------------------------------------------------------

    def turning_tier(self, near: Integers, far: Integers) -> Integers:
        """The tier where paths between racks turn."""
        found: Integers = np.where(near == far, Tier.T0, np.where(self.pod[near] == self.pod[far], Tier.T1, Tier.T2))
        return found

    def crossed(self, near: Integers, far: Integers, plane: Any, turn: Integers) -> Integers:
        """Numbers of the directions that paths between different racks cross [path, direction]."""
        if not self.group:
            return np.array(self._crossed_below(near, far, plane, turn)).T
        pods = self.pod[near], self.pod[far]
        over = pods[0] != pods[1]
        t1, uplink = np.where(over, np.divmod(turn, self.group), (turn, np.zeros_like(turn)))
        number, none = self.directions.number, self.directions.none
        above = [
            np.where(over, number(Tier.T1, way, plane, pod * self.t1s + t1, uplink), none)
            for way, pod in zip(WAYS, pods, strict=True)
        ]
        return np.array([*self._crossed_below(near, far, plane, t1), *above]).T

    def _crossed_below(self, near: Integers, far: Integers, plane: Any, t1: Integers) -> tuple[Integers, Integers]:
        """Those of the uplinks of T0s."""
        number = self.directions.number
        return number(Tier.T0, UP, plane, near, t1), number(Tier.T0, DOWN, plane, far, t1)

    def path(self, tier: int, plane: int, turn: int) -> FabricPath:
        """A path between racks that turns at a tier, as the fabric has it."""
        if tier == Tier.T1:
            return FabricPath(plane, Tier.T1, turn)
        t1 = turn // self.group
        return FabricPath(plane, Tier.T2, t1, turn, t1)


def way(link: Link, end: LinkEnd) -> int:
    """The direction of a link that leaves `end`."""
    return UP if end == link.lower else DOWN


def turning_switch(path: FabricPath) -> int:
    """Where a path between different racks turns: the number of the T1 in its pod, or of the T2."""
    return path.t2 if path.turn is Tier.T2 else path.uplink
