"""The frozen value that describes a multi-plane Clos fabric: switches, NICs and the links between them.

A fabric has `planes` separate networks of the same switches. In each plane, NICs hang off T0 switches, and every T0 has
one uplink to every T1 of its pod. Two tiers are a single pod; with three tiers, T2s join the T1s of several pods
(:class:`~topologies.parts.T2Wiring`). Each NIC has one port per plane, on the T0 of the same number and the same
downlink number in every plane, so that one destination address serves all planes (docs/protocol.md §5). A single T0
per plane needs no T1.

Racks may differ in size, links in rate and delay, and any link may be missing (docs/fabrics.md), as long as every pair
of hosts has a path up and down again in some plane. What the uSID plan, the entropy values and the port numbers take
for granted (``wiring``) is verified when the value is made (``fabric_checks``), and nobody checks it again. Lookups
take names, and patterns (``name_patterns``) where several things may be meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from mrc_common.suggestions import did_you_mean
from mrc_common.units import counted
from mrc_host.config import ProtocolSettings
from topologies import fabric_checks, up_down
from topologies.errors import FabricError
from topologies.name_patterns import is_pattern, numbers_hint, select
from topologies.parts import FabricNic, Link, LinkEnd, LinkKind, Switch, T2Wiring, Tier
from topologies.queues import QueueProfile
from topologies.up_down import FabricPath

__all__ = ["Fabric", "FabricNic", "Link", "LinkEnd", "LinkKind", "Switch", "T2Wiring", "Tier"]

MOST_DRAWN = 10_000  # links of a fabric of which a picture is of any use
DEFAULT_MTU = 4500  # a 4096-byte payload, 146 bytes of headers, and room
DEFAULT_USID_BLOCK = 0xFC00_0000
DEFAULT_ADDRESS_PREFIX = 0xFD00_006D_7263  # the first 48 bits of every NIC and kernel address

_Named = TypeVar("_Named")
_Derived = TypeVar("_Derived")


@dataclass(frozen=True, slots=True)
class Fabric:
    """The whole fabric. Raises :class:`FabricError` when it is not a multi-plane Clos as above.

    `usid_block` is the 32-bit locator block of every uSID, `address_prefix` the first 48 bits of NIC addresses, `mtu`
    that of every link in bytes, `settings` the protocol choices that switches (DSCP) and NICs must agree on, `queues`
    when switches mark, trim and drop, `wiring` which T1s a T2 joins. `reroute_ns` after a link has lost its carrier, or
    has it back, the switches of its plane route plain IPv6 by the links that are up then (None: they never do). One
    without `packets` may be larger than P4 switches and MAC addresses allow: only states are computed of it.
    """

    name: str
    planes: int
    switches: tuple[Switch, ...]
    nics: tuple[FabricNic, ...]
    links: tuple[Link, ...]
    mtu: int = DEFAULT_MTU
    usid_block: int = DEFAULT_USID_BLOCK
    address_prefix: int = DEFAULT_ADDRESS_PREFIX
    settings: ProtocolSettings = field(default_factory=ProtocolSettings)
    queues: QueueProfile = field(default_factory=QueueProfile)
    wiring: T2Wiring = T2Wiring.GROUPS
    reroute_ns: int | None = None
    packets: bool = True
    _switches: dict[str, Switch] = field(init=False, repr=False, compare=False)
    _nics: dict[str, FabricNic] = field(init=False, repr=False, compare=False)
    _links: dict[str, Link] = field(init=False, repr=False, compare=False)
    _at: dict[LinkEnd, Link] = field(init=False, repr=False, compare=False)
    _tiers: dict[tuple[Tier, int], tuple[Switch, ...]] = field(init=False, repr=False, compare=False)
    _racks: dict[int, tuple[FabricNic, ...]] = field(init=False, repr=False, compare=False)
    _uplinks: dict[str, dict[int, Link]] = field(init=False, repr=False, compare=False)
    _by_node: dict[str, list[Link]] = field(init=False, repr=False, compare=False)
    _planes: dict[str, tuple[int, ...]] = field(init=False, repr=False, compare=False)  # with a link, of each NIC
    _pods: int = field(init=False, repr=False, compare=False)
    _derived: dict[object, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Build the indexes and check the value."""
        object.__setattr__(self, "_switches", {switch.name: switch for switch in self.switches})
        object.__setattr__(self, "_nics", {nic.name: nic for nic in self.nics})
        object.__setattr__(self, "_links", {link.name: link for link in self.links})
        object.__setattr__(self, "_at", {end: link for link in self.links for end in (link.lower, link.upper)})
        tiers: dict[tuple[Tier, int], list[Switch]] = {}
        for switch in self.switches:
            tiers.setdefault((switch.tier, switch.plane), []).append(switch)
        object.__setattr__(self, "_tiers", {key: tuple(found) for key, found in tiers.items()})
        everywhere = range(self.planes)
        planes = {nic.name: tuple(plane for plane in everywhere if self.nic_link(nic, plane)) for nic in self.nics}
        object.__setattr__(self, "_planes", planes)
        racks: dict[int, list[FabricNic]] = {}
        for nic in self.nics:
            racks.setdefault(nic.t0, []).append(nic)
        object.__setattr__(self, "_racks", {t0: tuple(found) for t0, found in racks.items()})
        object.__setattr__(self, "_pods", 1 + max((switch.pod for switch in self.tier(Tier.T0, 0)), default=0))
        complete = fabric_checks.check_parts(self)
        uplinks: dict[str, dict[int, Link]] = {switch.name: {} for switch in self.switches}
        by_node: dict[str, list[Link]] = {}
        for link in self.links:
            if link.kind is not LinkKind.NIC_T0:
                uplinks[link.lower.node][self._switches[link.upper.node].index] = link
            for end in (link.lower, link.upper):
                by_node.setdefault(end.node, []).append(link)
        object.__setattr__(self, "_uplinks", uplinks)
        object.__setattr__(self, "_by_node", by_node)
        if not complete:
            fabric_checks.check_paths(self)

    # Sizes

    @property
    def pods(self) -> int:
        """Pods: groups of T0s that share T1s. A fabric of two tiers is one."""
        return self._pods

    @property
    def t0_count(self) -> int:
        """T0 switches per plane."""
        return len(self._tiers.get((Tier.T0, 0), ()))

    @property
    def t1_count(self) -> int:
        """T1 switches per plane, in all pods."""
        return len(self._tiers.get((Tier.T1, 0), ()))

    @property
    def t1_per_pod(self) -> int:
        """T1 switches per plane in each pod; also the uplinks of a T0 that has them all."""
        return self.t1_count // self.pods

    @property
    def t2_count(self) -> int:
        """T2 switches per plane; 0 with two tiers."""
        return len(self._tiers.get((Tier.T2, 0), ()))

    # For people

    def in_words(self) -> str:
        """How large it is: ``2 planes, 3 tiers, 2 pods, 20 switches, 8 hosts, 40 links``."""
        tiers = 1 + max(switch.tier for switch in self.switches)
        sizes = [counted(self.planes, "plane"), counted(tiers, "tier")]
        sizes += [counted(self.pods, "pod")] if tiers > 2 else []
        sizes += [counted(len(self.switches), "switch", "switches"), counted(len(self.nics), "host")]
        return ", ".join([*sizes, counted(len(self.links), "link")])

    def __repr__(self) -> str:
        """Name and size, in one line."""
        return f"<Fabric {self.name}: {self.in_words()}>"

    def _repr_svg_(self) -> str | None:
        """The picture that notebooks show; None, so that they show the line above, of one with very many links."""
        from topologies.drawing import svg  # which takes time that most programs need not spend

        return svg(self, names=True) if len(self.links) <= MOST_DRAWN else None

    def with_settings(self, settings: ProtocolSettings) -> Fabric:
        """The same with other choices of the protocol, which no part depends on: nothing is checked or built again."""
        changed = copy(self)
        object.__setattr__(changed, "settings", settings)
        object.__setattr__(changed, "_derived", {})
        return changed

    # Switches of the kernel

    @property
    def kernel_switches(self) -> tuple[Switch, ...]:
        """The kernel switches."""
        return tuple(switch for switch in self.switches if switch.kernel)

    @property
    def p4_switches(self) -> tuple[Switch, ...]:
        """Switches that run the P4 program."""
        return tuple(switch for switch in self.switches if not switch.kernel)

    @property
    def trims(self) -> bool:
        """Whether every switch trims, so that NICs may take it for granted."""
        return self.queues.trimming and not self.kernel_switches

    def with_kernel_switches(self, patterns: Iterable[str]) -> Fabric:
        """The same with the switches that match any of `patterns` as the kernel's; FabricError if one matches none."""
        chosen = {switch.name for pattern in patterns for switch in self.find_switches(pattern)}
        if not chosen:
            return self
        switches = (replace(one, kernel=True) if one.name in chosen else one for one in self.switches)
        return replace(self, switches=tuple(switches))

    def is_kernel(self, node: str) -> bool:
        """Whether a node is a kernel switch."""
        switch = self._switches.get(node)
        return switch is not None and switch.kernel

    def watched_end(self, link: Link) -> LinkEnd:
        """The end of a link where emulation counts its traffic and takes it down: the lowest of a P4 switch, if any.

        The interfaces of other switches are in namespaces of their own, and their kernel drops the routes of an
        interface that is taken down.
        """
        p4 = (end for end in link.switch_ends if not self._switches[end.node].kernel)
        return next(p4, link.switch_end)

    # Lookups

    def tier(self, tier: Tier, plane: int) -> tuple[Switch, ...]:
        """Switches of one tier of one plane, by number."""
        return self._tiers.get((tier, plane), ())

    def pod_of(self, t0: int) -> int:
        """The pod of T0 number `t0`."""
        return self._tiers[Tier.T0, 0][t0].pod

    def first_t1(self, t0: int) -> int:
        """Number of the first T1 of the pod that a T0 is in."""
        return self.pod_of(t0) * self.t1_per_pod

    def paths(self, source: FabricNic, target: FabricNic) -> tuple[FabricPath, ...]:
        """The paths between two hosts that are used, plane by plane (``up_down``)."""
        planes = self.common_planes(source, target)
        return self.derived(
            ("paths", source.t0, target.t0, planes), lambda: up_down.paths(self, planes, source.t0, target.t0)
        )

    def common_planes(self, source: FabricNic, target: FabricNic) -> tuple[int, ...]:
        """Planes in which both hosts have a link."""
        ours, theirs = self._planes[source.name], self._planes[target.name]
        return ours if ours == theirs else tuple(plane for plane in ours if plane in theirs)

    def derived(self, key: object, make: Callable[[], _Derived]) -> _Derived:
        """What `make` derives from the fabric, made once and kept under `key`."""
        if key not in self._derived:
            self._derived[key] = make()
        found: _Derived = self._derived[key]
        return found

    def racks(self, t0: int) -> tuple[Switch, ...]:
        """The T0s of that number, one in each plane."""
        return tuple(self._tiers[Tier.T0, plane][t0] for plane in range(self.planes))

    def nics_of(self, t0: int) -> tuple[FabricNic, ...]:
        """NICs below T0 number `t0`, by downlink."""
        return self._racks.get(t0, ())

    def uplinks(self, switch: str) -> Mapping[int, Link]:
        """Links from a switch, by name, to the tier above, by the number of the switch there."""
        return self._uplinks[switch]

    def switch(self, name: str) -> Switch:
        """The switch of that name; FabricError if there is none."""
        return _lookup(self._switches, name, "switch", self.name)

    def nic(self, name: str) -> FabricNic:
        """The NIC of that name; FabricError if there is none."""
        return _lookup(self._nics, name, "NIC", self.name)

    def link(self, name: str) -> Link:
        """The link of that name, ends in either order; FabricError if there is none."""
        return _lookup(self._links, lower_end_first(name), "link", self.name)

    @property
    def nic_names(self) -> Collection[str]:
        """Names of all NICs."""
        return self._nics.keys()

    def link_at(self, end: LinkEnd) -> Link | None:
        """The link plugged into a port."""
        return self._at.get(end)

    def nic_link(self, nic: FabricNic, plane: int) -> Link | None:
        """The link of a NIC's port in a plane; None where it has none."""
        return self._at.get(LinkEnd(nic.name, plane))

    def peer(self, end: LinkEnd) -> LinkEnd | None:
        """The other end of the link plugged into a port."""
        link = self._at.get(end)
        if link is None:
            return None
        return link.upper if end == link.lower else link.lower

    def link_between(self, near: str, far: str) -> Link:
        """The link between two neighbours, given in either order; FabricError if there is none."""
        return self.link(link_name(near, far))

    def links_of(self, node: str) -> Iterator[Link]:
        """Every link of a switch or NIC."""
        return iter(self._by_node.get(node, ()))

    def find_nics(self, pattern: str) -> tuple[FabricNic, ...]:
        """NICs of the hosts whose name matches a pattern such as ``h[1-16]``; FabricError if none does."""
        found = tuple(matching(self._nics, pattern))
        return found or (_lookup(self._nics, pattern, "NIC", self.name, patterns=True),)

    def find_links(self, pattern: str) -> tuple[Link, ...]:
        """Links whose name matches a pattern such as ``t0-0:t1-*@p1`` or ``h*@p0``; FabricError if none does."""
        found = tuple(matching(self._links, lower_end_first(pattern)))
        return found or (_lookup(self._links, lower_end_first(pattern), "link", self.name, patterns=True),)

    def find_switches(self, pattern: str) -> tuple[Switch, ...]:
        """Switches whose name matches a pattern such as ``t1-*@p0``; FabricError if none does."""
        found = tuple(matching(self._switches, pattern))
        return found or (_lookup(self._switches, pattern, "switch", self.name, patterns=True),)


def link_name(near: str, far: str) -> str:
    """Name of the link between two neighbours, given in either order."""
    near_switch, _, near_plane = near.partition("@")
    far_switch, _, far_plane = far.partition("@")
    if near_plane and far_plane:
        return lower_end_first(f"{near_switch}:{far_switch}@{far_plane}")
    return f"{far_switch}@{near_plane}" if near_plane else f"{near_switch}@{far_plane}"


def lower_end_first(name: str) -> str:
    """Write a link's name with the switch of the lower tier first, whichever way round the user gave it."""
    ends, at, plane = name.partition("@")
    left, colon, right = ends.partition(":")
    if colon and (left[:3], right[:3]) in (("t1-", "t0-"), ("t2-", "t1-")):
        left, right = right, left
    return f"{left}{colon}{right}{at}{plane}"


def matching(named: Mapping[str, _Named], pattern: str) -> Iterator[_Named]:
    """What has a name that matches a pattern; FabricError if that is invalid, or a number that it names is missing."""
    if pattern in named:  # as of thousands of faults, each on one link of very many
        return iter((named[pattern],))
    return (named[name] for name in select(named, pattern))


def _lookup(named: dict[str, _Named], name: str, kind: str, fabric: str, *, patterns: bool = False) -> _Named:
    if name in named:
        return named[name]
    example = next(iter(named), "")
    if not patterns and is_pattern(name):
        raise FabricError(f"{name!r} is a pattern, and here one {kind} is meant: write its name, as in {example}")
    hint = numbers_hint(name) or did_you_mean(name, named)
    hint = hint or (f"names are as in {example}" if example else "there is none")
    raise FabricError(f"fabric {fabric} has no {kind} that matches {name!r}: {hint}")
