"""A message of which some packets have arrived: its place in memory and in the sequence of packets, as far as known.

Packets carry their own address, not their index, so the start of a message may be unknown for a while (docs/protocol.md
§10.2); until then its packets are recognised by the difference of address and PSN.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.memory import Region
from mrc_host.wire import opcodes

UNKNOWN: Final = (1 << 62) - 1  # last PSN of a message whose start is not known


class Message:
    """One incomplete message. `first` is -1 and `last` is UNKNOWN until its start is known."""

    __slots__ = (
        "count",
        "first",
        "highest",
        "imm",
        "included",
        "last",
        "length",
        "lowest",
        "offset",
        "origin",
        "region",
        "rkey",
        "solicited",
        "tail",
        "with_imm",
    )

    def __init__(self, origin: int, count: int, length: int, tail: int, rkey: int, region: Region) -> None:
        self.first = -1  # PSN
        self.last = UNKNOWN
        self.origin = origin  # address of a packet minus its PSN times the path MTU: the same for all its packets
        self.offset = origin - region.address
        self.count = count  # packets
        self.length = length
        self.tail = tail  # bytes in the last packet
        self.rkey = rkey
        self.region = region
        self.lowest = UNKNOWN  # lowest PSN placed before the start was known
        self.highest = -1
        self.with_imm = False
        self.imm = 0
        self.solicited = False
        self.included = False  # in the receive state, so that the datapath in C places its packets

    def fits(self, lowest: int, highest: int, mtu: int) -> bool:
        """Whether the message lies in its region for at least one start between two PSNs."""
        region = self.region
        least = -(self.offset // mtu)  # the first PSN at or after the region's first byte
        most = (region.length - self.length - self.offset) // mtu
        return max(lowest, least) <= min(highest, most)

    def has_place_for(self, kind: int, psn: int, size: int, mtu: int) -> bool:
        """Whether packet `psn`, of segment kind `kind` and `size` bytes, fits this message, whose start is known."""
        last = psn == self.last
        return (
            self.first <= psn <= self.last
            and size == (self.tail if last else mtu)
            and (kind >= opcodes.LAST) == last
            and (kind == 0 or kind >= opcodes.ONLY) == (psn == self.first)
        )
