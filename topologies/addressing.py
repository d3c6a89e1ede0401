"""Every number and name that is derived from a fabric: uSIDs, IPv6 addresses, MAC addresses, interface names.

uSIDs (docs/protocol.md §5, format F3216: a 32-bit block and 16-bit uSIDs). One block serves all planes; a uSID is

    kind (3 bits: 1 = T0, 2 = T1, 3 = NIC, 4 = T2) | plane (3 bits) | number (10 bits)

so that a NIC can copy the plane number into every uSID of a template. A NIC's number is its downlink on its T0.

IPv6 addresses. A NIC has one address for all its ports, ``<prefix 48>:<T0>::<downlink + 1>``. The host's kernel has
one address per port, ``<prefix 48>:<T0>:1:<plane>::<downlink + 1>``, so that ping works while the kernel stays
silent about the NIC's own traffic. Both lie in the T0's /64, which is all that the rest of the fabric routes on.

Entropy values. T0 uplink number, which is that of the T1 in its pod, in bits 9..0, plane in bits 12..10 (the layout
:class:`mrc_host.config.UsidTemplate` reads). Over a T2: its number in bits 22..13, and that of the T1 on the way down,
in its pod, in bits 31..23. A fabric has fewer T1s than ten bits can count: the highest of them are free to tell
entropy values of one path apart (``ev_uplink_bits``).

Interfaces. A host's port p is ``h1-eth<p>`` in its own namespace. A switch's ports live in the root namespace, with
a tag of three characters per fabric in front so that two fabrics can exist at once; the kernel allows 15 characters.
"""

from __future__ import annotations

import hashlib
import string
from ipaddress import IPv6Address, IPv6Network

from topologies.fabric import Fabric, FabricNic, LinkEnd, Switch, Tier
from topologies.up_down import FabricPath

KIND_T0, KIND_T1, KIND_NIC, KIND_T2 = 1, 2, 3, 4
MAX_USIDS = 6  # in one address, behind a block of 32 bits: three tiers up and down and the NIC take them all
USID_BITS = 16
USID_KIND_SHIFT = 13
USID_PLANE_SHIFT = 10
EV_PLANE_SHIFT, EV_PLANE_BITS = 10, 3
EV_T2_SHIFT, EV_T2_BITS = 13, 10
EV_DOWNLINK_SHIFT, EV_DOWNLINK_BITS = 23, 9
KERNEL_GATEWAY = IPv6Address("fe80::1")  # never resolved: hosts hold a static neighbour entry for it on every port

_KINDS = {Tier.T0: KIND_T0, Tier.T1: KIND_T1, Tier.T2: KIND_T2}
_MAC_LOCAL = 0x02  # locally administered, unicast


# uSIDs


def usid(kind: int, plane: int, number: int) -> int:
    """16-bit uSID of a switch or NIC."""
    return kind << USID_KIND_SHIFT | plane << USID_PLANE_SHIFT | number


def switch_usid(switch: Switch) -> int:
    """16-bit uSID of a switch."""
    return usid(_KINDS[switch.tier], switch.plane, switch.index)


def nic_usid(nic: FabricNic, plane: int) -> int:
    """16-bit uSID of a NIC's port in a plane: its last hop."""
    return usid(KIND_NIC, plane, nic.downlink)


def locator(fabric: Fabric, own_usid: int) -> int:
    """First 48 bits of an address whose active uSID is `own_usid`: the block and the uSID."""
    return fabric.usid_block << USID_BITS | own_usid


def usid_address(fabric: Fabric, *usids: int) -> int:
    """128-bit address that carries the block and up to six uSIDs, first hop first."""
    if len(usids) > MAX_USIDS:
        raise ValueError(f"an address carries at most {MAX_USIDS} uSIDs, not {len(usids)}")
    value = fabric.usid_block
    for position in range(MAX_USIDS):
        value = value << USID_BITS | (usids[position] if position < len(usids) else 0)
    return value


def entropy_value(plane: int, uplink: int, t2: int = 0, downlink: int = 0) -> int:
    """The entropy value of a path: plane and T0 uplink (0 for a destination on the same T0).

    Over a T2 also its number, and that of the T1 of the destination's pod, counted in the pod.
    """
    return downlink << EV_DOWNLINK_SHIFT | t2 << EV_T2_SHIFT | plane << EV_PLANE_SHIFT | uplink


def path_ev(path: FabricPath) -> int:
    """The entropy value of a path."""
    return entropy_value(path.plane, path.uplink, path.t2, path.downlink)


def ev_uplink_bits(fabric: Fabric) -> int:
    """How many bits of an entropy value name the uplink."""
    return max(fabric.t1_per_pod - 1, 0).bit_length()


def plane_of(ev: int) -> int:
    """The plane that an entropy value names."""
    return ev >> EV_PLANE_SHIFT & (1 << EV_PLANE_BITS) - 1


# IPv6 addresses


def t0_prefix(fabric: Fabric, t0: int) -> IPv6Network:
    """The /64 of every NIC and kernel address below a T0 number."""
    return IPv6Network((fabric.address_prefix << 80 | t0 << 64, 64))


def nic_address(fabric: Fabric, nic: FabricNic) -> IPv6Address:
    """The NIC's own address: the inner destination of MRC packets."""
    return t0_prefix(fabric, nic.t0).network_address + (nic.downlink + 1)


def kernel_prefix(fabric: Fabric, t0: int, plane: int) -> IPv6Network:
    """The /96 of the kernel addresses of one plane below a T0 number."""
    return IPv6Network((int(t0_prefix(fabric, t0).network_address) | 1 << 48 | plane << 32, 96))


def kernel_address(fabric: Fabric, nic: FabricNic, plane: int) -> IPv6Address:
    """The address that the host's kernel answers on at its port of a plane (ping and other tools; never MRC)."""
    return kernel_prefix(fabric, nic.t0, plane).network_address + (nic.downlink + 1)


# MAC addresses


def mac(fabric: Fabric, end: LinkEnd) -> bytes:
    """MAC address (6 bytes) of a switch's or NIC's port: 02, kind and plane, two bytes of number, two of port."""
    if end.node in fabric.nic_names:
        nic = fabric.nic(end.node)
        kind, plane, number = KIND_NIC, end.port, nic.index
    else:
        switch = fabric.switch(end.node)
        kind, plane, number = _KINDS[switch.tier], switch.plane, switch.index
    return bytes((_MAC_LOCAL, kind << 4 | plane)) + number.to_bytes(2, "big") + end.port.to_bytes(2, "big")


# Interfaces


def tag(fabric_name: str) -> str:
    """Three characters that stand for a fabric in interface names, of 33,696.

    They may collide: the builder refuses the second. More would leave switches of a hundred ports too little.
    """
    letters, others = string.ascii_lowercase, string.digits + string.ascii_lowercase
    number, first = divmod(int.from_bytes(_digest(fabric_name)[:4], "big"), len(letters))
    number, second = divmod(number, len(others))
    return letters[first] + others[second] + others[number % len(others)]


def interface_group(fabric_name: str) -> int:
    """Kernel interface group of a fabric's switch interfaces; the kernel can delete a whole group at once."""
    return 0x6D00_0000 | int.from_bytes(_digest(fabric_name)[4:7], "big")


def interface_name(fabric: Fabric, end: LinkEnd) -> str:
    """Interface of a switch's port (root namespace) or a NIC's port (its host's namespace); at most 15 characters."""
    if end.node in fabric.nic_names:
        return f"{end.node}-eth{end.port}"
    return f"{tag(fabric.name)}-{end.node.replace('@', '')}-{end.port}"


def unplugged_name(fabric: Fabric, end: LinkEnd) -> str:
    """Interface at the other end of a NIC's port that no link is plugged into (root namespace)."""
    return f"{tag(fabric.name)}-{end.node}-x{end.port}"


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
