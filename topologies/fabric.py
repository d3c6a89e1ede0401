"""The frozen value that describes a multi-plane Clos fabric: switches, NICs and the links between them.

A fabric has `planes` separate networks of the same shape. In each plane, NICs hang off T0 switches and every T0 has
one uplink to every T1. Each NIC has one port per plane, on the T0 of the same number and the same downlink number
in every plane, so that one destination address serves all planes (docs/protocol.md §5). A single T0 per plane needs
no T1.

The value is checked when it is made: what the uSID plan, the entropy values and the port numbers take for granted
(T0 uplink u goes to T1 number u; T1 port t+1 goes to T0 number t) is verified here once, and nobody checks it
again. Things are named as people write them: switch ``t0-1@p2``, NIC ``h4``, link ``t0-1:t1-3@p2`` (T0 end first)
and ``h4@p1`` (the NIC's port in plane 1 to its T0). Lookups take names, and glob patterns where several things may
be meant.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeVar

from mrc_common.suggestions import did_you_mean
from mrc_host.config import ProtocolSettings
from topologies.errors import FabricError
from topologies.queues import QueueProfile

MAX_PLANES = 8  # three bits of a uSID
MAX_PER_KIND = 1024  # ten bits of a uSID: T0s or T1s per plane, NICs per T0
MAX_PORTS = 509  # v1model ports are 9 bits and count from 1 here; 511 means drop and 510 is the controller's
MAX_NICS = 65535  # 16 bits of a NIC's MAC address
MIN_MTU, MAX_MTU = 1280, 65535
MIN_RATE_BPS, MAX_RATE_BPS = 8_000, 10**12
DEFAULT_MTU = 4500  # a 4096-byte payload, 146 bytes of headers, and room
DEFAULT_USID_BLOCK = 0xFC00_0000
DEFAULT_ADDRESS_PREFIX = 0xFD00_006D_7263  # the first 48 bits of every NIC and kernel address

_Named = TypeVar("_Named")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_GLOB = re.compile(r"[*?[]")


class Tier(enum.IntEnum):
    """Level of a switch: T0 faces the NICs, T1 joins the T0s."""

    T0 = 0
    T1 = 1


class LinkKind(enum.Enum):
    """What a link joins."""

    NIC_T0 = "nic-t0"
    T0_T1 = "t0-t1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a link: a switch or NIC by name, and its port (switches count from 1, a NIC's port is its plane)."""

    node: str
    port: int


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch: number `index` of its tier in its plane. `device_id` is its P4Runtime device, unique in the fabric."""

    name: str
    tier: Tier
    plane: int
    index: int
    device_id: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Nic:
    """A host's NIC, number `index` of the fabric, on downlink `downlink` of T0 number `t0` in every plane."""

    name: str
    index: int
    t0: int
    downlink: int


@dataclass(frozen=True, slots=True)
class Link:
    """A link of one plane. `lower` is the NIC's end, or the T0's end of a T0-T1 link; `rate_bps` is per direction."""

    name: str
    kind: LinkKind
    plane: int
    lower: Endpoint
    upper: Endpoint
    rate_bps: int

    @property
    def t0_end(self) -> Endpoint:
        """The end at the T0 switch; every link has one."""
        return self.upper if self.kind is LinkKind.NIC_T0 else self.lower


@dataclass(frozen=True, slots=True)
class Fabric:
    """The whole fabric. Raises :class:`FabricError` with one sentence when it is not a multi-plane Clos as above.

    `usid_block` is the 32-bit locator block of every uSID, `address_prefix` the first 48 bits of NIC addresses, `mtu`
    that of every link in bytes, `settings` the protocol choices that switches (DSCP) and NICs must agree on, `queues`
    when switches mark, trim and drop.
    """

    name: str
    planes: int
    switches: tuple[Switch, ...]
    nics: tuple[Nic, ...]
    links: tuple[Link, ...]
    mtu: int = DEFAULT_MTU
    usid_block: int = DEFAULT_USID_BLOCK
    address_prefix: int = DEFAULT_ADDRESS_PREFIX
    settings: ProtocolSettings = field(default_factory=ProtocolSettings)
    queues: QueueProfile = field(default_factory=QueueProfile)
    _switches: dict[str, Switch] = field(init=False, repr=False, compare=False)
    _nics: dict[str, Nic] = field(init=False, repr=False, compare=False)
    _links: dict[str, Link] = field(init=False, repr=False, compare=False)
    _at: dict[Endpoint, Link] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the indexes and check the value."""
        object.__setattr__(self, "_switches", {switch.name: switch for switch in self.switches})
        object.__setattr__(self, "_nics", {nic.name: nic for nic in self.nics})
        object.__setattr__(self, "_links", {link.name: link for link in self.links})
        object.__setattr__(self, "_at", {end: link for link in self.links for end in (link.lower, link.upper)})
        _check(self)

    # Sizes

    @property
    def t0_count(self) -> int:
        """T0 switches per plane."""
        return sum(1 for switch in self.tier(Tier.T0, 0))

    @property
    def t1_count(self) -> int:
        """T1 switches per plane; also the uplinks of each T0."""
        return sum(1 for switch in self.tier(Tier.T1, 0))

    @property
    def nics_per_t0(self) -> int:
        """Downlinks of each T0."""
        return len(self.nics) // self.t0_count

    # Lookups

    def tier(self, tier: Tier, plane: int) -> Iterator[Switch]:
        """Switches of one tier of one plane, by number."""
        return (switch for switch in self.switches if switch.tier is tier and switch.plane == plane)

    def nics_of(self, t0: int) -> Iterator[Nic]:
        """NICs below T0 number `t0`, by downlink."""
        return (nic for nic in self.nics if nic.t0 == t0)

    def switch(self, name: str) -> Switch:
        """The switch of that name; FabricError if there is none."""
        return _lookup(self._switches, name, "switch", self.name)

    def nic(self, name: str) -> Nic:
        """The NIC of that name; FabricError if there is none."""
        return _lookup(self._nics, name, "NIC", self.name)

    def link(self, name: str) -> Link:
        """The link of that name, ends in either order; FabricError if there is none."""
        return _lookup(self._links, _lower_end_first(name), "link", self.name)

    @property
    def nic_names(self) -> Collection[str]:
        """Names of all NICs."""
        return self._nics.keys()

    def link_at(self, end: Endpoint) -> Link | None:
        """The link plugged into a port."""
        return self._at.get(end)

    def peer(self, end: Endpoint) -> Endpoint | None:
        """The other end of the link plugged into a port."""
        link = self._at.get(end)
        if link is None:
            return None
        return link.upper if end == link.lower else link.lower

    def links_of(self, node: str) -> Iterator[Link]:
        """Every link of a switch or NIC."""
        return (link for link in self.links if node in (link.lower.node, link.upper.node))

    def find_links(self, pattern: str) -> tuple[Link, ...]:
        """Links whose name matches a glob pattern such as ``t0-0:t1-*@p1`` or ``h*@p0``; FabricError if none does."""
        found = tuple(_matching(self._links, _lower_end_first(pattern)))
        return found or (_lookup(self._links, _lower_end_first(pattern), "link", self.name, patterns=True),)

    def find_switches(self, pattern: str) -> tuple[Switch, ...]:
        """Switches whose name matches a glob pattern such as ``t1-*@p0``; FabricError if none does."""
        found = tuple(_matching(self._switches, pattern))
        return found or (_lookup(self._switches, pattern, "switch", self.name, patterns=True),)


def _lower_end_first(name: str) -> str:
    """Write a T0-T1 link's name with the T0 first, whichever way round the user gave it."""
    ends, at, plane = name.partition("@")
    left, colon, right = ends.partition(":")
    if colon and left.startswith("t1-") and right.startswith("t0-"):
        left, right = right, left
    return f"{left}{colon}{right}{at}{plane}"


def _matching(named: dict[str, _Named], pattern: str) -> Iterator[_Named]:
    return (thing for name, thing in named.items() if fnmatchcase(name, pattern))


def _lookup(named: dict[str, _Named], name: str, kind: str, fabric: str, *, patterns: bool = False) -> _Named:
    if name in named:
        return named[name]
    example = next(iter(named), "")
    if not patterns and _GLOB.search(name):
        raise FabricError(f"{name!r} is a pattern, and here one {kind} is meant: write its name, as in {example}")
    hint = did_you_mean(name, named) or (f"names are as in {example}" if example else "there is none")
    raise FabricError(f"fabric {fabric} has no {kind} that matches {name!r}: {hint}")


# Checks


def _check(fabric: Fabric) -> None:
    _check_scalars(fabric)
    _check_unique("switch", (switch.name for switch in fabric.switches))
    _check_unique("device id", (switch.device_id for switch in fabric.switches))
    _check_unique("NIC", (nic.name for nic in fabric.nics))
    _check_unique("link", (link.name for link in fabric.links))
    _check_switches(fabric)
    _check_nics(fabric)
    _check_links(fabric)


def _check_scalars(fabric: Fabric) -> None:
    if not _NAME.fullmatch(fabric.name):
        raise FabricError(
            f"fabric name {fabric.name!r} must be 1 to 32 lower-case letters, digits or hyphens and begin with a letter"
        )
    _check_range("planes", fabric.planes, 1, MAX_PLANES)
    _check_range("mtu", fabric.mtu, MIN_MTU, MAX_MTU)
    _check_range("usid_block", fabric.usid_block, 0, 0xFFFF_FFFF)
    _check_range("address_prefix", fabric.address_prefix, 0, 0xFFFF_FFFF_FFFF)


def _check_range(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise FabricError(f"{what} is {value}, but must be between {low} and {high}")


def _check_unique(what: str, names: Iterable[object]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise FabricError(f"{what} {name} appears {count} times; every {what} must appear once")


def _check_switches(fabric: Fabric) -> None:
    for tier in Tier:
        numbers = [sorted(switch.index for switch in fabric.tier(tier, plane)) for plane in range(fabric.planes)]
        count = len(numbers[0])
        _check_range(f"number of {tier.name}s per plane", count, 1 if tier is Tier.T0 else 0, MAX_PER_KIND)
        for plane, found in enumerate(numbers):
            if found != list(range(count)):
                raise FabricError(
                    f"plane {plane} must have the {tier.name}s 0 to {count - 1} as plane 0 has, but has {found}"
                )
    if fabric.t0_count > 1 and fabric.t1_count == 0:
        raise FabricError(f"{fabric.t0_count} T0s per plane need at least one T1 to join them: give t1, or one T0")
    for switch in fabric.switches:
        expected = f"{switch.tier.name.lower()}-{switch.index}@p{switch.plane}"
        if switch.name != expected:
            raise FabricError(f"switch {switch.name!r} must be called {expected}")
        if not 0 <= switch.plane < fabric.planes:
            raise FabricError(f"switch {switch.name} is in a plane that does not exist: there are {fabric.planes}")
        if not 1 <= switch.device_id < 1 << 63:
            raise FabricError(f"switch {switch.name} needs a device id from 1 on, not {switch.device_id}")
        if switch.ports != tuple(range(1, len(switch.ports) + 1)):
            raise FabricError(f"ports of switch {switch.name} must be numbered from 1 without a gap")
        if len(switch.ports) > MAX_PORTS:
            raise FabricError(
                f"switch {switch.name} has {len(switch.ports)} ports, but a P4 switch has {MAX_PORTS} at most:"
                " use more T0s, fewer T1s or fewer hosts"
            )


def _check_nics(fabric: Fabric) -> None:
    _check_range("number of hosts", len(fabric.nics), 1, MAX_NICS)
    t0_count = fabric.t0_count
    if len(fabric.nics) % t0_count:
        raise FabricError(
            f"{len(fabric.nics)} hosts cannot be spread evenly over {t0_count} T0 groups: give a multiple of {t0_count}"
        )
    for index, nic in enumerate(fabric.nics):
        if nic.index != index:
            raise FabricError(f"NIC {nic.name} is number {index} of the fabric, but says {nic.index}")
        if (nic.t0, nic.downlink) != divmod(index, fabric.nics_per_t0):
            raise FabricError(
                f"NIC {nic.name} must be on T0 {index // fabric.nics_per_t0} downlink {index % fabric.nics_per_t0}:"
                " hosts fill one T0 group after the other"
            )


def _check_links(fabric: Fabric) -> None:
    expected = _expected_links(fabric)
    for link in fabric.links:
        if not MIN_RATE_BPS <= link.rate_bps <= MAX_RATE_BPS:
            raise FabricError(
                f"rate of link {link.name} is {link.rate_bps} b/s, but must be between {MIN_RATE_BPS}"
                f" and {MAX_RATE_BPS}"
            )
        if expected.pop(link.name, None) != (link.kind, link.plane, link.lower, link.upper):
            raise FabricError(f"link {link.name} does not belong into a Clos of these switches, or ends at wrong ports")
    if expected:
        raise FabricError(f"link {next(iter(expected))} is missing: in every plane each T0 has one link to each T1")
    counts = Counter(end.node for link in fabric.links for end in (link.lower, link.upper))
    for switch in fabric.switches:
        if counts[switch.name] != len(switch.ports):
            raise FabricError(
                f"switch {switch.name} has {len(switch.ports)} ports, but {counts[switch.name]} links end there"
            )


def _expected_links(fabric: Fabric) -> dict[str, tuple[LinkKind, int, Endpoint, Endpoint]]:
    """Every link that a Clos of these switches and NICs has: name -> kind, plane, ends."""
    found: dict[str, tuple[LinkKind, int, Endpoint, Endpoint]] = {}
    downlinks = fabric.nics_per_t0
    for plane in range(fabric.planes):
        for nic in fabric.nics:
            t0 = Endpoint(f"t0-{nic.t0}@p{plane}", nic.downlink + 1)
            found[f"{nic.name}@p{plane}"] = LinkKind.NIC_T0, plane, Endpoint(nic.name, plane), t0
        for t in range(fabric.t0_count):
            for u in range(fabric.t1_count):
                lower = Endpoint(f"t0-{t}@p{plane}", downlinks + 1 + u)
                upper = Endpoint(f"t1-{u}@p{plane}", t + 1)
                found[f"t0-{t}:t1-{u}@p{plane}"] = LinkKind.T0_T1, plane, lower, upper
    return found
