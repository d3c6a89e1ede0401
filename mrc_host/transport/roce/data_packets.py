"""The frames of an RC requester: the path's prefix, then headers and payload of a segment, from BTH to ICRC.

Where there is a datapath in C, it builds them, except those of messages with a gather list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.work import Wqe
from mrc_host.wire import headers, icrc, opcodes

if TYPE_CHECKING:
    from mrc_host.datapath import native

_MASK_BTH: Final = icrc.mask_constant(headers.bth.size)
_pack_bth: Final = headers.bth.pack


class RcDataPackets:
    """Builds the frames of segments."""

    __slots__ = ("_datapath", "_path", "_remote_qpn")

    def __init__(self, path: RcPath, remote_qpn: int, datapath: NativeDatapath | None) -> None:
        self._path = path
        self._remote_qpn = remote_qpn
        self._datapath = datapath

    def build(self, wqe: Wqe, psn: int, offset: int, size: int, word: int) -> bytes:
        """The frame of packet `psn`, `size` bytes of the message at `offset`; `word` is the BTH's control word."""
        first = psn == wqe.first_psn
        kind = opcodes.segment_kind(first, psn == wqe.last_psn, wqe.with_imm)
        datapath = self._datapath
        if datapath is not None and wqe.pieces is None:
            if wqe.message is None:
                wqe.message = self._message(wqe, datapath)
            frame: bytes = datapath.rc_data_frame(
                self._path.template(False), wqe.message, word | kind << 48, offset << 16 | size
            )
            return frame
        pad = -size & 3
        if first or kind == opcodes.LAST_IMM:
            head = self._long_head(wqe, kind, pad << 4, word)
            mask = icrc.mask_constant(len(head))
        else:
            head = _pack_bth(opcodes.RC_WRITE_FIRST + kind, pad << 4, headers.PKEY, self._remote_qpn, word)
            mask = _MASK_BTH
        prefix, seed = self._path.prefix(len(head) + size + pad, False)
        return icrc.data_frame(prefix, seed, head, mask, wqe.payload(offset, size))

    def _message(self, wqe: Wqe, datapath: NativeDatapath) -> native.Message:
        made: native.Message = datapath.message(
            wqe.view, self._remote_qpn, 0, 0, wqe.address, wqe.rkey, wqe.imm, 0, datapath.outbox
        )
        return made

    def _long_head(self, wqe: Wqe, kind: int, flags: int, word: int) -> bytes:
        """Headers of a packet that has more than a BTH."""
        start = (opcodes.RC_WRITE_FIRST + kind, flags, headers.PKEY, self._remote_qpn, word)
        if kind == opcodes.ONLY_IMM:
            return headers.rc_only_imm.pack(*start, wqe.address, wqe.rkey, wqe.length, wqe.imm)
        if kind == opcodes.LAST_IMM:
            return headers.rc_last_imm.pack(*start, wqe.imm)
        return headers.rc_first.pack(*start, wqe.address, wqe.rkey, wqe.length)
