"""Notifies a peer that one of our queue pairs accepts nothing any more, so that it need not use up its retries.

A packet for a queue pair in ERROR, or from a life that a RESET has ended, is answered with NACK 0x19; a packet for a
QPN that does not exist, with an endpoint operation of our own, since data packets do not carry their sender's QPN
(docs/protocol.md §12.1). Source addresses can be spoofed. So each refusal answers one packet, is shorter than a data
packet, and repeats what only its sender knows, PSN and timestamp; and refusals are rate-limited: `_BURST` at once, then
one per `_INTERVAL` ns.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.psn import MASK

_BURST: Final = 64
_INTERVAL: Final = 1_000_000


def identity(opcode: int, frame: memoryview, start: int) -> tuple[int, int]:
    """PSN and timestamp of a data packet whose BTH is at `start`; number and timestamp of a reliability probe."""
    if opcode == opcodes.PROBE:
        probe = control.parse_probe(frame, start + headers.BTH_LENGTH)
        return probe.probe_id, probe.timestamp
    *_, word, _rqmsn, _msn, stamp, _tick = headers.trimmed.unpack_from(frame, start)
    return word & MASK, stamp if word & headers.TS_PRESENT else 0


class Refusals:
    """Refusals to be sent to one peer."""

    __slots__ = ("_paid_until", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self._paid_until = 0

    def add(self, body: bytes, now: int) -> bool:
        """Queue a packet, given from the BTH on; False when there were too many recently."""
        paid = max(self._paid_until, now)
        if paid - now > (_BURST - 1) * _INTERVAL:
            return False
        self._paid_until = paid + _INTERVAL
        self.waiting.append(body)
        return True
