"""The frames of an RC requester: the path's prefix, then headers and payload of a segment, from BTH to ICRC."""

from __future__ import annotations

from typing import Final

from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.work import Wqe
from mrc_host.wire import headers, icrc, opcodes

_MASK_BTH: Final = icrc.mask_constant(headers.bth.size)
_pack_bth: Final = headers.bth.pack


class RcDataPackets:
    """Builds the frames of segments."""

    __slots__ = ("_path", "_remote_qpn")

    def __init__(self, path: RcPath, remote_qpn: int) -> None:
        self._path = path
        self._remote_qpn = remote_qpn

    def build(self, wqe: Wqe, psn: int, offset: int, size: int, word: int) -> bytes:
        """The frame of packet `psn`, `size` bytes of the message at `offset`; `word` is the BTH's control word."""
        first = psn == wqe.first_psn
        kind = opcodes.segment_kind(first, psn == wqe.last_psn, wqe.with_imm)
        pad = -size & 3
        if first or kind == opcodes.LAST_IMM:
            head = self._long_head(wqe, kind, pad << 4, word)
            mask = icrc.mask_constant(len(head))
        else:
            head = _pack_bth(opcodes.RC_WRITE_FIRST + kind, pad << 4, headers.PKEY, self._remote_qpn, word)
            mask = _MASK_BTH
        prefix, seed = self._path.prefix(len(head) + size + pad, False)
        return icrc.data_frame(prefix, seed, head, mask, wqe.payload(offset, size))

    def _long_head(self, wqe: Wqe, kind: int, flags: int, word: int) -> bytes:
        """Headers of a packet that has more than a BTH."""
        start = (opcodes.RC_WRITE_FIRST + kind, flags, headers.PKEY, self._remote_qpn, word)
        if kind == opcodes.ONLY_IMM:
            return headers.rc_only_imm.pack(*start, wqe.address, wqe.rkey, wqe.length, wqe.imm)
        if kind == opcodes.LAST_IMM:
            return headers.rc_last_imm.pack(*start, wqe.imm)
        return headers.rc_first.pack(*start, wqe.address, wqe.rkey, wqe.length)
