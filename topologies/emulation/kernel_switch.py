"""A kernel switch: a network namespace whose interfaces are the ports, with SRv6 and forwarding on.

The fabric's packets pass it as they pass the embedded switch: the uSID list is shifted, the hop limit is one less, and
the MAC addresses are those of the next link. Nothing else is done to them. The kernel has no address there, so it sends
nothing of its own: no ICMP error, no neighbour or router discovery, no multicast report. What leaves a port is paced by
a token bucket whose queue is as long as the P4 program lets data wait, and what does not fit is dropped.

The builder makes the namespace (:func:`prepare`) and its ports (:func:`configure_ports`). Routes are the controller's
work, as the entries of other switches (``kernel_programming``).
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

from pyroute2 import IPRoute

from topologies import addressing
from topologies.emulation import interfaces
from topologies.emulation.kernel_programming import SID_LINK
from topologies.emulation.route_netlink import IFF_MULTICAST, IFF_NOARP, IFF_UP, RouteSocket
from topologies.entries import ecmp_seed
from topologies.fabric import Fabric, LinkEnd, Switch

_SYSCTL = Path("/proc/sys/net")
_SETTINGS = {
    "ipv6/conf/{}/disable_ipv6": "0",  # in case the machine turns IPv6 off by default
    "ipv6/conf/{}/accept_ra": "0",
    "ipv6/conf/{}/autoconf": "0",
    "ipv6/conf/{}/accept_dad": "0",
    "ipv6/conf/{}/dad_transmits": "0",
    "ipv6/conf/{}/router_solicitations": "0",
    "ipv6/conf/{}/addr_gen_mode": "1",  # no link-local address
    "ipv6/conf/{}/forwarding": "0",  # not yet: a port would report that it listens to routers
}


def prepare(fabric: Fabric, switch: Switch) -> None:
    """Set up the current namespace, before ports come into it, so that they inherit the settings."""
    for scope in ("all", "default"):
        for name, value in _SETTINGS.items():
            interfaces.write_sysctl(_SYSCTL / name.format(scope), value)
    # Not even ::1, or ICMP errors would have a source.
    interfaces.write_sysctl(_SYSCTL / "ipv6/conf/lo/disable_ipv6", "1")
    # ECMP by addresses and UDP ports, by each switch in its own way (older kernels: all in the same).
    interfaces.write_sysctl(_SYSCTL / "ipv6/fib_multipath_hash_policy", "1")
    interfaces.write_sysctl(_SYSCTL / "ipv4/fib_multipath_hash_seed", str(ecmp_seed(fabric, switch) or 1))
    make_sid_link()


def make_sid_link() -> None:
    """The link that the route of the switch's own uSID is on, in the current namespace: not lost with a port."""
    with IPRoute() as netlink:
        netlink.link("add", kind="veth", ifname=SID_LINK[0], peer={"ifname": SID_LINK[1]})
    with RouteSocket() as kernel:
        for name in SID_LINK:
            kernel.set_link(socket.if_nametoindex(name), on=IFF_NOARP | IFF_UP, off=IFF_MULTICAST)


def configure_ports(fabric: Fabric, switch: Switch) -> None:
    """Take the ports of a switch up, in the current namespace, pace them, and begin to forward."""
    ends = [LinkEnd(switch.name, port) for port in switch.ports]
    names = {end: addressing.interface_name(fabric, end) for end in ends}
    interfaces.disable_offloads(names.values())
    with IPRoute() as netlink:
        for end, name in names.items():
            netlink.tc("add", "tbf", index=socket.if_nametoindex(name), **port_bucket(fabric, end))
    raise_ports(names.values())
    interfaces.write_sysctl(_SYSCTL / "ipv6/conf/all/forwarding", "1")


def raise_ports(names: Iterable[str]) -> None:
    """Take interfaces of the current namespace up as ports, on which the kernel asks and reports nothing."""
    with RouteSocket() as kernel:
        for name in names:
            kernel.set_link(socket.if_nametoindex(name), on=IFF_NOARP | IFF_UP, off=IFF_MULTICAST)


def port_bucket(fabric: Fabric, end: LinkEnd, rate_bps: int | None = None) -> dict[str, int]:
    """Options of the token bucket of a port: the link's rate, or a lower one, and the switch's limit on data."""
    link = fabric.link_at(end)
    assert link is not None, "a fabric has a link on every port"
    options = interfaces.token_bucket(min(rate_bps or link.rate_bps, link.rate_bps), fabric.mtu)
    ports = len(fabric.switch(end.node).ports)
    return {**options, "limit": fabric.queues.data_limit(link.rate_bps, fabric.mtu, ports)}
