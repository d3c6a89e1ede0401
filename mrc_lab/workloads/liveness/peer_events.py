"""Events of a rank's peers, and the notices in which ranks pass them on: the immediate value of a bare WRITE_WITH_IMM.

The highest 8 bits of a notice say what it is, the other 24 are a rank or a number of operations.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mrc_common.units import show_time

VALUE_BITS = 24
_MASK = (1 << VALUE_BITS) - 1


class LossReason(enum.Enum):
    """Why a rank is lost; the value is for people."""

    GONE = "its process has ended, or its NIC has restarted"  # its NIC answers that the queue pair is gone
    SILENT = "its NIC answers on no plane"
    ISOLATED = "its NIC has no link on any plane"
    NO_AGENT = "its NIC is gone"  # the own one, whose agent has ended: nothing can be reported to others


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A rank is lost. `silence` is the nanoseconds since its last answer here, `reporter` the rank that reported it."""

    rank: int
    host: str
    reason: LossReason
    silence: int
    reporter: int | None = None

    def __str__(self) -> str:
        source = f", rank {self.reporter} reports" if self.reporter is not None else ""
        return (
            f"rank {self.rank} ({self.host}) is lost: {self.reason.value}"
            f" (last answer {show_time(self.silence)} ago{source})"
        )


@dataclass(frozen=True, slots=True)
class PeerLeft:
    """A rank has left the group in order, or is about to, after so many collective operations (modulo 2**24)."""

    rank: int
    host: str
    operations: int

    def before(self, number: int) -> bool:
        """Whether it left before the collective operation `number` (1 is the first)."""
        return 0 < (number - self.operations) & _MASK <= _MASK // 2

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host}) has left the group"


@dataclass(frozen=True, slots=True)
class PeerFailed:
    """A rank has given up the group after an error of its own."""

    rank: int
    host: str

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host}) has given up the group after an error, which it reports itself"


PeerEvent = PeerLost | PeerLeft | PeerFailed


class Notice(enum.IntEnum):
    """Kinds of notices."""

    LEFT = 1  # the number of operations
    FAILED = 2
    GONE = 3  # a rank
    SILENT = 4  # a rank
    ISOLATED = 5  # a rank
    RETIRED = 6  # the number of operations; the rank is watched until it has left

    def pack(self, value: int = 0) -> int:
        """The immediate value."""
        return self << VALUE_BITS | value & _MASK


LOSSES = {
    Notice.GONE: LossReason.GONE,
    Notice.SILENT: LossReason.SILENT,
    Notice.ISOLATED: LossReason.ISOLATED,
}


def parse_notice(imm: int) -> tuple[Notice, int] | None:
    """Kind and value of an immediate value; None for one that is no notice."""
    try:
        return Notice(imm >> VALUE_BITS), imm & _MASK
    except ValueError:
        return None


def loss_notice(loss: PeerLost) -> int:
    """The notice that reports a loss."""
    kind = next(kind for kind, reason in LOSSES.items() if reason is loss.reason)
    return kind.pack(loss.rank)
