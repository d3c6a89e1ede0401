"""Parts of a fabric: switches, NICs, the links between them, and the positions where links may be.

Things are named as people write them: switch ``t0-1@p2``, NIC ``h4``, link ``t0-1:t1-3@p2`` (lower end first) and
``h4@p1`` (the NIC's port in plane 1 to its T0).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Tier(enum.IntEnum):
    """Level of a switch: T0 faces the NICs, T1 joins the T0s of a pod, T2 joins the pods."""

    T0 = 0
    T1 = 1
    T2 = 2


class LinkKind(enum.Enum):
    """What a link joins, the lower end first."""

    NIC_T0 = "nic-t0"
    T0_T1 = "t0-t1"
    T1_T2 = "t1-t2"


class T2Wiring(enum.Enum):
    """Which T1s a T2 joins.

    GROUPS: the T1s of the same number in every pod, as in a fat tree; the T2s are divided evenly over these numbers.
    MESH: every T1.
    """

    GROUPS = "groups"
    MESH = "mesh"


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of a link: a switch or NIC by name, and its port (switches count from 1, a NIC's port is its plane)."""

    node: str
    port: int


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch: number `index` of its tier in its plane. `device_id` is its P4Runtime device, unique in the fabric.

    `pod` is that of a T0 or T1; a T2 belongs to none and has 0. `ports` are those with a link. A `kernel` switch does
    not run the P4 program: Linux forwards with its own SRv6, which neither trims nor marks and has one queue a port.
    """

    name: str
    tier: Tier
    plane: int
    index: int
    device_id: int
    ports: tuple[int, ...]
    pod: int = 0
    kernel: bool = False

    @property
    def short_name(self) -> str:
        """Its name within its plane: ``t0-1``."""
        return self.name.partition("@")[0]


@dataclass(frozen=True, slots=True)
class FabricNic:
    """A host's NIC, number `index` of the fabric, on downlink `downlink` of T0 number `t0` in every plane."""

    name: str
    index: int
    t0: int
    downlink: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link of one plane. `lower` is the end nearer to the NICs; `rate_bps` is per direction.

    `delay_ns` is its propagation delay; None: what the backend takes for links that do not say.
    """

    name: str
    kind: LinkKind
    plane: int
    lower: LinkEnd
    upper: LinkEnd
    rate_bps: int
    delay_ns: int | None = None

    @property
    def switch_end(self) -> LinkEnd:
        """The lowest end at a switch; every link has one."""
        return self.upper if self.kind is LinkKind.NIC_T0 else self.lower

    @property
    def switch_ends(self) -> tuple[LinkEnd, ...]:
        """Its ends at switches, the lowest first."""
        return (self.upper,) if self.kind is LinkKind.NIC_T0 else (self.lower, self.upper)
