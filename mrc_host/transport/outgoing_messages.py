"""Messages that a requester sends: the one that is cut into packets, and how many were started and completed.

Requests start in order, each once the one before it is cut up, and complete in order, when a transport ACK says so. The
peer limits how many WRITE_WITH_IMM may be started and not completed (docs/protocol.md R2.5).
"""

from __future__ import annotations

from mrc_host.transport.data_packets import DataPackets
from mrc_host.transport.sent_packet import SentPacket
from mrc_host.transport.work import SendQueue, Wqe
from mrc_host.wire.psn import HALF, MASK


class OutgoingMessages:
    """Those of one life of a queue pair; message numbers are unbounded integers here."""

    __slots__ = ("_completed", "_completed_wimm", "_max_wimm", "_packets", "_sends", "_started", "_wimm", "current")

    def __init__(self, sends: SendQueue, packets: DataPackets, max_wimm: int) -> None:
        """The peer lets `max_wimm` WRITE_WITH_IMM be under way."""
        self._sends = sends
        self._packets = packets
        self._max_wimm = max_wimm
        self._started = 0
        self._wimm = 0  # of these, with immediate data
        self._completed = 0
        self._completed_wimm = 0
        self.current: Wqe | None = None  # started, and not cut up yet

    def may_start(self) -> bool:
        """Whether there is a request that may start."""
        waiting = self._sends.waiting
        if not waiting:
            return False
        head = waiting[0]
        if head.view is None:
            return False
        return not head.with_imm or self._wimm - self._completed_wimm < self._max_wimm

    def pending(self) -> bool:
        """Whether any packet was never sent, whether or not it may leave."""
        waiting = self._sends.waiting
        return self.current is not None or (bool(waiting) and waiting[0].view is not None)

    def start(self, psn: int) -> None:
        """Start the oldest request, which may start, with its first packet at `psn`."""
        wqe = self._sends.start()
        self.current = wqe
        wqe.msn = self._started
        self._started += 1
        wqe.rqmsn = self._wimm
        wqe.first_psn = psn
        self._packets.begin(wqe)
        if wqe.with_imm:
            self._wimm += 1

    def segment(self, wqe: Wqe, record: SentPacket) -> None:
        """Put the next segment of the current message, `wqe`, into `record`."""
        if self._packets.segment(wqe, record):
            self.current = None

    def completed_by(self, msn: int, behind: int, una: int) -> int:
        """How many more requests are complete by a transport ACK with message count `msn` (24 bit).

        It acknowledges all PSNs before `behind`; `una` is the oldest that is not acknowledged. -1: the peer cannot have
        completed so many with these PSNs, or not more PSNs with fewer messages.
        """
        count = (msn - self._completed) & MASK
        if count >= HALF:  # overtaken by a newer one
            return 0 if behind <= una else -1
        outstanding = self._sends.outstanding
        if count and (count > len(outstanding) or not 0 <= outstanding[count - 1].last_psn < behind):
            return -1
        return count

    def complete(self, count: int) -> None:
        """The oldest `count` requests are complete."""
        outstanding = self._sends.outstanding
        for number in range(count):
            self._completed_wimm += outstanding[number].with_imm
        self._completed += count
        self._sends.complete(count)
