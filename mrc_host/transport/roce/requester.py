"""RC requester: sends in order, and on a loss goes back to the first packet not acknowledged.

PSNs from ``una`` on are unacknowledged; ``send`` is the next to be sent and falls back to ``una`` when the responder
reports a sequence error or the ACK timeout runs out. Requests are cut into packets anew from their PSN range each
time, so going back needs no memory of packets. A congestion controller bounds the bytes on the way and, if it works by
rate, says when the next packet may leave; the queue pair is woken at that time.

A receiver that is not ready (RNR NAK) names a time to wait, as often as it likes (rnr_retry 7 in verbs). After an ACK
timeout one packet goes out to ask whether the peer is there; the rest follows once it answers. The timeout is repeated
``linear_retries`` times, then doubles up to 2**``max_backoff`` times its value.
"""

from __future__ import annotations

from typing import Final

from mrc_host.checksum import crc32
from mrc_host.transport import algorithms
from mrc_host.transport.congestion import CongestionControl, LinkParameters
from mrc_host.transport.interfaces import Connection, RequesterOwner
from mrc_host.transport.roce.link import Link
from mrc_host.transport.work import SendQueue, Wqe
from mrc_host.values import CompletionStatus
from mrc_host.wire import headers, icrc, opcodes
from mrc_host.wire.psn import MASK, expand

_ACK_EVERY: Final = 8  # packets between acknowledgement requests
_SLOW: Final = 4 * _ACK_EVERY  # so many packets at least should fit into the ACK timeout, or each asks for one
_MASK_BTH: Final = icrc.mask_constant(headers.bth.size)
_crc32: Final = crc32
_pack_bth: Final = headers.bth.pack
_pack_trailer: Final = icrc.pack_trailer
_PADS: Final = (b"", b"\0\0\0", b"\0\0", b"\0")


def _controller(connection: Connection, link: Link) -> CongestionControl:
    """The controller of a queue pair; each has its own, being one flow."""
    attributes, nic = connection.attributes, connection.nic
    settings = nic.transport
    algorithm = algorithms.find(nic.algorithms, algorithms.choose(attributes, settings, False), False)
    window = settings.default_window if attributes.congestion_window is None else attributes.congestion_window
    parameters = LinkParameters(
        link.rate_bps, settings.base_rtt, attributes.path_mtu, window, settings.trimming, dcqcn=settings.dcqcn
    )
    return algorithm.make(parameters)


class RcRequester:
    """Sending half of an RC queue pair."""

    __slots__ = (
        "_asking",
        "_first",
        "_index",
        "_linear",
        "_link",
        "_max",
        "_max_backoff",
        "_mtu",
        "_next",
        "_owner",
        "_ready_at",
        "_remote_qpn",
        "_retry_count",
        "_send",
        "_sends",
        "_since",
        "_stats",
        "_timeout",
        "_timeouts",
        "_una",
        "cc",
        "last_sent",
    )

    def __init__(
        self, owner: RequesterOwner, connection: Connection, link: Link, sends: SendQueue, first_psn: int
    ) -> None:
        attributes, settings = connection.attributes, connection.nic.transport
        self._owner = owner
        self._stats = connection.stats
        self._remote_qpn = connection.remote_qpn
        self._retry_count = attributes.retry_count
        self._link = link
        self._sends = sends
        self._mtu = attributes.path_mtu
        self.cc = _controller(connection, link)
        self._linear = settings.linear_retries
        self._max_backoff = settings.max_backoff
        self._asking = False  # an ACK timeout ran out, and nothing was heard since
        self.last_sent = 0
        self._timeout = 1024 << attributes.timeout
        self._timeouts = 0
        self._first = first_psn
        self._una = first_psn
        self._send = first_psn
        self._max = first_psn  # first PSN never sent
        self._next = first_psn  # first PSN not yet given to a request
        self._ready_at = 0  # when the responder may be ready again
        self._index = 0  # which outstanding request `_send` belongs to
        self._since = 0  # last progress, or when sending began

    def psns_used(self) -> int:
        """How many PSNs were sent."""
        return self._max - self._first

    def ready(self, now: int) -> bool:
        """Whether a packet may be sent at `now`; if only the rate forbids it, the queue pair is woken in time."""
        cc = self.cc
        if cc.inflight and (cc.inflight + self._mtu > cc.cwnd or self._asking):
            return False
        if not self._work():
            return False
        when = max(cc.earliest_send(now), self._ready_at)
        if when > now:
            self._owner.arm(when)
            return False
        return True

    def _work(self) -> bool:
        if self._send < self._next:
            return True
        waiting = self._sends.waiting
        return bool(waiting) and waiting[0].view is not None

    def starving(self, now: int) -> None:
        """If there is work while the port is down, see to it that it does not wait for ever."""
        if not self._link.up() and not self._owner.armed() and self._work():
            self._since = now
            self._owner.arm(now + self._retry_time())

    def transmit(self, now: int) -> bytes | None:
        """Next packet, or None."""
        if not self.ready(now):
            return None
        self.last_sent = now
        psn = self._send
        if psn == self._next:
            self._start()
        outstanding = self._sends.outstanding
        wqe = outstanding[self._index]
        while psn > wqe.last_psn:
            self._index += 1
            wqe = outstanding[self._index]
        self._send = psn + 1
        stats = self._stats
        if psn < self._max:
            stats.retransmitted += 1
        else:
            self._max = psn + 1
            stats.data_sent += 1
        if psn == self._una:
            self._since = now
        self._owner.arm(self._since + self._retry_time())
        size = min(self._mtu, wqe.length - (psn - wqe.first_psn) * self._mtu)
        self.cc.inflight += size
        self.cc.on_send(size, now)
        return self._build(wqe, psn, size)

    def _start(self) -> None:
        wqe = self._sends.start()
        wqe.first_psn = self._next
        self._next += -(-wqe.length // self._mtu)
        wqe.last_psn = self._next - 1
        self._index = len(self._sends.outstanding) - 1

    def _build(self, wqe: Wqe, psn: int, size: int) -> bytes:
        offset = (psn - wqe.first_psn) * self._mtu
        first, last = psn == wqe.first_psn, psn == wqe.last_psn
        kind = opcodes.segment_kind(first, last, wqe.with_imm)
        word = psn & MASK
        cc = self.cc
        if last or cc.inflight + self._mtu > cc.cwnd or self._asking or not psn % _ACK_EVERY or self._slow():
            word |= headers.ACK_REQUEST
        pad = -size & 3
        if first or kind == opcodes.LAST_IMM:
            head = self._long_head(wqe, kind, pad << 4, word)
            mask = icrc.mask_constant(len(head))
        else:
            head = _pack_bth(opcodes.RC_WRITE_FIRST + kind, pad << 4, headers.PKEY, self._remote_qpn, word)
            mask = _MASK_BTH
        view = wqe.view
        assert view is not None
        payload = view[offset : offset + size]
        prefix, seed = self._link.prefix(len(head) + size + pad, False)
        crc = _crc32(payload, _crc32(head, seed) ^ mask)
        if not pad:
            return b"".join((prefix, head, payload, _pack_trailer(crc)))
        tail = _PADS[size & 3]
        return b"".join((prefix, head, payload, tail, _pack_trailer(_crc32(tail, crc))))

    def _long_head(self, wqe: Wqe, kind: int, flags: int, word: int) -> bytes:
        """Headers of a packet that carries more of them than a BTH."""
        start = (opcodes.RC_WRITE_FIRST + kind, flags, headers.PKEY, self._remote_qpn, word)
        if kind == opcodes.ONLY_IMM:
            return headers.rc_only_imm.pack(*start, wqe.address, wqe.rkey, wqe.length, wqe.imm)
        if kind == opcodes.LAST_IMM:
            return headers.rc_last_imm.pack(*start, wqe.imm)
        return headers.rc_first.pack(*start, wqe.address, wqe.rkey, wqe.length)

    def _slow(self) -> bool:
        """Whether the rate is such that a packet which asks for no acknowledgement could meet its timeout waiting."""
        now = self.last_sent
        return (self.cc.earliest_send(now) - now) * _SLOW > self._timeout

    def on_ack(self, wire_psn: int, syndrome: int, now: int) -> None:
        """ACK or NAK of the responder; everything before the PSN it names has arrived."""
        psn = expand(wire_psn, self._una)
        nak = syndrome & 0xE0 != headers.SYNDROME_ACK & 0xE0
        arrived = psn if nak else psn + 1
        if arrived < self._una or arrived > self._max:
            return
        self._stats.acks_received += 1
        self._asking = False
        if arrived > self._una:
            self._progress(arrived, now)
        if not nak:
            return
        if syndrome & 0xE0 == headers.SYNDROME_RNR:
            self._stats.rnr_received += 1
            self._ready_at = now + headers.RNR_TIMES[syndrome & 0x1F]
            self._timeouts = 0
            self._go_back(self._ready_at)
            self._owner.arm(self._ready_at)
        elif syndrome == headers.NAK_SEQUENCE:
            self._stats.sequence_errors += 1
            self._go_back(now)
        elif syndrome == headers.NAK_REMOTE_ACCESS:
            self._owner.enter_error(
                CompletionStatus.REMOTE_ACCESS_ERROR,
                "The peer refused the remote range: wrong rkey, outside the region, or no REMOTE_WRITE.",
                now,
            )
        else:
            self._owner.enter_error(CompletionStatus.REMOTE_OPERATION_ERROR, f"The peer sent NAK {syndrome:#x}.", now)

    def _progress(self, arrived: int, now: int) -> None:
        acked = self._bytes(self._una, min(arrived, self._send))
        self._una = arrived
        self.cc.inflight -= acked
        self.cc.on_ack(acked, acked, 0, False, now)
        self._since = now
        self._timeouts = 0
        outstanding = self._sends.outstanding
        done = 0
        while done < len(outstanding) and outstanding[done].last_psn < arrived:
            done += 1
        if done:
            self._index = max(0, self._index - done)
            self._sends.complete(done)
        if self._send < arrived:
            self._send = arrived
            self._index = 0

    def _bytes(self, start: int, end: int) -> int:
        """Payload bytes of the PSNs from `start` up to `end`, which belong to outstanding requests."""
        size = 0
        for wqe in self._sends.outstanding:
            base = wqe.first_psn
            if base >= end:
                break
            first, behind = max(start, base), min(end, wqe.last_psn + 1)
            if first < behind:
                size += min(wqe.length, (behind - base) * self._mtu) - (first - base) * self._mtu
        return size

    def _go_back(self, now: int) -> None:
        if self._send > self._una:
            self._stats.lost += 1
            self.cc.inflight = 0
            self._send = self._una
            self._index = 0
            self._since = now

    def _retry_time(self) -> int:
        return self._timeout << min(max(self._timeouts - self._linear, 0), self._max_backoff)

    def on_timer(self, now: int) -> int:
        """Send where the rate allows it now, go back where the oldest packet was not acknowledged in time.

        Returns the next time, 0 when everything is acknowledged.
        """
        starved = self._work() and not self._link.up()
        if self._una == self._next and not starved:
            self._owner.offer_data()
            return 0
        due = self._since + self._retry_time()
        if now < due:
            self._owner.offer_data()
            return due
        stats = self._stats
        limit = self._retry_count
        if self._send > self._una or starved:
            self._timeouts += 1
            stats.timeouts += 1
        if limit != 255 and self._timeouts > limit:
            self._owner.enter_error(
                CompletionStatus.RETRY_EXCEEDED, f"Nothing was acknowledged after {limit} retries.", now
            )
            return 0
        self._asking = True
        self.cc.on_timeout(now, self.cc.inflight)
        self._go_back(now)
        self._since = now
        self._owner.offer_data()
        return now + self._retry_time()
