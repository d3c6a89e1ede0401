"""Model of the receiving half of an RC queue pair: what each packet changes, and how it is answered.

The oracle of ``mrc_host/datapath/rc_receive_state.h`` and ``mrc_host/transport/roce/responder.py``, written from the
rules of RoCEv2 and docs/protocol.md: packets are taken in order only, a gap is reported once, duplicates are
acknowledged again, and what a message may not do ends the queue pair.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from mrc_host.wire import headers

FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = range(6)
BEGIN, END, WITH_IMM = (FIRST, ONLY, ONLY_IMM), (LAST, LAST_IMM, ONLY, ONLY_IMM), (LAST_IMM, ONLY_IMM)
RNR = headers.SYNDROME_RNR | 12  # 0.64 ms
_PSNS = 1 << 24


class Packet(NamedTuple):
    """A data packet. `at` is the offset of its message in the region, `right_key` whether it names that region."""

    kind: int
    psn: int  # 24 bits
    payload: bytes
    at: int = 0
    length: int = 0  # of the message; these two only in packets that begin one
    right_key: bool = True
    imm: int = 0
    asks: bool = False
    marked: bool = False


class RcResponder:
    """One life of a queue pair, which writes to `memory`."""

    def __init__(self, memory: bytearray, first_psn: int, mtu: int, counts: Counter[str]) -> None:
        """`counts` go on from those of earlier lives."""
        self.memory = memory
        self.registered = True
        self.first_psn = self.next_psn = first_psn
        self.counts = counts
        self.takes_writes = True
        self.message: tuple[int, int, int] | None = None  # offset, length, bytes that have arrived
        self.complete = 0
        self.receives: list[tuple[int, int]] = []  # length and immediate data of those completed
        self.dead = False
        self._mtu = mtu
        self._reported = False  # the gap before what comes next
        self._due: int | None = None  # syndrome of the answer that leaves next

    def answer(self) -> tuple[int, int, int] | None:
        """Syndrome, PSN and MSN of the answer that leaves now."""
        syndrome, self._due = self._due, None
        if syndrome is None:
            return None
        return syndrome, (self.next_psn - (syndrome == headers.SYNDROME_ACK)) % _PSNS, self.complete

    def arrive(self, packet: Packet, room: bool) -> str:
        """A packet arrived; `room` is whether the receive CQ has any. Why it is dropped, if that is counted."""
        counts, size = self.counts, len(packet.payload)
        if self.dead:
            self._due = self._fatal
            return ""
        counts["marks_received"] += packet.marked
        if not size and (packet.length or packet.kind < ONLY):
            return "malformed"
        distance = (packet.psn - self.next_psn) % _PSNS
        if distance >= _PSNS // 2:
            if self.next_psn + distance - _PSNS < self.first_psn:
                return "other_life"
            counts["duplicates_received"] += 1
            if self._due is None:  # any other answer says as much
                self._due = headers.SYNDROME_ACK
        elif distance:
            counts["out_of_order_received"] += 1
            if not self._reported:
                self._reported, self._due = True, headers.NAK_SEQUENCE
        elif refusal := self._why_refused(packet, size):
            counts["access_refused" if refusal == headers.NAK_REMOTE_ACCESS else "operation_refused"] += 1
            self.dead, self._due, self._fatal = True, refusal, refusal
        elif packet.kind in WITH_IMM and not room:
            counts["cq_full_events"] += 1
            self._reported, self._due = True, RNR
        else:
            self._take(packet, size)
        return ""

    def _why_refused(self, packet: Packet, size: int) -> int:
        """Syndrome of the NAK for the expected packet, 0 for none."""
        begins = packet.kind in BEGIN
        if begins != (self.message is None) or (begins and not self.takes_writes):
            return headers.NAK_INVALID_REQUEST
        at, length, done = self.message or (packet.at, packet.length, 0)
        if length and (not self.registered or at < 0 or at + length > len(self.memory) or not packet.right_key):
            return headers.NAK_REMOTE_ACCESS
        missing = length - done
        right = missing if packet.kind in END else self._mtu
        if size != right or size > self._mtu or (packet.kind not in END and missing <= size):
            return headers.NAK_INVALID_REQUEST
        return 0

    def _take(self, packet: Packet, size: int) -> None:
        at, length, done = self.message or (packet.at, packet.length, 0)
        self.memory[at + done : at + done + size] = packet.payload
        self.message = at, length, done + size
        self.next_psn += 1
        self._reported = False
        self.counts["data_received"] += 1
        if packet.kind in END:
            self.message = None
            self.complete += 1
            self.counts["write_requests"] += 1
            if packet.kind in WITH_IMM:
                self.receives.append((length, packet.imm))
                if self._due == RNR:  # no longer
                    self._due = headers.SYNDROME_ACK
        if packet.asks:
            self._due = headers.SYNDROME_ACK
