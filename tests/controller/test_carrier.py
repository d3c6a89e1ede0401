"""Netlink messages as the kernel sends them, and those it never would."""

from __future__ import annotations

import asyncio
import os
import random
import struct
import subprocess

import pytest

from controller.carrier import CarrierWatch
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric, Link

FABRIC = multi_plane_clos("carr", planes=1, t0=2, t1=1, hosts=2)
LINK = FABRIC.links[0]
UP, LOWER_UP = 0x1, 0x10000
NEW, DELETED = 16, 17


def interface(link: Link, fabric: Fabric = FABRIC) -> str:
    return addressing.interface_name(fabric, link.t0_end)


def message(name: str, flags: int, kind: int = NEW) -> bytes:
    """A link message with another attribute before the name, as the kernel pads them."""
    text = name.encode() + b"\0"
    attributes = struct.pack("=HHI", 8, 99, 5) + struct.pack("=HH", 4 + len(text), 3) + text + bytes(-len(text) % 4)
    body = struct.pack("=BxHiII", 0, 1, 7, flags, 0) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


@pytest.fixture
def heard() -> list[tuple[str, bool]]:
    return []


@pytest.fixture
def watch(heard: list[tuple[str, bool]]) -> CarrierWatch:
    return CarrierWatch(FABRIC, lambda link, up: heard.append((link, up)))


def test_a_change_is_told_once(watch: CarrierWatch, heard: list[tuple[str, bool]]) -> None:
    name = interface(LINK)
    watch.take(message(name, UP | LOWER_UP))
    assert heard == [], "links count as up"
    watch.take(message(name, UP) + message(name, UP) + message(name, 0))
    assert heard == [(LINK.name, False)]
    watch.take(message(name, UP | LOWER_UP) + message("eth7", 0))
    assert heard == [(LINK.name, False), (LINK.name, True)]


def test_an_interface_that_is_gone_is_down(watch: CarrierWatch, heard: list[tuple[str, bool]]) -> None:
    watch.take(message(interface(LINK), UP | LOWER_UP, DELETED))
    assert heard == [(LINK.name, False)]


def test_what_no_kernel_would_send_is_passed_over(watch: CarrierWatch, heard: list[tuple[str, bool]]) -> None:
    whole = message(interface(LINK), UP)
    for length in range(len(whole)):
        watch.take(whole[:length])
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(2000):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        watch.take(bytes(damaged))
        watch.take(chance.randbytes(chance.randrange(200)))
    assert {link for link, _ in heard} <= {link.name for link in FABRIC.links}


@pytest.mark.root
def test_the_kernel_tells_of_a_link_of_ours() -> None:
    fabric = multi_plane_clos(f"cw{os.getpid() % 10000}", planes=1, t0=1, t1=0, hosts=1)
    name = interface(fabric.links[0], fabric)
    heard: list[tuple[str, bool]] = []

    def ip(*words: str) -> None:
        subprocess.run(["ip", "link", *words], check=True)

    async def listen() -> None:
        changed = asyncio.Event()

        def told(link: str, up: bool) -> None:
            heard.append((link, up))
            changed.set()

        watch = CarrierWatch(fabric, told)
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
    assert heard == [(fabric.links[0].name, False), (fabric.links[0].name, True)]
