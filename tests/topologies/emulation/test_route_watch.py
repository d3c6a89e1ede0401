"""In a namespace of its own: changes by others are noticed, our own are not, and more than fit are one of others."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from ipaddress import IPv6Address, IPv6Network

import pytest

from topologies.emulation import kernel_switch, namespaces
from topologies.emulation.kernel_programming import SID_LINK
from topologies.emulation.route_netlink import KernelRoute, Neighbour, RouteSocket
from topologies.emulation.route_watch import RouteWatch

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

GATEWAY = IPv6Address("fe80::1")
PREFIX = IPv6Network("fd00:6d:7263:1::/64")


def ip(*words: str) -> None:
    subprocess.run(["ip", "-6", *words], check=True)


def in_namespace(work: Callable[[RouteSocket, RouteWatch, int], None]) -> None:
    def run() -> None:
        kernel_switch.make_sid_link()
        with RouteSocket() as kernel, closing(RouteWatch(kernel.port)) as watch:
            work(kernel, watch, socket.if_nametoindex(SID_LINK[0]))

    namespaces.run_in_new(run)


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
