"""What a machine on a link answers, reports to the sender or believes: neighbours, routers, groups, echoes, errors.

A switch does none of this. Nothing here is for somebody behind it, or gets there.
"""

from __future__ import annotations

from ipaddress import IPv6Address

from scapy.layers import inet6
from scapy.layers.inet import IP
from scapy.layers.l2 import ARP, Ether

from topologies import addressing, paths
from topologies.fabric import Fabric


def questions(fabric: Fabric) -> list[bytes]:
    """Frames of h1 to its T0, or to all there."""
    config = paths.nic_config(fabric, fabric.nic("h1"))
    mac, gateway_mac = config.ports[0].mac.hex(":"), config.ports[0].gateway_mac.hex(":")
    (target,) = (peer for peer in config.destinations if peer.name == "h3")
    listed, address = (
        str(IPv6Address(packed)) for packed in (target.template.address(addressing.entropy_value(0, 0)), config.address)
    )
    near, all_nodes, gateway, prefix = "fe80::1234", "ff02::1", str(addressing.KERNEL_GATEWAY), "2001:db8::"
    on_link = inet6.ICMPv6NDOptPrefixInfo(prefix=prefix, prefixlen=64)
    wrong_mac = inet6.ICMPv6NDOptDstLLAddr(lladdr="02:ee:ee:ee:ee:ee")
    unknown = inet6.IPv6ExtHdrHopByHop(options=[inet6.HBHOptUnknown(otype=0xC5, optlen=2, optdata=b"ab")])
    alert = inet6.IPv6ExtHdrHopByHop(options=[inet6.RouterAlert()])
    ipv6 = [
        inet6.IPv6(src=near, dst=all_nodes) / inet6.ICMPv6EchoRequest(data=b"who"),
        inet6.IPv6(src=address, dst="ff02::2") / inet6.ICMPv6EchoRequest(data=b"who"),
        inet6.IPv6(src=near, dst="ff02::2", hlim=255) / inet6.ICMPv6ND_RS(),
        inet6.IPv6(src=address, dst=gateway, hlim=255) / inet6.ICMPv6ND_NS(tgt=gateway),
        inet6.IPv6(src=gateway, dst=all_nodes, hlim=255) / inet6.ICMPv6ND_NA(tgt=gateway, O=1) / wrong_mac,
        inet6.IPv6(src=gateway, dst=all_nodes, hlim=255) / inet6.ICMPv6ND_RA(routerlifetime=1800) / on_link,
        inet6.IPv6(src=gateway, dst=all_nodes, hlim=255) / inet6.ICMPv6ND_Redirect(tgt=near, dst=listed),
        inet6.IPv6(src=near, dst=all_nodes, hlim=1) / alert / inet6.ICMPv6MLQuery2(mrd=1),
        inet6.IPv6(src=address, dst=prefix) / inet6.ICMPv6EchoRequest(data=b"no route"),
        inet6.IPv6(src=address, dst=listed, hlim=1) / inet6.ICMPv6EchoRequest(data=b"too far"),
        inet6.IPv6(src=address, dst=listed) / unknown / inet6.ICMPv6EchoRequest(data=b"report this option"),
    ]
    others = [
        ARP(psrc="10.0.0.1", pdst="127.0.0.1"),
        IP(src="10.0.0.1", dst="224.0.0.1", ttl=1, proto=2) / bytes.fromhex("1101eefe00000000"),  # an IGMP query
    ]
    return [bytes(Ether(src=mac, dst=to) / packet) for to in (gateway_mac, "33:33:00:00:00:01") for packet in ipv6] + [
        bytes(Ether(src=mac, dst="ff:ff:ff:ff:ff:ff") / packet) for packet in others
    ]
