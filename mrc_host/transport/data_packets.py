"""The frames of an MRC requester: a path's prefix, then headers and payload of a segment, from BTH to ICRC.

Where there is a datapath in C, it builds them, except those of messages with a gather list.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.peer_frames import NO_TRIM, PeerFrames
from mrc_host.transport.queue_pair_interfaces import Connection
from mrc_host.transport.sent_packet import SentPacket
from mrc_host.transport.work import Wqe
from mrc_host.wire import control, headers, icrc, opcodes

_MASK_PLAIN: Final = icrc.mask_constant(headers.data_ts.size)
_MASK_IMM: Final = icrc.mask_constant(headers.data_ts_imm.size)
_ADDRESS: Final = 0xFFFFFFFFFFFFFFFF
_DATA_SIZE: Final = headers.data_ts.size
_IMM_SIZE: Final = headers.data_ts_imm.size
_pack: Final = headers.data_ts.pack
_pack_parts: Final = headers.data_ts_parts.pack
_pack_imm: Final = headers.data_ts_imm.pack


class DataPackets:
    """Cuts messages into segments and builds their frames."""

    __slots__ = (
        "_datapath",
        "_frames",
        "_full_weight",
        "_middle",
        "_mtu",
        "_remote_qpn",
        "_solicited",
        "_tick_flags",
        "_trimmable",
    )

    def __init__(self, connection: Connection, frames: PeerFrames) -> None:
        attributes, settings = connection.attributes, connection.nic.settings
        self._frames = frames
        self._datapath = connection.nic.datapath
        self._remote_qpn = connection.remote_qpn
        self._mtu = attributes.path_mtu
        self._full_weight = control.nominal_size(_DATA_SIZE + self._mtu)  # of all but the last of a message
        # flags and opcode of packets that are neither the first nor the last of a message
        self._middle = headers.data_start.pack(opcodes.WRITE_MIDDLE, 0, headers.PKEY, self._remote_qpn)
        self._solicited = headers.solicited_bit(settings.bth_order)
        self._trimmable = attributes.trim_nack_dest
        self._tick_flags = headers.tick_flags(settings.timestamp_tick)

    def segment(self, wqe: Wqe, record: SentPacket) -> bool:
        """Put the next segment of a message into `record`; returns whether it is the last."""
        offset = wqe.offset
        size = wqe.length - offset
        last = size <= self._mtu
        if last:
            record.kind = opcodes.segment_kind(offset == 0, True, wqe.with_imm)
            record.weight = control.nominal_size((_IMM_SIZE if wqe.with_imm else _DATA_SIZE) + (size + 3 & ~3))
            wqe.last_psn = record.psn
        else:
            size = self._mtu
            record.kind = opcodes.MIDDLE if offset else 0
            record.weight = self._full_weight
        wqe.offset = offset + size
        record.wqe = wqe
        record.offset = offset
        record.size = size
        return last

    def begin(self, wqe: Wqe) -> None:
        """The first segment of a message is about to be sent, and its message numbers are known."""
        datapath, view = self._datapath, wqe.view
        if datapath is not None and view is not None and wqe.pieces is None:
            wqe.message = datapath.message(
                view, self._remote_qpn, self._tick_flags, (wqe.rqmsn & 0xFFFF) << 16 | wqe.msn & 0xFFFF, wqe.address,
                wqe.rkey, wqe.imm, self._solicited if wqe.solicited else 0, datapath.outbox,
            )  # fmt: skip

    def build(self, record: SentPacket, wqe: Wqe, word: int, role: int) -> bytes:
        """The frame of a packet that leaves now; `word` is the BTH's control word, `role` its class."""
        # as ints: shifted, or added to an address, they would not fit a record's machine integers
        stamp: int = record.stamp
        size: int = record.size
        segment: int = record.kind
        offset: int = record.offset
        message, datapath = wqe.message, self._datapath
        kind = role if self._trimmable else NO_TRIM
        if message is not None and datapath is not None:
            template = self._frames.template(record.value, kind)
            packet = word | stamp << 32 | segment << 48
            frame: bytes = datapath.data_frame(template, message, packet, offset << 16 | size)
            return frame
        pad = -size & 3
        address = wqe.address + offset & _ADDRESS
        if segment == opcodes.MIDDLE:  # most packets: their constant parts are packed beforehand
            head = _pack_parts(self._middle, word, wqe.numbers, stamp << 16 | self._tick_flags, address, wqe.range)
            mask = _MASK_PLAIN
        elif segment == opcodes.LAST_IMM or segment == opcodes.ONLY_IMM:
            head = self._head_with_imm(record, wqe, word, pad, address)
            mask = _MASK_IMM
        else:
            head = self._head(record, wqe, word, pad, address)
            mask = _MASK_PLAIN
        prefix, seed, _ = self._frames.prefix(record.value, kind, len(head) + size + pad)
        return icrc.data_frame(prefix, seed, head, mask, wqe.payload(offset, size))

    def _head(self, record: SentPacket, wqe: Wqe, word: int, pad: int, address: int) -> bytes:
        return _pack(
            opcodes.WRITE_FIRST + record.kind, pad << 4, headers.PKEY, self._remote_qpn, word, wqe.rqmsn & 0xFFFF,
            wqe.msn & 0xFFFF, record.stamp, self._tick_flags, address, wqe.rkey, wqe.length,
        )  # fmt: skip

    def _head_with_imm(self, record: SentPacket, wqe: Wqe, word: int, pad: int, address: int) -> bytes:
        return _pack_imm(
            opcodes.WRITE_FIRST + record.kind, pad << 4 | (self._solicited if wqe.solicited else 0), headers.PKEY,
            self._remote_qpn, word, wqe.rqmsn & 0xFFFF, wqe.msn & 0xFFFF, record.stamp, self._tick_flags,
            address, wqe.rkey, wqe.length, wqe.imm,
        )  # fmt: skip
