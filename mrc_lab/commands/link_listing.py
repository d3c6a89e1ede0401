"""Listing of `links`."""

from __future__ import annotations

from collections.abc import Iterable

from controller.values import LinkStatus
from mrc_lab.commands.listing import Column, Listing, Row

LINKS = Listing(
    "links [PATTERN]",
    "links",
    (
        Column("link", "its name", "link"),
        Column("kind", "`nic-t0`, `t0-t1` or `t1-t2`"),
        Column("plane", "its plane"),
        Column("up", "whether both ends are up", "state", lambda row: "up" if row["up"] else "DOWN"),
        Column("rate_bps", "rate of each direction, in bits per second"),
        Column("lower_interface", "interface at the end nearer to the hosts", "lower end"),
        Column("upper_interface", "interface at the other end", "upper end"),
        Column("upward_packets", "frames sent away from the hosts"),
        Column("upward_bytes", "their bytes", "bytes up"),
        Column("downward_packets", "frames sent towards the hosts"),
        Column("downward_bytes", "their bytes", "bytes down"),
        Column("faults", "ids of the faults on it", "faults", lambda row: " ".join(row["faults"])),
    ),
)


def links(found: Iterable[LinkStatus]) -> list[Row]:
    """A row for each link."""
    return [
        {
            "link": link.name,
            "kind": link.kind.value,
            "plane": link.plane,
            "up": link.up,
            "rate_bps": link.rate_bps,
            "lower_interface": link.lower.interface,
            "upper_interface": link.upper.interface,
            "upward_packets": link.upward.packets,
            "upward_bytes": link.upward.bytes,
            "downward_packets": link.downward.packets,
            "downward_bytes": link.downward.bytes,
            "faults": list(link.fault_ids),
        }
        for link in found
    ]
