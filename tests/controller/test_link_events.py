"""Links of the fabric that lose their carrier, among all interfaces of the machine."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from controller.link_events import LinkEvents
from mrc_common.link_monitor import LinkState
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric, Link

FABRIC = multi_plane_clos("carr", planes=1, t0=2, t1=1, hosts=2)
LINK = FABRIC.links[0]


def interface(link: Link, fabric: Fabric = FABRIC) -> str:
    return addressing.interface_name(fabric, link.switch_end)


def state(name: str, up: bool, index: int = 7) -> LinkState:
    return LinkState(name, index, up, 1500)


@pytest.fixture
def changes() -> list[tuple[str, bool]]:
    return []


@pytest.fixture
def watch(changes: list[tuple[str, bool]]) -> LinkEvents:
    return LinkEvents(FABRIC, lambda link, up: changes.append((link, up)))


def test_a_link_change_is_reported_once(watch: LinkEvents, changes: list[tuple[str, bool]]) -> None:
    name = interface(LINK)
    watch.changed(state(name, True))
    assert changes == [], "links count as up"
    for _ in range(3):
        watch.changed(state(name, False))
    assert changes == [(LINK.name, False)]
    watch.changed(state(name, True))
    watch.changed(state("eth7", False))
    assert changes == [(LINK.name, False), (LINK.name, True)]


def test_only_a_link_that_had_its_carrier_has_lost_it(watch: LinkEvents) -> None:
    """One of a fabric that comes up is down at first."""
    watch.changed(state(interface(LINK), False))
    assert watch.lost == frozenset()
    watch.changed(state(interface(LINK), True))
    assert watch.lost == frozenset()
    watch.changed(state(interface(LINK), False))
    assert watch.lost == {LINK.name}
    watch.changed(state(interface(LINK), True))
    watch.changed(state(interface(LINK), False, index=0))
    assert watch.lost == {LINK.name}, "it is gone altogether"
    other = FABRIC.links[1]
    watch.changed(LinkState(interface(other), 8, False, had_carrier=True))
    assert watch.lost == {LINK.name, other.name}, "it had its carrier before anybody looked"


def test_a_removed_interface_counts_as_down(watch: LinkEvents, changes: list[tuple[str, bool]]) -> None:
    watch.changed(state(interface(LINK), False, index=0))
    assert changes == [(LINK.name, False)]


@pytest.mark.root
def test_carrier_changes_are_read_from_the_kernel() -> None:
    fabric = multi_plane_clos(f"cw{os.getpid() % 10000}", planes=1, t0=1, t1=0, hosts=1)
    name = interface(fabric.links[0], fabric)
    changes: list[tuple[str, bool]] = []

    def ip(*words: str) -> None:
        subprocess.run(["ip", "link", *words], check=True)

    async def listen() -> None:
        changed = asyncio.Event()

        def on_change(link: str, up: bool) -> None:
            changes.append((link, up))
            changed.set()

        watch = LinkEvents(fabric, on_change)
        watch.start()
        try:
            for state in ("down", "up"):
                ip("set", name, state)
                await asyncio.wait_for(changed.wait(), 10)
                changed.clear()
        finally:
            watch.stop()

    ip("add", name, "type", "veth", "peer", "name", f"{name}x")
    try:
        ip("set", f"{name}x", "up")
        ip("set", name, "up")
        asyncio.run(listen())
    finally:
        ip("del", name)
    assert changes == [(fabric.links[0].name, False), (fabric.links[0].name, True)]


@pytest.mark.root
def test_a_link_that_is_down_at_the_start_is_reported() -> None:
    fabric = multi_plane_clos(f"cd{os.getpid() % 10000}", planes=1, t0=1, t1=0, hosts=1)
    name = interface(fabric.links[0], fabric)
    changes: list[tuple[str, bool]] = []

    async def listen() -> None:
        watch = LinkEvents(fabric, lambda link, up: changes.append((link, up)))
        watch.start()
        watch.stop()

    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}x"], check=True)
    try:
        asyncio.run(listen())
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)
    assert changes == [(fabric.links[0].name, False)]


@pytest.mark.root
def test_a_link_that_lost_its_carrier_before_the_start_is_known() -> None:
    fabric = multi_plane_clos(f"ce{os.getpid() % 10000}", planes=1, t0=1, t1=0, hosts=1)
    name = interface(fabric.links[0], fabric)

    async def lost() -> frozenset[str]:
        watch = LinkEvents(fabric, lambda link, up: None)
        watch.start()
        watch.stop()
        return watch.lost

    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}x"], check=True)
    try:
        assert asyncio.run(lost()) == frozenset(), "it has never been up"
        for one, state in ((name, "up"), (f"{name}x", "up"), (name, "down")):
            subprocess.run(["ip", "link", "set", one, state], check=True)
        assert asyncio.run(lost()) == {fabric.links[0].name}
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)
