"""The probe plan: which paths each host probes, to watch every link from several hosts (docs/path-mapping.md).

In every plane, each host probes

- its T0 and back (``block | T0 | self``), which crosses its own link only;
- T1s and back (``block | T0 | T1 | T0 | self``): every T0-T1 link by `agents` hosts below that T0, or by all if they
  are fewer, and every host about as many;
- T2s and back (``block | T0 | T1 | T2 | T1 | T0 | self``): every T1-T2 link by `agents` hosts of the pod, likewise;
- some other hosts, up to `peers` of them, one way on the paths that data takes. The receiver counts these, so they
  distinguish the directions of a link, which probes that return cannot.

All paths of the fabric are probed equally often, once a round; the round is as long as it may be for the least covered
link to see `rate` probes a second in each direction.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from mrc_host.path_probes import MAX_PROBE_PATHS, ProbePath, ProbePlan
from topologies import addressing, paths
from topologies.errors import FabricError
from topologies.fabric import Fabric, FabricNic, LinkKind, Tier, link_name
from topologies.up_down import FabricPath, nodes

DEFAULT_RATE = 10.0  # probes a second, link and direction
MIN_RATE, MAX_RATE = 0.1, 1000.0
DEFAULT_AGENTS = 3
DEFAULT_PEERS = 8
_PEER_PATHS = 64  # of one host and plane, at most


class ProbeKind(enum.Enum):
    """Where a probe turns round."""

    T0 = "t0"
    T1 = "t1"
    T2 = "t2"
    PEER = "peer"  # nowhere: it ends at another host


@dataclass(frozen=True, slots=True)
class Crossing:
    """A link in one direction; `upward` is away from the NICs."""

    link: str
    upward: bool


@dataclass(frozen=True, slots=True)
class ProbeRoute:
    """A path of the plan: who sends, who counts, and what it crosses, in this order."""

    source: str
    target: str
    kind: ProbeKind
    plane: int
    ev: int
    crossings: tuple[Crossing, ...]
    switches: tuple[str, ...]
    path: ProbePath


@dataclass(frozen=True, slots=True)
class FabricProbePlan:
    """The plan of a whole fabric: routes by host, in the order of the path numbers, and the length of a round."""

    fabric: Fabric
    routes: dict[str, tuple[ProbeRoute, ...]]
    round_ns: int
    rate: float

    def of(self, host: str, first_round: int = 0) -> ProbePlan:
        """The plan of one host's NIC."""
        return ProbePlan(tuple(route.path for route in self.routes[host]), self.round_ns, first_round)

    @property
    def all_routes(self) -> Iterator[ProbeRoute]:
        """Every route, host by host."""
        return (route for routes in self.routes.values() for route in routes)


def probe_plan(
    fabric: Fabric, *, rate: float = DEFAULT_RATE, agents: int = DEFAULT_AGENTS, peers: int = DEFAULT_PEERS
) -> FabricProbePlan:
    """The probe plan of `fabric`: each link sees `rate` probes a second (0.1 to 1000) in each direction, or more.

    `agents` (1 or more) hosts, where there are so many, probe each link between switches out and back; each host sends
    one way to `peers` (0 or more) others. Raises :class:`FabricError`.
    """
    if not MIN_RATE <= rate <= MAX_RATE:
        raise FabricError(f"a link is probed {MIN_RATE:g} to {MAX_RATE:g} times a second, not {rate:g}")
    if agents < 1 or peers < 0:
        raise FabricError("a link is probed by 1 host or more, and a host probes 0 others or more")
    if not fabric.settings.ev_format.routed:
        raise FabricError("paths can only be probed where MRC packets carry a uSID list: use the SRv6 format")
    routes = {nic.name: tuple(_routes(fabric, nic, agents, peers)) for nic in fabric.nics}
    longest = max(map(len, routes.values()))
    if longest > MAX_PROBE_PATHS:
        raise FabricError(f"{longest} paths a host are too many to probe ({MAX_PROBE_PATHS} at most): use fewer agents")
    covered = Counter(crossing for found in routes.values() for route in found for crossing in route.crossings)
    return FabricProbePlan(fabric, routes, round(min(covered.values()) * 1e9 / rate), rate)


def _routes(fabric: Fabric, nic: FabricNic, agents: int, peers: int) -> Iterator[ProbeRoute]:
    others = _peers(fabric, nic, peers)
    for plane in range(fabric.planes):
        if fabric.nic_link(nic, plane) is None:
            continue
        yield _back(fabric, nic, FabricPath(plane, Tier.T0))
        for path in (*_own_uplinks(fabric, nic, plane, agents), *_own_t2s(fabric, nic, plane, agents)):
            yield _back(fabric, nic, path)
        for number, peer in enumerate(others):
            for path in _peer_paths(fabric, nic, peer, plane, number, len(others)):
                yield _to_peer(fabric, nic, peer, path)


def _own_uplinks(fabric: Fabric, nic: FabricNic, plane: int, agents: int) -> Iterator[FabricPath]:
    """T1s that a host probes out and back: dealt out in turn to the hosts below its T0, `agents` of them each."""
    hosts = [below for below in fabric.nics_of(nic.t0) if fabric.nic_link(below, plane) is not None]
    first = fabric.first_t1(nic.t0)
    for t1 in fabric.uplinks(f"t0-{nic.t0}@p{plane}"):
        if _is_dealt(hosts, nic, t1 - first, agents):
            yield FabricPath(plane, Tier.T1, t1 - first)


def _own_t2s(fabric: Fabric, nic: FabricNic, plane: int, agents: int) -> Iterator[FabricPath]:
    """T2s that a host probes out and back: each T1-T2 link of its pod to `agents` of the hosts that reach the T1."""
    first, at = fabric.first_t1(nic.t0), f"@p{plane}"
    for t1 in fabric.uplinks(f"t0-{nic.t0}{at}"):
        below = (link.lower.node for link in fabric.links_of(f"t1-{t1}{at}") if link.kind is LinkKind.T0_T1)
        racks = [fabric.nics_of(fabric.switch(t0).index) for t0 in below]
        hosts = [host for row in zip_longest(*racks) for host in row if host and fabric.nic_link(host, plane)]
        t2s = fabric.uplinks(f"t1-{t1}{at}")
        for number, t2 in enumerate(t2s, (t1 - first) * len(t2s)):
            if _is_dealt(hosts, nic, number, agents):
                yield FabricPath(plane, Tier.T2, t1 - first, t2, t1 - first)


def _is_dealt(hosts: Sequence[FabricNic], nic: FabricNic, number: int, agents: int) -> bool:
    """Whether `nic` is among the `agents` of `hosts` that probe link `number`."""
    count = min(agents, len(hosts))
    return any(hosts[(number * count + turn) % len(hosts)] == nic for turn in range(count))


def _peers(fabric: Fabric, nic: FabricNic, count: int) -> list[FabricNic]:
    """Hosts at the same distances round the ring of all hosts for everybody, so that each is somebody's as often."""
    others = len(fabric.nics) - 1
    count = min(count, others)
    distances = [1 + number * others // count for number in range(count)]
    return [fabric.nics[(nic.index + distance) % len(fabric.nics)] for distance in distances]


def _peer_paths(
    fabric: Fabric, nic: FabricNic, peer: FabricNic, plane: int, number: int, count: int
) -> Iterator[FabricPath]:
    """Paths on which a host probes a peer: all, or a share of what it may send, beginning elsewhere for each."""
    found = [path for path in fabric.paths(nic, peer) if path.plane == plane]
    share = min(len(found), max(1, _PEER_PATHS // count))
    begin = (nic.index * count + number) * share
    return (found[(begin + step) % len(found)] for step in range(share))


def _back(fabric: Fabric, nic: FabricNic, path: FabricPath) -> ProbeRoute:
    """Out to the switch where `path` turns, and back the same path."""
    ev = addressing.path_ev(path)
    probe = ProbePath(
        path.plane,
        paths.probe_template(fabric, nic, path.turn).address(ev),
        addressing.nic_address(fabric, nic).packed,
        ev,
    )
    crossings, switches = crossed(fabric, nic, nic, path)
    return ProbeRoute(nic.name, nic.name, ProbeKind[path.turn.name], path.plane, ev, crossings, switches, probe)


def _to_peer(fabric: Fabric, nic: FabricNic, peer: FabricNic, path: FabricPath) -> ProbeRoute:
    ev = addressing.path_ev(path)
    known = paths.destination(fabric, nic, peer)
    probe = ProbePath(path.plane, known.template.address(ev), known.address, ev)
    crossings, switches = crossed(fabric, nic, peer, path)
    return ProbeRoute(nic.name, peer.name, ProbeKind.PEER, path.plane, ev, crossings, switches, probe)


def crossed(
    fabric: Fabric, nic: FabricNic, peer: FabricNic, path: FabricPath
) -> tuple[tuple[Crossing, ...], tuple[str, ...]]:
    """Links and switches on a path from `nic` to `peer`, in order; the first half of the links is crossed upward."""
    switches = nodes(fabric, nic, peer, path)
    along = (nic.name, *switches, peer.name)
    links = [link_name(near, far) for near, far in pairwise(along)]
    return tuple(Crossing(link, number < len(links) // 2) for number, link in enumerate(links)), switches
