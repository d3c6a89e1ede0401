"""A multi-plane Clos from a handful of numbers.

Hosts h1..hN fill the racks (the hosts below one T0) one after the other; T0s and T1s fill the pods. Every plane is
wired the same (see ``wiring`` for the ports), except where a link rule says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mrc_host.config import ProtocolSettings
from topologies.errors import FabricError
from topologies.fabric import DEFAULT_ADDRESS_PREFIX, DEFAULT_MTU, DEFAULT_USID_BLOCK, Fabric
from topologies.fabric_checks import MAX_NICS, MAX_PER_KIND, MAX_PLANES, check_range, check_wiring
from topologies.ip_routes import ip_routes
from topologies.link_rules import LinkRule, apply_rules
from topologies.parts import FabricNic, Link, LinkKind, Switch, T2Wiring, Tier
from topologies.queues import QueueProfile
from topologies.wiring import positions

DEFAULT_RATE_BPS = 100_000_000


def multi_plane_clos(
    name: str = "demo",
    *,
    planes: int = 2,
    t0: int = 2,
    t1: int = 4,
    hosts: int = 4,
    pods: int = 1,
    t2: int = 0,
    t2_wiring: T2Wiring = T2Wiring.GROUPS,
    racks: Sequence[Sequence[int]] | None = None,
    rate_bps: int = DEFAULT_RATE_BPS,
    uplink_rate_bps: int | None = None,
    links: Iterable[LinkRule] = (),
    kernel_switches: Iterable[str] = (),
    mtu: int = DEFAULT_MTU,
    usid_block: int = DEFAULT_USID_BLOCK,
    address_prefix: int = DEFAULT_ADDRESS_PREFIX,
    settings: ProtocolSettings | None = None,
    queues: QueueProfile | None = None,
) -> Fabric:
    """Build a fabric of `planes` planes with `t0` T0s and `t1` T1s each, and `hosts` NICs in all.

    With three tiers there are `t0` T0s and `t1` T1s in each of the `pods` pods, and `t2` T2s in each plane, which
    join T1s as `t2_wiring` says. `racks` says how many hosts each T0 has, pod by pod; `pods`, `t0` and `hosts` then
    follow from it. `rate_bps` is the rate of every link per direction, `uplink_rate_bps` that of links between switches
    where it differs; `links` are rules for those that are different or missing. With one T0, `t1` may be 0: each plane
    is then a single switch. `kernel_switches` are names and patterns of those that Linux itself is, instead of the P4
    program. Raises :class:`FabricError`.
    """
    if racks is None:
        _check_sizes(planes=planes, pods=pods, t0=t0, t1=t1, t2=t2, hosts=hosts)
        if hosts % (pods * t0):
            raise FabricError(
                f"{hosts} hosts cannot be spread evenly over {pods * t0} T0 groups: give a multiple of {pods * t0}"
            )
        racks = [[hosts // (pods * t0)] * t0] * pods
    else:
        _check_racks(racks)
        _check_sizes(planes=planes, pods=len(racks), t0=sum(map(len, racks)), t1=t1, t2=t2, hosts=sum(map(sum, racks)))
    check_wiring(len(racks), t1, t2, t2_wiring)
    nics = _nics([below for pod in racks for below in pod])
    switches = _switches(planes, [len(pod) for pod in racks], t1, t2)
    uplink_rate = rate_bps if uplink_rate_bps is None else uplink_rate_bps
    complete = {
        at.name: Link(
            at.name, at.kind, at.plane, at.lower, at.upper, rate_bps if at.kind is LinkKind.NIC_T0 else uplink_rate
        )
        for at in positions(planes, switches, nics, t2_wiring).values()
    }
    present = apply_rules(complete, links)
    fabric = Fabric(
        name=name,
        planes=planes,
        switches=_with_ports(switches, present.values()),
        nics=nics,
        links=tuple(present.values()),
        mtu=mtu,
        usid_block=usid_block,
        address_prefix=address_prefix,
        settings=settings or ProtocolSettings(),
        queues=queues or QueueProfile(),
        wiring=t2_wiring if t2 else T2Wiring.GROUPS,
    )
    if len(present) < len(complete):  # else a switch has one group
        for switch in fabric.switches:
            ip_routes(fabric, switch)
    return fabric.with_kernel_switches(kernel_switches)


def _check_sizes(**sizes: int) -> None:
    limits = {"planes": (1, MAX_PLANES), "t1": (0, MAX_PER_KIND), "t2": (0, MAX_PER_KIND), "hosts": (1, MAX_NICS)}
    for what, value in sizes.items():
        check_range(what, value, *limits.get(what, (1, MAX_PER_KIND)))


def _check_racks(racks: Sequence[Sequence[int]]) -> None:
    if not racks or not all(racks):
        raise FabricError("racks must list the hosts of every T0, and every pod needs a T0")
    for below in (below for pod in racks for below in pod):
        check_range("number of hosts in a rack", below, 1, MAX_PER_KIND)


def _nics(racks: Sequence[int]) -> tuple[FabricNic, ...]:
    places = [(t0, downlink) for t0, below in enumerate(racks) for downlink in range(below)]
    return tuple(FabricNic(f"h{index + 1}", index, *place) for index, place in enumerate(places))


def _switches(planes: int, t0s: Sequence[int], t1: int, t2: int) -> list[Switch]:
    """The switches of pods with so many T0s each; their ports are not known yet."""
    pods = {
        Tier.T0: [pod for pod, count in enumerate(t0s) for _ in range(count)],
        Tier.T1: [pod for pod in range(len(t0s)) for _ in range(t1)],
        Tier.T2: [0] * t2,
    }
    found: list[Switch] = []
    for plane in range(planes):
        for tier, members in pods.items():
            for index, pod in enumerate(members):
                name = f"{tier.name.lower()}-{index}@p{plane}"
                found.append(Switch(name, tier, plane, index, len(found) + 1, (), pod))
    return found


def _with_ports(switches: Iterable[Switch], links: Iterable[Link]) -> tuple[Switch, ...]:
    ports: dict[str, list[int]] = {}
    for link in links:
        for end in (link.lower, link.upper):
            ports.setdefault(end.node, []).append(end.port)
    return tuple(replace(switch, ports=tuple(sorted(ports.get(switch.name, ())))) for switch in switches)
