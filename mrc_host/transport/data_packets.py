"""The frames of an MRC requester: messages are cut into segments, whose frames the datapath in C builds."""

from __future__ import annotations

from typing import Final

from mrc_host.transport.peer_frames import NO_TRIM, FrameTemplates
from mrc_host.transport.queue_pair_interfaces import Connection
from mrc_host.transport.sent_packet import SentPacket
from mrc_host.transport.work import Wqe
from mrc_host.wire import control, headers, opcodes

_DATA_SIZE: Final = headers.data_ts.size
_IMM_SIZE: Final = headers.data_ts_imm.size


class DataPackets:
    """Cuts messages into segments and builds their frames."""

    __slots__ = (
        "_datapath",
        "_frames",
        "_full_weight",
        "_mtu",
        "_remote_qpn",
        "_solicited",
        "_tick_flags",
        "_trimmable",
    )

    def __init__(self, connection: Connection, frames: FrameTemplates) -> None:
        attributes, settings = connection.attributes, connection.nic.settings
        self._frames = frames
        self._datapath = connection.nic.datapath
        self._remote_qpn = connection.remote_qpn
        self._mtu = attributes.path_mtu
        self._full_weight = control.nominal_size(_DATA_SIZE + self._mtu)  # of all but the last of a message
        self._solicited = headers.solicited_bit(settings.bth_order)
        self._trimmable = attributes.trim_nack_dest
        self._tick_flags = headers.tick_flags(settings.timestamp_tick)

    def segment(self, wqe: Wqe, record: SentPacket) -> bool:
        """Put the next segment of a message into `record`; returns whether it is the last."""
        offset = wqe.offset
        size = wqe.length - offset
        last = size <= self._mtu
        if last:
            wqe.last_psn = record.psn
            self._fill_last(record, wqe, offset, size)
        else:
            size = self._mtu
            record.kind = opcodes.MIDDLE if offset else 0
            record.weight = self._full_weight
            record.wqe = wqe
            record.offset = offset
            record.size = size
        wqe.offset = offset + size
        return last

    def last_segment(self, wqe: Wqe) -> SentPacket:
        """The last packet of a message whose segments were all sent."""
        record = SentPacket()
        record.psn = wqe.last_psn
        offset = (wqe.last_psn - wqe.first_psn) * self._mtu
        self._fill_last(record, wqe, offset, wqe.length - offset)
        return record

    def _fill_last(self, record: SentPacket, wqe: Wqe, offset: int, size: int) -> None:
        record.kind = opcodes.segment_kind(offset == 0, True, wqe.with_imm)
        record.weight = control.nominal_size((_IMM_SIZE if wqe.with_imm else _DATA_SIZE) + (size + 3 & ~3))
        record.wqe = wqe
        record.offset = offset
        record.size = size

    def begin(self, wqe: Wqe) -> None:
        """The first segment of a message is about to be sent, and its message numbers are known."""
        datapath = self._datapath
        wqe.message = datapath.message(
            wqe.view, self._remote_qpn, self._tick_flags, (wqe.rqmsn & 0xFFFF) << 16 | wqe.msn & 0xFFFF, wqe.address,
            wqe.rkey, wqe.length, wqe.imm, self._solicited if wqe.solicited else 0, datapath.outbox,
        )  # fmt: skip

    def build(self, record: SentPacket, wqe: Wqe, word: int, role: int) -> bytes:
        """The frame of a packet that leaves now; `word` is the BTH's control word, `role` its class."""
        # as ints: shifted, they would not fit a record's machine integers
        stamp: int = record.stamp
        size: int = record.size
        segment: int = record.kind
        offset: int = record.offset
        template = self._frames.template(record.value, role if self._trimmable else NO_TRIM)
        packet = word | stamp << 32 | segment << 48
        frame: bytes
        if wqe.pieces is None:
            frame = self._datapath.data_frame(template, wqe.message, packet, offset << 16 | size)
        else:
            payload = wqe.pieces.cut(offset, size)
            frame = self._datapath.data_frame(template, wqe.message, packet, offset << 16 | size, payload)
        return frame
