"""One switch with four ports and what its tables hold in most tests: own uSID 0x2001, neighbours on ports 2 to 4."""

from __future__ import annotations

from mrc_common.p4_match import Exact, Lpm, MemberRef, Ternary
from tests.p4src.packets import BLOCK, DMAC, MRC_PORT, SMAC
from topologies.entries import TableAction, TableEntry

OWN = 0x2001
NEXT = {0x4001: 2, 0x4002: 3, 0x6001: 4}  # uSID -> port
CONTROL, RETX, NO_TRIM, TRIMMED, LASTHOP = 46, 8, 4, 12, 16


def entry(table: str, key: int | tuple[int, ...], action: str, **args: int) -> TableEntry:
    keys = key if isinstance(key, tuple) else (key,)
    return TableEntry(table, tuple(map(Exact, keys)), TableAction(action, tuple(args.items())))


def forwarding() -> list[TableEntry]:
    """Own uSID, neighbours, classes."""
    return [
        entry("usid_local", BLOCK << 16 | OWN, "usid_shift"),
        *(
            entry("usid_next", BLOCK << 16 | usid, "set_egress", port=port, dmac=DMAC[port], smac=SMAC[port])
            for usid, port in NEXT.items()
        ),
        *(entry("traffic_class", dscp, "set_priority", priority=7) for dscp in (CONTROL, TRIMMED, LASTHOP)),
        entry("traffic_class", RETX, "set_priority", priority=1),
    ]


def route(dst: int, member: int, prefix: int = 128) -> TableEntry:
    return TableEntry("ipv6_route", (Lpm(dst, prefix),), MemberRef(member))


def trim(port: int, threshold: int, limit: int, *, dscp: int = TRIMMED, keep: int = 108) -> TableEntry:
    return entry("queue_profile", port, "trim", threshold=threshold, limit=limit, dscp=dscp, keep=keep)


def trimmable(*dscps: int) -> list[TableEntry]:
    return [entry("trimmable", (dscp, MRC_PORT), "trimmable_data") for dscp in dscps]


def arrival(port: int | None, *, loss: int = 0, corruption: int = 0, blackhole: bool = False) -> TableEntry:
    """A fault on arrival at a port, or at any."""
    key = Ternary(0, 0) if port is None else Ternary(port, 0x1FF)
    action = (
        TableAction("blackhole")
        if blackhole
        else TableAction("impair", (("loss_ppb", loss), ("corrupt_ppb", corruption)))
    )
    return TableEntry("arrival_fault", (key,), action, priority=2 if port is None else 1)


def departure(port: int, *, loss: int = 0, corruption: int = 0) -> TableEntry:
    return entry("departure_fault", port, "impair", loss_ppb=loss, corrupt_ppb=corruption)


def path_loss(dst: int, loss: int, *, src: int | None = None, mask: int = 2**128 - 1) -> TableEntry:
    sender = Ternary(0, 0) if src is None else Ternary(src, 2**128 - 1)
    return TableEntry(
        "path_fault", (Ternary(dst & mask, mask), sender), TableAction("lossy_path", (("loss_ppb", loss),)), 1
    )
