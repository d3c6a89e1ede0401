"""The event trace: what a NIC did and why, as one small mapping per event (docs/trace.md lists every field).

A ``Tracer`` exists only while tracing is on. Packets are traced where they cross the NIC's lower edge and are decoded
from their bytes, so requester and responder contain no tracing code; with tracing off each packet costs one attribute
test in ``Nic``. What the bytes do not show (losses and their reasons, path changes, completions) is reported by the
code that decides it, in places that run rarely.

The device does no I/O: events go to a *sink*, any callable that takes a mapping of plain values. It is called in the
middle of the NIC's work, so it must neither raise nor call the NIC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mrc_host.config import EvFormat, ProtocolSettings
from mrc_host.verbs_types import (
    AsyncEvent,
    Completion,
    PathEvent,
    PathReason,
    PathState,
    PortEvent,
    QpEvent,
    SlowPortEvent,
)
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.encap import ICRC_LENGTH, Flow, read_prefix
from mrc_host.wire.headers import BTH_LENGTH
from mrc_host.wire.psn import MASK

TraceSink = Callable[[Mapping[str, Any]], None]
Connections = Callable[[], Iterable[tuple[bytes, int, int]]]

_MARKS: Final = ("none", "skip_once", "always_skip")
_OPERATIONS: Final = {
    opcodes.TRANSPORT_ACK: "ack",
    opcodes.ENDPOINT_REQUEST: "endpoint_request",
    opcodes.ENDPOINT_RESPONSE: "endpoint_response",
    opcodes.SACK: "sack",
    opcodes.NACK: "nack",
    opcodes.PROBE: "probe",
    opcodes.RC_ACK: "rc_ack",
    opcodes.RC_CNP: "rc_cnp",
}
_DATA: Final = {opcodes.WRITE_FIRST: "write", opcodes.RC_WRITE_FIRST: "rc_write"}
_KINDS: Final = ("first", "middle", "last", "last_imm", "only", "only_imm")


class Tracer:
    """Turns what happens on one NIC into events for `sink`.

    `connections` lists (peer address, remote QPN, local QPN) of all connected queue pairs: packets carry only the
    remote QPN.
    """

    def __init__(self, sink: TraceSink, settings: ProtocolSettings, connections: Connections) -> None:
        self._sink = sink
        self._order = None if settings.ev_format is EvFormat.UDP else settings.ev_order
        self._op_shift = settings.endpoint_op_shift
        self._connections = connections
        self._local: dict[tuple[bytes, int], int] = {}

    # ---- packets ------------------------------------------------------------------------------------------------

    def sent(self, port: int, frame: bytes, now: int) -> None:
        """A frame leaves."""
        prefix = read_prefix(frame, self._order)
        assert prefix is not None, "it is our own"
        event = self._packet("send", port, frame, prefix.start, len(frame) - ICRC_LENGTH, now)
        remote = event.pop("dest")
        event["qpn"] = self._local_qpn(prefix.destination, remote)
        event["ev"] = prefix.ev
        self._sink(event)

    def received(self, port: int, frame: bytes | memoryview, flow: Flow, now: int) -> None:
        """A well-formed frame for this NIC arrived."""
        end = len(frame) if flow.trimmed else flow.end
        event = self._packet("receive", port, frame, flow.start, end, now)
        event["qpn"] = event.pop("dest")
        event["ev"] = flow.ev
        if flow.ce:
            event["ce"] = True
        if flow.trimmed:
            event["trimmed"] = True
            event.pop("size", None)
        self._sink(event)

    def dropped(self, port: int, reason: str, size: int, now: int) -> None:
        """A frame of `size` bytes was dropped before any queue pair acted on it."""
        self._sink({"t": now, "event": "drop", "port": port, "reason": reason, "frame": size})

    def _packet(
        self, name: str, port: int, frame: bytes | memoryview, start: int, end: int, now: int
    ) -> dict[str, Any]:
        opcode, flags, _pkey, qpn, word = headers.bth.unpack_from(frame, start)
        event: dict[str, Any] = {"t": now, "event": name, "port": port, "dest": qpn & 0xFFFFFF}
        data = _DATA.get(opcode - opcode % 0x20 + 6)
        if data is not None and opcode % 0x20 - 6 < len(_KINDS) and opcode % 0x20 >= 6:
            self._data(event, data, opcode % 0x20 - 6, frame, start, end - (flags >> 4 & 3), word)
            return event
        event["op"] = _OPERATIONS.get(opcode, hex(opcode))
        self._control(event, opcode, frame, start + BTH_LENGTH, word)
        return event

    @staticmethod
    def _data(
        event: dict[str, Any], op: str, kind: int, frame: bytes | memoryview, start: int, end: int, word: int
    ) -> None:
        event.update(op=op, kind=_KINDS[kind], psn=word & MASK)
        mrc = op == "write"
        length = BTH_LENGTH
        if mrc:
            length += (4 if word & headers.TS_PRESENT else 0) + 20
            event["msn"] = int.from_bytes(frame[start + BTH_LENGTH + 2 : start + BTH_LENGTH + 4], "big")
            event["rtx"] = bool(word & headers.RTX)
        elif kind in (0, opcodes.ONLY, opcodes.ONLY_IMM):
            length += 16
        if kind in (opcodes.LAST_IMM, opcodes.ONLY_IMM):
            length += 4
        event["size"] = end - start - length
        if word & headers.ACK_REQUEST:
            event["ask"] = True

    def _control(self, event: dict[str, Any], opcode: int, frame: bytes | memoryview, at: int, word: int) -> None:
        if opcode == opcodes.SACK:
            sack = control.parse_sack(frame, at)
            event.update(
                cack=sack.cack_psn,
                base=sack.cack_psn + sack.bitmap_offset & MASK,
                bitmap=f"{sack.bitmap:x}",
                path=sack.entropy,
                mark=_MARKS[sack.mark] if sack.mark < len(_MARKS) else str(sack.mark),
                rcvd=sack.rcvd_units,
            )
            if sack.probe:
                event["probe"] = sack.ack_offset & 0xFFFF
            else:
                event["psn"] = sack.cack_psn + sack.ack_offset & MASK
            if sack.mpr:
                event["mpr"] = sack.mpr
        elif opcode == opcodes.NACK:
            nack = control.parse_nack(frame, at)
            event.update(psn=nack.psn, reason=control.NACK_NAMES.get(nack.reason, hex(nack.reason)), path=nack.entropy)
        elif opcode == opcodes.PROBE:
            event["probe"] = control.parse_probe(frame, at).probe_id
        elif opcode in (opcodes.TRANSPORT_ACK, opcodes.RC_ACK):
            syndrome, msn = frame[at], int.from_bytes(frame[at + 1 : at + 4], "big")
            event.update(psn=word & MASK, msn=msn, syndrome=syndrome)
        elif opcode == opcodes.ENDPOINT_REQUEST:
            request = control.parse_endpoint_request(frame, at)
            event.update(request=word & 0xFFFF, operation=_operation(request.op), ports=request.port_mask)
        elif opcode == opcodes.ENDPOINT_RESPONSE:
            response = control.parse_endpoint_response(frame, at, self._op_shift)
            event.update(request=word & 0xFFFF, operation=_operation(response.op))

    def _local_qpn(self, destination: bytes, remote: int) -> int:
        key = (destination, remote)
        known = self._local.get(key)
        if known is None:
            self._local = {(address, far): near for address, far, near in self._connections()}
            known = self._local.setdefault(key, 0)
        return known

    def connections_changed(self) -> None:
        """A queue pair was connected or disconnected."""
        self._local.clear()

    # ---- decisions ----------------------------------------------------------------------------------------------

    def lost(self, qpn: int, psn: int, ev: int, plane: int, sent: int, why: str, now: int) -> None:
        """The requester of `qpn` declared a packet lost, sent on `ev` at time `sent`."""
        self._sink(
            {"t": now, "event": "lost", "qpn": qpn, "psn": psn & MASK, "ev": ev, "plane": plane, "sent": sent,
             "why": why}
        )  # fmt: skip

    def path(self, qpn: int, ev: int, plane: int, old: PathState, new: PathState, reason: PathReason, now: int) -> None:
        """A path of `qpn` changed state."""
        self._sink(
            {"t": now, "event": "path", "qpn": qpn, "ev": ev, "plane": plane, "old": old.value, "new": new.value,
             "reason": reason.value}
        )  # fmt: skip

    def state(self, qpn: int, state: str, peer: str, remote: int, now: int) -> None:
        """A queue pair changed state."""
        self._sink({"t": now, "event": "qp", "qpn": qpn, "state": state, "peer": peer, "remote": remote})

    def completion(self, entry: Completion, now: int) -> None:
        """An entry was added to a completion queue."""
        event = {
            "t": now, "event": "completion", "qpn": entry.qpn, "wr_id": entry.wr_id, "op": entry.opcode.value,
            "status": entry.status.value, "size": entry.byte_len,
        }  # fmt: skip
        if entry.reason:
            event["reason"] = entry.reason
        self._sink(event)

    def event(self, event: AsyncEvent) -> None:
        """An asynchronous event of the NIC."""
        if isinstance(event, PathEvent):
            self.path(event.qpn, event.ev, event.plane, event.old, event.new, event.reason, event.time)
        elif isinstance(event, PortEvent):
            self._sink(
                {"t": event.time, "event": "port", "port": event.port, "up": event.up, "local": event.local,
                 "peer": event.peer.hex()}
            )  # fmt: skip
        elif isinstance(event, SlowPortEvent):
            self._sink(
                {"t": event.time, "event": "slow_port", "port": event.port, "slow": event.slow, "local": event.local,
                 "peer": event.peer.hex()}
            )  # fmt: skip
        elif isinstance(event, QpEvent):
            self._sink({"t": event.time, "event": "error", "qpn": event.qpn, "reason": event.reason})


def _operation(op: int) -> str:
    names = {
        control.OP_PORT_STATUS_UPDATE: "port_status_update",
        control.OP_EV_PROBE: "ev_probe",
        control.OP_PATH_PROBE: "path_probe",
        control.OP_NO_QP: "no_qp",
    }
    return names.get(op, str(op))
