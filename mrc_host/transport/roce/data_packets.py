"""The frames of an RC requester: segments of messages, whose frames the datapath in C builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.work import Wqe
from mrc_host.wire import opcodes

if TYPE_CHECKING:
    from mrc_host.datapath import native


class RcDataPackets:
    """Builds the frames of segments."""

    __slots__ = ("_datapath", "_path", "_remote_qpn")

    def __init__(self, path: RcPath, remote_qpn: int, datapath: NativeDatapath) -> None:
        self._path = path
        self._remote_qpn = remote_qpn
        self._datapath = datapath

    def build(self, wqe: Wqe, psn: int, offset: int, size: int, word: int) -> bytes:
        """The frame of packet `psn`, `size` bytes of the message at `offset`; `word` is the BTH's control word."""
        kind = opcodes.segment_kind(psn == wqe.first_psn, psn == wqe.last_psn, wqe.with_imm)
        if wqe.message is None:
            wqe.message = self._message(wqe)
        packet, part, template = word | kind << 48, offset << 16 | size, self._path.template(False)
        frame: bytes
        if wqe.pieces is None:
            frame = self._datapath.rc_data_frame(template, wqe.message, packet, part)
        else:
            frame = self._datapath.rc_data_frame(template, wqe.message, packet, part, wqe.pieces.cut(offset, size))
        return frame

    def _message(self, wqe: Wqe) -> native.Message:
        datapath = self._datapath
        made: native.Message = datapath.message(
            wqe.view, self._remote_qpn, 0, 0, wqe.address, wqe.rkey, wqe.length, wqe.imm, 0, datapath.outbox
        )
        return made
