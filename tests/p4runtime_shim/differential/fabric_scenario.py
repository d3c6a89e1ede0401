"""Random tables and frames for the fabric's own program (p4src/)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from controller import translate
from mrc_common.p4_match import GroupRef, Lpm
from tests.p4runtime_shim.differential.vectors import own_schema
from tests.p4src.packets import NIC_A, NIC_B, Packet, mrc, plain, usids
from tests.p4src.scene import (
    CONTROL,
    DMAC,
    LASTHOP,
    NO_TRIM,
    OWN,
    RETX,
    SMAC,
    TRIMMED,
    arrival,
    departure,
    entry,
    forwarding,
    path_loss,
    route,
    trim,
    trimmable,
)
from topologies.entries import ECMP, UPLINKS, Group, Member, TableAction, TableEntry

ALWAYS = 1_000_000_000
ADAPTIVE = 24


def fabric(rng: random.Random) -> tuple[list[Any], Callable[[], bytes]]:
    """Any of the program's features, each with certainty or never: chance is not compared."""
    chosen: list[Any] = [
        Member(profile, port, TableAction("set_egress", (("port", port), ("dmac", DMAC[port]), ("smac", SMAC[port]))))
        for profile in (ECMP, UPLINKS)
        for port in range(1, 5)
    ]
    # Groups of one member: which of several is chosen differs (docs/switch.md).
    chosen += [Group(profile, port, ((port, 1),)) for profile in (ECMP, UPLINKS) for port in range(1, 5)]
    chosen += forwarding()
    entries: list[TableEntry] = [
        TableEntry("ipv6_route", (Lpm(NIC_B & ~0xFFFF, 112),), GroupRef(rng.randrange(1, 5))),
        TableEntry("ipv6_route", (Lpm(NIC_A & ~0xFFFF, rng.choice((64, 112))),), GroupRef(rng.randrange(1, 5))),
        entry("adaptive_class", ADAPTIVE, "route_adaptively"),
        TableEntry("adaptive_route", (Lpm(NIC_B & ~0xFFFF, 112),), GroupRef(rng.randrange(1, 5))),
        route(NIC_B + 7, rng.randrange(1, 5)),
        TableEntry("ecmp_seed", (Lpm(0, 0),), TableAction("set_seed", (("seed", rng.getrandbits(32)),))),
        arrival(rng.randrange(2, 5), loss=rng.choice((0, ALWAYS))),
        departure(rng.randrange(2, 5), loss=rng.choice((0, ALWAYS))),
        path_loss(usids(OWN, 0x4002, 9), ALWAYS),
        path_loss(usids(OWN, 0x4001, 9), ALWAYS, src=NIC_A + 1),
        *trimmable(0, RETX),
        trim(2, 2000, rng.choice((2500, 9000))),
        trim(4, 0, 4000, dscp=LASTHOP, keep=124),
        entry("queue_profile", 3, "tail_drop", limit=rng.choice((100, 1000))),
        entry("ecn_profile", 2, "mark_between", start=0, width=1),
    ]
    kept = [item for item in entries if rng.randrange(6)]
    return translated([*chosen, *kept]), lambda: _packet(rng)


def translated(entries: list[Any]) -> list[Any]:
    """finsy's entities."""
    return [translate.encode(item, own_schema("fabric")) for item in entries]


def _packet(rng: random.Random) -> bytes:
    dscp, ecn = rng.choice((0, 0, NO_TRIM, RETX, CONTROL, TRIMMED, 63, ADAPTIVE, ADAPTIVE)), rng.randrange(4)
    size = rng.choice((0, 15, 16, 17, 21, 64, 200, 900))
    if rng.randrange(3):
        hops = rng.choice(((OWN, 0x4001), (OWN, 0x4002), (OWN, 0x6001), (OWN,), (OWN, 7), (0x2002, 0x4001)))
        packet: Packet = mrc(*hops, rng.choice((0, 9)), size=size, dscp=dscp, ecn=ecn, sport=rng.getrandbits(16))
    else:
        dst = rng.choice((NIC_B, NIC_B + 7, NIC_B + rng.randrange(1000), NIC_A + 3, 1))
        packet = plain(dst, size=size, dscp=dscp, ecn=ecn, sport=rng.getrandbits(16), label=rng.getrandbits(20))
    if rng.randrange(5) == 0:
        packet = packet.with_outer(src=NIC_A + 1)
    if rng.randrange(8) == 0:
        packet = packet.with_outer(hops=rng.choice((0, 1, 2, 255)))
    return packet.pack()
