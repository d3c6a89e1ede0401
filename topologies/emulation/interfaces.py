"""veth links, addresses and routes over netlink: a whole link in a few messages instead of a dozen shell commands.

The fabric must carry the fabric's packets only. On a host's port the kernel's IPv6 has one static address per
plane, a static neighbour for its T0 and static routes, and the interface is NOARP: no neighbour discovery, no
duplicate address detection, no solicited-node groups and so no MLD reports (RFC 4861, RFC 3810 would all be chatter
here). On a switch's port, IPv6 is off. Offloads are off on both, since what leaves a packet socket must be what
arrives at the other end: checksums filled in, frames no larger than the MTU, VLAN tags in place.

All switch interfaces of a fabric are in one kernel interface group, and with them their links: the kernel deletes a
whole group in one message, which is quick, and finds it after a crash as well. Others may put interfaces into the
group, so each of ours also bears a mark (``ownership``).
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.ethtool.ioctl import IoctlEthtool, NotSupportedError
from pyroute2.netlink.exceptions import NetlinkError

from topologies.emulation.ownership import Mark, parse

_SYSCTL_IPV6 = Path("/proc/sys/net/ipv6/conf")
_HOST_SYSCTLS = {
    "disable_ipv6": "0",  # in case the machine turns IPv6 off by default
    "accept_ra": "0",
    "autoconf": "0",
    "accept_dad": "0",
    "dad_transmits": "0",
    "router_solicitations": "0",
    "addr_gen_mode": "1",  # no link-local address
    "keep_addr_on_down": "1",
}
_PERMANENT = 0x80  # NUD_PERMANENT
_PARTING = 0x6E00_0000  # interface groups that exist for a moment only


@dataclass(frozen=True, slots=True)
class VethEnd:
    """One end of a veth link to be made: name, MAC address, and the process whose namespace it goes to (None: here)."""

    name: str
    mac: bytes
    namespace_pid: int | None = None


@dataclass(frozen=True, slots=True)
class KernelPort:
    """What a host's kernel knows of one of its ports: its own address, the gateway and what lies behind it.

    What arrives for the addresses `of_nic` is the NIC's: the kernel, which gets all frames too, answers with no error.
    """

    interface: str
    address: str
    gateway: str
    gateway_mac: bytes
    prefixes: tuple[tuple[str, int], ...]
    of_nic: tuple[tuple[str, int], ...]


def create_veth(netlink: IPRoute, near: VethEnd, far: VethEnd, *, mtu: int, group: int, mark: Mark) -> None:
    """Make a veth link, which is down; its `near` end, if it stays in this namespace, is of `group` and bears `mark`.

    A link between two other namespaces goes with them.
    """
    peer = {"ifname": far.name, "address": far.mac.hex(":"), "mtu": mtu}
    if far.namespace_pid is not None:
        peer["net_ns_pid"] = far.namespace_pid
    own = {"ifname": near.name, "address": near.mac.hex(":"), "mtu": mtu}
    if near.namespace_pid is not None:
        netlink.link("add", kind="veth", **own, net_ns_pid=near.namespace_pid, peer=peer)
        return
    netlink.link("add", kind="veth", **own, group=group, peer=peer)
    netlink.link("set", index=socket.if_nametoindex(near.name), ifalias=str(mark))  # it does not go with "add"


def bring_up_switch_ports(netlink: IPRoute, interfaces: Iterable[str], group: int, mark: Mark) -> None:
    """Put switch interfaces into `group` with `mark` (a far end is not yet), silence the kernel there, take them up."""
    interfaces = tuple(interfaces)
    disable_offloads(interfaces)
    for name in interfaces:
        write_sysctl(_SYSCTL_IPV6 / name / "disable_ipv6", "1")
        index = socket.if_nametoindex(name)
        netlink.link("set", index=index, group=group, ifalias=str(mark), noarp=True, state="up")


def prepare_host() -> None:
    """Set up the current namespace, before interfaces come into it, so that they inherit the quiet settings."""
    for scope in ("all", "default"):
        for key, value in _HOST_SYSCTLS.items():
            write_sysctl(_SYSCTL_IPV6 / scope / key, value)
    with IPRoute() as netlink:
        netlink.link("set", index=socket.if_nametoindex("lo"), state="up")


def configure_host_ports(ports: Iterable[KernelPort]) -> None:
    """Take a host's ports up, in the current namespace, with their kernel addresses, neighbours and routes."""
    ports = tuple(ports)
    disable_offloads(port.interface for port in ports)
    with IPRoute() as netlink:
        for port in ports:
            _configure_host_port(netlink, port)


def _configure_host_port(netlink: IPRoute, port: KernelPort) -> None:
    index = socket.if_nametoindex(port.interface)
    netlink.link("set", index=index, noarp=True, state="up")
    netlink.addr("replace", index=index, address=port.address, prefixlen=128)
    netlink.neigh(
        "replace",
        ifindex=index,
        family=socket.AF_INET6,
        dst=port.gateway,
        lladdr=port.gateway_mac.hex(":"),
        state=_PERMANENT,
    )
    for prefix, length in port.prefixes:
        netlink.route("replace", family=socket.AF_INET6, dst=f"{prefix}/{length}", gateway=port.gateway, oif=index)
    for prefix, length in port.of_nic:
        netlink.route("replace", family=socket.AF_INET6, dst=f"{prefix}/{length}", type="blackhole")


def set_link_state(interface: str, *, up: bool) -> None:
    """Take an interface of the current namespace up or down; OSError if it does not exist."""
    with IPRoute() as netlink:
        netlink.link("set", index=socket.if_nametoindex(interface), state="up" if up else "down")


def shape(netlink: IPRoute, interface: str, rate_bps: int, mtu: int) -> None:
    """Limit what leaves an interface to `rate_bps`, for switches that do not pace their ports themselves."""
    netlink.tc("add", "tbf", index=socket.if_nametoindex(interface), **token_bucket(rate_bps, mtu))


def token_bucket(rate_bps: int, mtu: int) -> dict[str, int]:
    """Options of a token bucket (tc-tbf(8)) of `rate_bps`, in bytes and bytes per second."""
    burst = max(4 * (mtu + 14), rate_bps // 8 // 250)  # a timer tick's worth at least
    return {"rate": rate_bps // 8, "burst": burst, "limit": burst + 200 * mtu}


def disable_offloads(interfaces: Iterable[str]) -> None:
    """Turn off every offload of veth interfaces of the current namespace that would change a frame on its way."""
    interfaces = tuple(interfaces)
    if not interfaces:
        return
    tool = IoctlEthtool(interfaces[0])
    try:
        features = tool.get_features()
        for name, active, available, _, _ in features:
            # Scatter-gather leaves frames as they are; without it the kernel copies every long one once more.
            if active and available and name.startswith(("tx-", "rx-")) and not name.startswith("tx-scatter-gather"):
                features[name] = False
        for interface in interfaces:
            tool.change_ifname(interface)
            try:
                tool.set_features(features)
            except NotSupportedError:
                # The kernel says so when a feature went off with another one it depends on.
                continue
    finally:
        tool.close()


@dataclass(frozen=True, slots=True)
class GroupedInterface:
    """An interface of a group. `mark` is None when it bears none of ours, `kind` that of ip-link(8)."""

    name: str
    index: int
    group: int
    kind: str
    mark: Mark | None


def members(netlink: IPRoute) -> Iterator[GroupedInterface]:
    """Interfaces of the namespace of `netlink` that are in a group, any but the kernel's own group 0."""
    for link in netlink.get_links():
        if link.get("group"):
            kind = link.get(("linkinfo", "kind")) or ""
            mark = parse(link.get("ifalias"))
            yield GroupedInterface(link.get("ifname"), link["index"], link.get("group"), kind, mark)


def group_members(netlink: IPRoute, group: int) -> Iterator[str]:
    """Names of the interfaces of a group in the namespace of `netlink`."""
    return (member.name for member in members(netlink) if member.group == group)


def delete(netlink: IPRoute, group: int, ours: Callable[[GroupedInterface], bool]) -> int:
    """Delete the interfaces of a group that are ours, and so their links; returns how many there were.

    Others stay as they are. Where there are such, ours go into a group of their own first, to be deleted at once too.
    """
    found = [member for member in members(netlink) if member.group == group]
    mine = [member for member in found if ours(member)]
    if len(mine) < len(found):
        group = _PARTING | secrets.randbits(24)
        for member in mine:
            with contextlib.suppress(NetlinkError):  # it went with the other end of its link
                netlink.link("set", index=member.index, group=group)
    if mine:
        try:
            netlink.link("del", group=group)
        except NetlinkError:
            if any(True for _ in group_members(netlink, group)):
                raise
    return len(mine)


def write_sysctl(path: Path, value: str) -> None:
    """Write a setting of the kernel, if it has it."""
    try:
        path.write_text(value)
    except FileNotFoundError:
        # A kernel without this setting does not do what it would turn off.
        return
