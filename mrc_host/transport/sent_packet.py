"""The record of one packet that was sent and is not acknowledged yet.

What is needed together lies together, since a record is met again when many others have been between. Compiled, numbers
take no objects of their own. Machine integers are combined with those of the same width only, and do not grow: what may
be wider, such as an address (see ``data_packets``) or a mask of planes or lanes, is calculated with an ``int``.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64, u8

from mrc_host.transport.work import Wqe

FREE: Final = 0
OUT: Final = 1
LOST: Final = 2


class SentPacket:
    """One PSN in flight. Records are reused. `older` and `newer` are its neighbours in its lane, while it is OUT."""

    __slots__ = (
        "attempts",
        "by_order",
        "followed",
        "index",
        "kind",
        "lane",
        "newer",
        "offset",
        "older",
        "plane",
        "psn",
        "sent",
        "serial",
        "size",
        "stamp",
        "state",
        "timed",
        "tried",
        "value",
        "weight",
        "wqe",
    )

    def __init__(self) -> None:
        self.older: SentPacket | None = None
        self.newer: SentPacket | None = None
        self.wqe: Wqe | None = None
        self.psn: i64 = 0
        self.sent: i64 = 0  # time of the latest transmission
        self.serial: i64 = 0
        self.weight: i32 = 0
        self.index: i32 = 0  # path
        self.value: i32 = 0  # index of its entropy value
        self.attempts: i32 = 0
        self.plane: i32 = 0
        self.lane: i32 = 0
        self.tried = 0  # planes that have lost it, since it was last lost on all of them
        self.state: u8 = FREE
        self.kind: u8 = 0  # segment kind
        self.timed = False  # a SACK has given the round-trip time of the latest transmission
        self.by_order = False  # declared lost because of arrival order on its path
        self.stamp: i32 = 0  # its 16-bit timestamp
        self.size: i32 = 0  # payload
        self.offset: i64 = 0  # in the message
        self.followed: i64 = 0  # send time of the next first transmission on its path; 0: none yet
