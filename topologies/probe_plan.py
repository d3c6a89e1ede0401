"""Who probes which paths, so that every link of a fabric is watched from several hosts (docs/path-mapping.md).

In every plane, each host probes

- its T0 and back (``block | T0 | self``), which crosses its own link only;
- T1s and back (``block | T0 | T1 | T0 | self``): every T0-T1 link by `agents` hosts below that T0, or by all if they
  are fewer, and every host about as many;
- some other hosts, up to `peers` of them, one way on the paths that data takes. The receiver counts these, so they
  tell the directions of a link apart, which what goes out and back cannot.

All paths of the fabric are probed equally often, once a round; the round is as long as it may be for the least covered
link to see `rate` probes a second in each direction.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from mrc_host.probing import MAX_PROBE_PATHS, ProbePath, ProbePlan
from topologies import addressing, paths
from topologies.errors import FabricError
from topologies.fabric import Fabric, Nic

DEFAULT_RATE = 10.0  # probes a second, link and direction
MIN_RATE, MAX_RATE = 0.1, 1000.0
DEFAULT_AGENTS = 3
DEFAULT_PEERS = 8
_PEER_PATHS = 64  # of one host and plane, at most


class ProbeKind(enum.Enum):
    """Where a probe turns round."""

    T0 = "t0"
    T1 = "t1"
    PEER = "peer"  # nowhere: it ends at another host


@dataclass(frozen=True, slots=True)
class Crossing:
    """A link in one direction; `upward` is away from the NIC, or from the T0 to the T1."""

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
        """What one host's NIC is told."""
        return ProbePlan(tuple(route.path for route in self.routes[host]), self.round_ns, first_round)

    @property
    def all_routes(self) -> Iterator[ProbeRoute]:
        """Every route, host by host."""
        return (route for routes in self.routes.values() for route in routes)


def probe_plan(
    fabric: Fabric, *, rate: float = DEFAULT_RATE, agents: int = DEFAULT_AGENTS, peers: int = DEFAULT_PEERS
) -> FabricProbePlan:
    """The probe plan of `fabric`: each link sees `rate` probes a second (0.1 to 1000) in each direction, or more.

    `agents` (1 or more) hosts, where there are so many, probe each T0-T1 link out and back; each host sends one way to
    `peers` (0 or more) others. Raises :class:`FabricError` with one sentence.
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


def _routes(fabric: Fabric, nic: Nic, agents: int, peers: int) -> Iterator[ProbeRoute]:
    others = _peers(fabric, nic, peers)
    for plane in range(fabric.planes):
        yield _to_t0(fabric, nic, plane)
        for uplink in _own_uplinks(fabric, nic, agents):
            yield _to_t1(fabric, nic, plane, uplink)
        for number, peer in enumerate(others):
            for uplink in _peer_uplinks(fabric, nic, peer, number, len(others)):
                yield _to_peer(fabric, nic, peer, plane, uplink)


def _own_uplinks(fabric: Fabric, nic: Nic, agents: int) -> Iterator[int]:
    """Uplinks that a host probes out and back: dealt out in turn to the hosts below its T0, `agents` of them each."""
    below = fabric.nics_per_t0
    agents = min(agents, below)
    return (
        uplink
        for uplink in range(fabric.t1_count)
        if any((uplink * agents + turn) % below == nic.downlink for turn in range(agents))
    )


def _peers(fabric: Fabric, nic: Nic, count: int) -> list[Nic]:
    """Hosts at the same distances round the ring of all hosts for everybody, so that each is somebody's as often."""
    others = len(fabric.nics) - 1
    count = min(count, others)
    distances = [1 + number * others // count for number in range(count)]
    return [fabric.nics[(nic.index + distance) % len(fabric.nics)] for distance in distances]


def _peer_uplinks(fabric: Fabric, nic: Nic, peer: Nic, number: int, count: int) -> Iterator[int]:
    """Uplinks on which a host probes a peer: all, or a share of what it may send, beginning elsewhere for each."""
    if nic.t0 == peer.t0:
        return iter((0,))
    share = min(fabric.t1_count, max(1, _PEER_PATHS // count))
    begin = (nic.index * count + number) * share
    return ((begin + step) % fabric.t1_count for step in range(share))


def _to_t0(fabric: Fabric, nic: Nic, plane: int) -> ProbeRoute:
    ev, own = addressing.entropy_value(plane, 0), f"{nic.name}@p{plane}"
    outer = paths.probe_template(fabric, nic, to_t1=False).address(ev)
    crossings = Crossing(own, True), Crossing(own, False)
    path = ProbePath(plane, outer, addressing.nic_address(fabric, nic).packed, ev)
    return ProbeRoute(nic.name, nic.name, ProbeKind.T0, plane, ev, crossings, (f"t0-{nic.t0}@p{plane}",), path)


def _to_t1(fabric: Fabric, nic: Nic, plane: int, uplink: int) -> ProbeRoute:
    ev, own = addressing.entropy_value(plane, uplink), f"{nic.name}@p{plane}"
    up, t0, t1 = f"t0-{nic.t0}:t1-{uplink}@p{plane}", f"t0-{nic.t0}@p{plane}", f"t1-{uplink}@p{plane}"
    outer = paths.probe_template(fabric, nic, to_t1=True).address(ev)
    crossings = Crossing(own, True), Crossing(up, True), Crossing(up, False), Crossing(own, False)
    path = ProbePath(plane, outer, addressing.nic_address(fabric, nic).packed, ev)
    return ProbeRoute(nic.name, nic.name, ProbeKind.T1, plane, ev, crossings, (t0, t1, t0), path)


def _to_peer(fabric: Fabric, nic: Nic, peer: Nic, plane: int, uplink: int) -> ProbeRoute:
    ev = addressing.entropy_value(plane, uplink)
    known = paths.destination(fabric, nic, peer)
    crossings, switches = data_path(nic, peer, plane, uplink)
    path = ProbePath(plane, known.template.address(ev), known.address, ev)
    return ProbeRoute(nic.name, peer.name, ProbeKind.PEER, plane, ev, crossings, switches, path)


def data_path(nic: Nic, peer: Nic, plane: int, uplink: int) -> tuple[tuple[Crossing, ...], tuple[str, ...]]:
    """Links and switches on the path of one entropy value from `nic` to `peer`."""
    first, last = Crossing(f"{nic.name}@p{plane}", True), Crossing(f"{peer.name}@p{plane}", False)
    t0, far, t1 = f"t0-{nic.t0}@p{plane}", f"t0-{peer.t0}@p{plane}", f"t1-{uplink}@p{plane}"
    if nic.t0 == peer.t0:
        return (first, last), (t0,)
    up = Crossing(f"t0-{nic.t0}:t1-{uplink}@p{plane}", True)
    down = Crossing(f"t0-{peer.t0}:t1-{uplink}@p{plane}", False)
    return (first, up, down, last), (t0, t1, far)
