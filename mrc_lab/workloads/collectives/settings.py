"""Settings of a collective: how data moves between two ranks."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.workloads.collectives.pacing import PacingSettings

CHUNK_BYTES = 1 << 17  # a host's CPU time is by the chunk rather than by the byte
SLOTS = 16
WIDEST_ITEM = 16  # bytes of the largest array element (complex128)
_ALIGN = 64  # slots start on cache lines


class Peers(enum.Enum):
    """To whom a rank has streams: its neighbours in the ring (enough for all but all-to-all), or every other rank."""

    RING = "ring"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What every stream of a communicator is made with; all ranks need the same.

    `chunk_bytes` is the unit of pipelining, `slots` the number of chunks that a sender may be ahead of its receiver,
    `tail_bytes` the part of a chunk that goes as WRITE_WITH_IMM (one path MTU costs no extra packet). Half of all slots
    should hold what a rank sends in a round-trip time, or the fabric idles while slots are given back. Chunks take the
    `queue_pairs` of a stream in turn, or with `split` each is divided among all of them. At most `unacknowledged`
    chunks may have been posted and not acknowledged, 0 for as many as there are slots. `pacing` is what the library
    itself takes; nothing by default.
    """

    chunk_bytes: int = CHUNK_BYTES
    slots: int = SLOTS
    tail_bytes: int = 4096
    queue_pairs: int = 1
    split: bool = False
    unacknowledged: int = 0
    qp_type: QpType = QpType.MRC
    attributes: QpAttributes = field(default_factory=QpAttributes)
    pacing: PacingSettings = field(default_factory=PacingSettings)

    def __post_init__(self) -> None:
        if self.chunk_bytes < WIDEST_ITEM:
            raise ValueError(f"a chunk has at least {WIDEST_ITEM} bytes, not {self.chunk_bytes}")
        if min(self.slots, self.tail_bytes, self.queue_pairs) < 1:
            raise ValueError("slots, tail_bytes and queue_pairs must be at least 1")
        if self.unacknowledged < 0:
            raise ValueError(f"unacknowledged is 0 or more, not {self.unacknowledged}")

    @property
    def window(self) -> int:
        """Chunks that may be under way: no more than WRITE_WITH_IMMs may be."""
        return max(1, min(self.slots, self.immediates))

    @property
    def unacknowledged_most(self) -> int:
        """Chunks that may be posted and not acknowledged."""
        return min(self.unacknowledged or self.window, self.window)

    @property
    def immediates(self) -> int:
        """WRITE_WITH_IMMs that one queue pair may have in flight."""
        return min(self.attributes.max_wimm, self.attributes.max_wimm_dest)

    @property
    def slot_bytes(self) -> int:
        """Room for one chunk."""
        return -(-self.chunk_bytes // _ALIGN) * _ALIGN
