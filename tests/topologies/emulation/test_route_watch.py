"""In a namespace of its own: changes by others are noticed, our own are not, and more than fit are one of others."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from ipaddress import IPv6Address, IPv6Network

import pytest
from pyroute2 import IPRoute

from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.emulation import kernel_switch, namespaces
from topologies.emulation.kernel_programming import SID_LINK
from topologies.emulation.route_netlink import IFF_UP, KernelRoute, Neighbour, RouteSocket
from topologies.emulation.route_watch import RouteWatch

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

GATEWAY = IPv6Address("fe80::1")
PREFIX = IPv6Network("fd00:6d:7263:1::/64")


def ip(*words: str) -> None:
    subprocess.run(["ip", "-6", *words], check=True)


def in_namespace(work: Callable[[RouteSocket, RouteWatch, int], None]) -> None:
    def run() -> None:
        fabric = multi_plane_clos(planes=1, t0=1, t1=1, hosts=1)
        kernel_switch.prepare(fabric, fabric.switches[0])
        index = socket.if_nametoindex(SID_LINK[0])
        with RouteSocket() as kernel:
            # The kernel finds out about carrier by itself, some time later, and then makes routes.
            until(_is_up, "carrier")
            kernel.set_link(index, on=IFF_UP)  # waits for the lock under which it does
            with closing(RouteWatch(kernel.port)) as watch:
                work(kernel, watch, index)

    namespaces.run_in_new(run)


def _is_up() -> bool:
    with IPRoute() as netlink:
        links = {link.get("ifname"): link.get("operstate") for link in netlink.get_links()}
    return all(links[name] == "UP" for name in SID_LINK)


def test_changes_by_others_are_noticed_once_each_and_our_own_are_not() -> None:
    def work(kernel: RouteSocket, watch: RouteWatch, index: int) -> None:
        route = KernelRoute(PREFIX, frozenset({(index, GATEWAY)}))
        kernel.add_neighbour(Neighbour(index, GATEWAY, bytes.fromhex("020000000001")))
        kernel.add_route(route)
        assert not watch.changed()
        for words in (
            ("route", "del", str(PREFIX), "proto", "109"),
            ("neigh", "flush", "all", "nud", "permanent"),
            ("route", "add", "blackhole", "2001:db8::/32"),
        ):
            ip(*words)
            assert watch.changed(), words
            assert not watch.changed()
        kernel.add_route(route)
        kernel.delete_route(PREFIX)
        assert not watch.changed()

    in_namespace(work)


def test_what_the_kernel_could_not_keep_for_us_counts_as_a_change() -> None:
    def work(kernel: RouteSocket, watch: RouteWatch, index: int) -> None:
        with RouteSocket() as other:
            for prefix in _prefixes(4000):
                other.add_route(KernelRoute(prefix, frozenset({(index, GATEWAY)})))
                kernel.delete_route(prefix)
        assert watch.changed()
        assert not watch.changed()

    in_namespace(work)


def _prefixes(count: int) -> Iterator[IPv6Network]:
    return (IPv6Network((PREFIX.network_address + (number << 64), 64)) for number in range(count))
