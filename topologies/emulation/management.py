"""The management network: hosts reach each other by name over TCP and SSH, beside the fabric and not through it.

It is a bridge in a network namespace of its own with one veth link to each host, so it shares no interface, no route
and no packet filter with the fabric or with this machine, and faults of the fabric do not touch it. What uses it is the
rendezvous of other people's programs (perftest, torchrun's master address, ssh); MRC never does. The namespace is
only held open by a descriptor of the process that owns the fabric: when that ends, however it ends, all of it is gone.

Names are in an ``/etc/hosts`` of each host's own, mounted over the machine's in the host's mount namespace:

    h3                on the management network; without one, h3's kernel in the first plane that it has a link in
    h3-p0, h3-p1      h3's kernel in a plane of the fabric: ``ping h3-p1`` goes through that plane's switches
    h3-mgmt           h3 on the management network, and the name of its address as a server that listens on IPv6 sees it
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from topologies import addressing
from topologies.emulation import namespaces
from topologies.emulation.errors import EmulationError
from topologies.fabric import Fabric, FabricNic

INTERFACE = "mgmt"
NETWORK = IPv4Network("198.18.0.0/15")  # RFC 2544's, for tests of networks: nobody's own
_BRIDGE = "bridge"
_MOST_HOSTS = 1023  # ports of a kernel bridge
_HOSTS_FILE = Path("/etc/hosts")
_SYSCTL_IPV6 = Path("/proc/sys/net/ipv6/conf")
_MS_BIND = 4096
_OFF = "Leave the network out with --no-management."


def address(nic: FabricNic) -> IPv4Address:
    """A host's address on the management network."""
    return NETWORK.network_address + (nic.index + 1)


def names(fabric: Fabric, *, management: bool) -> str:
    """The ``/etc/hosts`` of every host: the names of all hosts, and behind them what the machine's file says."""
    lines = []
    for nic in fabric.nics:
        kernel = {link.plane: addressing.kernel_address(fabric, nic, link.plane) for link in fabric.links_of(nic.name)}
        first = address(nic) if management else next(iter(kernel.values()), None)
        if management:  # the IPv6 form has only the second name: looking up the first gives one address
            lines += [f"{first} {nic.name}", f"{first} {nic.name}-mgmt", f"::ffff:{first} {nic.name}-mgmt"]
        elif first is not None:
            lines.append(f"{first} {nic.name}")
        lines += [f"{own} {nic.name}-p{plane}" for plane, own in kernel.items()]
    machine = _HOSTS_FILE.read_text("utf-8", errors="replace") if _HOSTS_FILE.exists() else "127.0.0.1 localhost\n"
    return "\n".join([*lines, machine])


def name_host(host_pid: int, host: str, hosts_file: Path) -> None:
    """Give a host, whose shell is `host_pid`, its name and its ``/etc/hosts``; EmulationError if the kernel refuses."""

    def inside() -> None:
        socket.sethostname(host)
        namespaces.check_call("mount", bytes(hosts_file), bytes(_HOSTS_FILE), None, _MS_BIND, None)

    try:
        namespaces.run_inside(host_pid, inside, kinds=("uts", "mnt"))
    except OSError as error:
        raise EmulationError(f"Host {host} cannot be given its names in {_HOSTS_FILE}: {error.strerror}.") from None


class ManagementNetwork:
    """The network, once made, until it is closed."""

    def __init__(self, fabric: Fabric) -> None:
        if (hosts := len(fabric.nics)) > _MOST_HOSTS:
            raise EmulationError(
                f"A management network has at most {_MOST_HOSTS} hosts, and fabric {fabric.name} has {hosts}. {_OFF}"
            )
        try:
            self._namespace = namespaces.run_in_new(_make_bridge)
        except NetlinkError as error:
            raise EmulationError(f"This kernel cannot make a bridge ({error}): run 'modprobe bridge'. {_OFF}") from None

    def connect(self, hosts: Sequence[tuple[FabricNic, int]]) -> None:
        """Give each host, with the process id of its shell, an interface and an address."""

        def inside() -> None:
            with IPRoute() as netlink:
                bridge = socket.if_nametoindex(_BRIDGE)
                for nic, pid in hosts:
                    peer = {"ifname": INTERFACE, "net_ns_pid": pid}
                    netlink.link("add", kind="veth", ifname=nic.name, peer=peer)
                    netlink.link("set", index=socket.if_nametoindex(nic.name), master=bridge, state="up")

        namespaces.run_inside_open(self._namespace, inside)
        for nic, pid in hosts:
            namespaces.run_inside(pid, lambda nic=nic: _configure(address(nic)))  # type: ignore[misc]

    def close(self) -> None:
        """Let the network go. Safe to repeat."""
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1


def _make_bridge() -> int:
    """Make the bridge in this namespace, which is new, and return a descriptor of the namespace."""
    for scope in ("all", "default"):
        (_SYSCTL_IPV6 / scope / "disable_ipv6").write_text("1")
    with IPRoute() as netlink:
        netlink.link("add", kind="bridge", ifname=_BRIDGE, br_mcast_snooping=0)
        netlink.link("set", index=socket.if_nametoindex(_BRIDGE), state="up")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _configure(own: IPv4Address) -> None:
    """Take the interface of this namespace's host up, silent but for ARP."""
    (_SYSCTL_IPV6 / INTERFACE / "disable_ipv6").write_text("1")
    with IPRoute() as netlink:
        index = socket.if_nametoindex(INTERFACE)
        netlink.addr("add", index=index, address=str(own), prefixlen=NETWORK.prefixlen)
        netlink.link("set", index=index, state="up")
