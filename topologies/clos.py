"""A multi-plane Clos from a handful of numbers.

Hosts h1..hN fill the T0 groups one after the other. On a T0, ports 1..D are the downlinks and D+1.. the uplinks,
uplink u to T1 number u; on a T1, port t+1 goes to T0 number t. Every plane is wired the same.
"""

from __future__ import annotations

from mrc_host.config import ProtocolSettings
from topologies.errors import FabricError
from topologies.fabric import (
    DEFAULT_ADDRESS_PREFIX,
    DEFAULT_MTU,
    DEFAULT_USID_BLOCK,
    MAX_NICS,
    MAX_PER_KIND,
    MAX_PLANES,
    Endpoint,
    Fabric,
    Link,
    LinkKind,
    Nic,
    Switch,
    Tier,
)
from topologies.queues import QueueProfile

DEFAULT_RATE_BPS = 100_000_000


def multi_plane_clos(
    name: str = "demo",
    *,
    planes: int = 2,
    t0: int = 2,
    t1: int = 4,
    hosts: int = 4,
    rate_bps: int = DEFAULT_RATE_BPS,
    uplink_rate_bps: int | None = None,
    mtu: int = DEFAULT_MTU,
    usid_block: int = DEFAULT_USID_BLOCK,
    address_prefix: int = DEFAULT_ADDRESS_PREFIX,
    settings: ProtocolSettings | None = None,
    queues: QueueProfile | None = None,
) -> Fabric:
    """Build a fabric of `planes` planes with `t0` T0s and `t1` T1s each, and `hosts` NICs in all.

    `rate_bps` is the rate of every link per direction, `uplink_rate_bps` that of the T0-T1 links where it differs. With
    one T0, `t1` may be 0: each plane is then a single switch. Raises :class:`FabricError` with one sentence.
    """
    for what, value, low, high in (
        ("planes", planes, 1, MAX_PLANES),
        ("t0", t0, 1, MAX_PER_KIND),
        ("t1", t1, 0, MAX_PER_KIND),
        ("hosts", hosts, 1, MAX_NICS),
    ):
        if not low <= value <= high:
            raise FabricError(f"{what} is {value}, but must be between {low} and {high}")
    if hosts % t0:
        raise FabricError(f"{hosts} hosts cannot be spread evenly over {t0} T0 groups: give a multiple of {t0}")
    downlinks = hosts // t0
    nics = tuple(Nic(f"h{index + 1}", index, *divmod(index, downlinks)) for index in range(hosts))
    switches: list[Switch] = []
    links: list[Link] = []
    for plane in range(planes):
        for tier, count, ports in ((Tier.T0, t0, downlinks + t1), (Tier.T1, t1, t0)):
            for index in range(count):
                switch_name = f"{tier.name.lower()}-{index}@p{plane}"
                device_id = len(switches) + 1
                switches.append(Switch(switch_name, tier, plane, index, device_id, tuple(range(1, ports + 1))))
        links += [_nic_link(nic, plane, rate_bps) for nic in nics]
        rate = rate_bps if uplink_rate_bps is None else uplink_rate_bps
        links += [_uplink(t, u, plane, downlinks, rate) for t in range(t0) for u in range(t1)]
    return Fabric(
        name=name,
        planes=planes,
        switches=tuple(switches),
        nics=nics,
        links=tuple(links),
        mtu=mtu,
        usid_block=usid_block,
        address_prefix=address_prefix,
        settings=settings or ProtocolSettings(),
        queues=queues or QueueProfile(),
    )


def _nic_link(nic: Nic, plane: int, rate_bps: int) -> Link:
    upper = Endpoint(f"t0-{nic.t0}@p{plane}", nic.downlink + 1)
    return Link(f"{nic.name}@p{plane}", LinkKind.NIC_T0, plane, Endpoint(nic.name, plane), upper, rate_bps)


def _uplink(t0: int, t1: int, plane: int, downlinks: int, rate_bps: int) -> Link:
    lower = Endpoint(f"t0-{t0}@p{plane}", downlinks + 1 + t1)
    upper = Endpoint(f"t1-{t1}@p{plane}", t0 + 1)
    return Link(f"t0-{t0}:t1-{t1}@p{plane}", LinkKind.T0_T1, plane, lower, upper, rate_bps)
