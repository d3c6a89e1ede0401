"""Values that the path map reports, the same on both sides of the service."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ElementKind(enum.Enum):
    """What kind of element is faulty."""

    NIC_T0 = "nic-t0"  # a NIC's link, its port and transceiver included
    T0_T1 = "t0-t1"
    T1_T2 = "t1-t2"
    SWITCH = "switch"
    PATH = "path"


class Direction(enum.Enum):
    """Which way packets are lost on a link: up is away from the NICs."""

    BOTH = "both"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class SuspectedFault:
    """A suspected fault, since `since_ns`: `loss` is the share of packets lost at it in the directions named.

    `confidence` (0 to 1) is the probability that it is this one rather than a rival; `rivals` names those that the
    probes hardly distinguish from it. `direction` is None where it is unclear.
    """

    part: ElementKind
    name: str
    plane: int
    direction: Direction | None
    loss: float
    confidence: float
    since_ns: int
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """Probes over a link in the last seconds, and how many of these were lost, wherever on their way."""

    name: str
    sent: int
    lost: int


@dataclass(frozen=True, slots=True)
class SlowPort:
    """MRC waits for a NIC's port `name`, as it is slower than its others (`own`), or for `peers` NICs in its plane."""

    name: str
    own: bool
    peers: int


@dataclass(frozen=True, slots=True)
class MapState:
    """The map now: `seconds` since mapping began, suspected faults (`since_ns` on the same scale), links' health.

    `unreachable` are hosts whose agents do not answer. `feeding` is whether the hosts deny paths over suspected faults,
    `denied` how many entropy values are denied for that reason, over all pairs of hosts. `slow_ports` are those that
    traffic found to be slower than the others.
    """

    running: bool
    rate: float = 0.0
    round_seconds: float = 0.0
    seconds: float = 0.0
    suspected: tuple[SuspectedFault, ...] = ()
    links: tuple[LinkHealth, ...] = ()
    unreachable: tuple[str, ...] = ()
    feeding: bool = False
    denied: int = 0
    slow_ports: tuple[SlowPort, ...] = ()
