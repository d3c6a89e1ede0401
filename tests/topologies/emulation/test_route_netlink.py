"""Against pyroute2, which writes and reads the same messages, and against the kernel where this is root."""

from __future__ import annotations

import os
import socket
import subprocess
from ipaddress import IPv6Address, IPv6Network

import pytest
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from topologies.emulation import kernel_switch, namespaces, requirements
from topologies.emulation.errors import RequirementError
from topologies.emulation.kernel_programming import SID_LINK
from topologies.emulation.route_netlink import (
    IFF_NOARP,
    IFF_UP,
    PROTOCOL,
    KernelRoute,
    Neighbour,
    RouteSocket,
    Shift,
    decode_routes,
    encode_route,
)

PREFIX = IPv6Network("fc00:0:4001::/48")
GATEWAY = IPv6Address("fe80::1")
NEWROUTE = 24
ONE = KernelRoute(PREFIX, frozenset({(7, GATEWAY)}))
SEVERAL = KernelRoute(IPv6Network("fd00:6d:7263:1::/64"), frozenset({(7, GATEWAY), (9, GATEWAY), (11, GATEWAY)}))
OWN = KernelRoute(IPv6Network("fc00:0:2000::/48"), frozenset({(3, None)}), Shift(32, 16))


def decoded(route: KernelRoute) -> rtmsg:
    body = encode_route(route)
    message = rtmsg((16 + len(body)).to_bytes(4, "little") + NEWROUTE.to_bytes(2, "little") + bytes(10) + body)
    message.decode()
    return message


@pytest.mark.parametrize("route", [ONE, SEVERAL, OWN], ids=["one", "several", "own"])
def test_what_is_encoded_is_decoded(route: KernelRoute) -> None:
    assert list(decode_routes([(NEWROUTE, encode_route(route))])) == [route]


def test_pyroute2_reads_a_route() -> None:
    message = decoded(ONE)
    assert (message["family"], message["dst_len"], message["proto"]) == (socket.AF_INET6, 48, PROTOCOL)
    assert message.get("dst") == "fc00:0:4001::"
    assert (message.get("oif"), message.get("gateway")) == (7, "fe80::1")


def test_pyroute2_reads_a_route_of_several_hops() -> None:
    hops = decoded(SEVERAL).get("multipath")
    assert [(hop["oif"], hop.get("gateway")) for hop in hops] == [(index, "fe80::1") for index in (7, 9, 11)]


def test_hops_that_the_kernel_lists_one_by_one_are_one_route() -> None:
    parts = [(NEWROUTE, encode_route(KernelRoute(SEVERAL.prefix, frozenset({hop})))) for hop in SEVERAL.hops]
    assert list(decode_routes(parts)) == [SEVERAL]


def test_routes_of_others_are_passed_over() -> None:
    body = bytearray(encode_route(ONE))
    body[5] = 2  # RTPROT_KERNEL
    assert list(decode_routes([(NEWROUTE, bytes(body))])) == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
class TestKernel:
    """In a namespace of its own."""

    def test_routes_and_neighbours_are_there_as_they_were_made_and_iproute2_sees_them(self) -> None:
        try:
            requirements.check_srv6()
        except RequirementError as error:
            pytest.skip(str(error))

        def work() -> None:
            kernel_switch.make_sid_link()
            with RouteSocket() as kernel:
                (index,) = (link.index for link in kernel.links() if link.name == SID_LINK[0])
                one = KernelRoute(PREFIX, frozenset({(index, GATEWAY)}))
                own = KernelRoute(OWN.prefix, frozenset({(index, None)}), OWN.shift)
                neighbour = Neighbour(index, GATEWAY, bytes.fromhex("020000000001"))
                for route in (one, own):
                    kernel.add_route(route)
                kernel.add_neighbour(neighbour)
                assert set(kernel.routes()) == {one, own}
                assert kernel.neighbours() == [neighbour]
                shown = subprocess.run(["ip", "-6", "-d", "route"], capture_output=True, text=True, check=True).stdout
                assert "encap seg6local action End" in shown
                assert f"via {GATEWAY} dev sid0 proto {PROTOCOL}" in shown
                kernel.delete_route(PREFIX)
                assert kernel.routes() == [own]
                with pytest.raises(OSError, match="No such process"):
                    kernel.delete_route(PREFIX)
                kernel.set_link(index, off=IFF_UP)
                assert kernel.routes() == []  # the kernel drops them
                (flags,) = (link.link_flags for link in kernel.links() if link.index == index)
                assert flags & (IFF_UP | IFF_NOARP) == IFF_NOARP

        namespaces.run_in_new(work)
