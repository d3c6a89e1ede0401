"""The demultiplexer of a NIC: from a received frame to the queue pair or peer it is for.

The datapath in C checks everything before the BTH and the ICRC, and takes the packets that need no decision.
What remains for each frame is to read the BTH, and find the queue pair by its QPN. Requests and responses of endpoint
operations go to the peer they came from, path probes to the prober. Everything else is dropped, for the first of the
reasons in `Drop` that applies. Flow control is only looked for in frames that the datapath drops.
"""

from __future__ import annotations

from typing import Final

from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.path_prober import PathProber
from mrc_host.transport.pause import Pauses
from mrc_host.transport.peer_table import PeerTable
from mrc_host.transport.qp import NicQueuePair
from mrc_host.transport.refusals import identity
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import EndpointRequest
from mrc_host.wire.encap import Drop, Flow

_PARTITION: Final = headers.PKEY & 0x7FFF  # the other bit means full member, which we are: so both kinds may arrive
_bth: Final = headers.bth.unpack_from
_ENDPOINT_OPCODES: Final = frozenset((opcodes.ENDPOINT_REQUEST, opcodes.ENDPOINT_RESPONSE))


class Demultiplexer:
    """Receives for the queue pairs and peers of one NIC, which updates `qps` as queue pairs come and go."""

    def __init__(
        self,
        nic: NicContext,
        qps: dict[int, NicQueuePair],
        peers: PeerTable,
        prober: PathProber,
        pauses: Pauses | None,
    ) -> None:
        self._nic = nic
        self._qps = qps
        self._peers = peers
        self._prober = prober
        self._pauses = pauses
        self._address = nic.config.address

    def receive(self, port: int, frame: bytes | memoryview, now: int) -> Drop | None:
        """Pass on one Ethernet frame, or return why it is dropped. struct.error and IndexError: it is too short."""
        nic = self._nic
        if not nic.local_up >> port & 1:
            return Drop.PORT_DOWN
        found: object = nic.datapath.receive(port, frame)
        if found is True:
            return None
        if isinstance(found, Flow):
            return self._dispatch(port, frame, found, now)
        if isinstance(found, tuple):
            self.answer_due(found)
            return None
        assert isinstance(found, Drop)
        if self._pauses is not None and self._pauses.receive(port, frame, now):
            return None
        return found

    def answer_due(self, due: tuple[int, int, int, Flow]) -> None:
        """A packet was carried that makes an answer due."""
        qpn, psn, stamp, flow = due
        self._qps[qpn].answer_due(psn, flow, stamp)

    def _dispatch(self, port: int, frame: bytes | memoryview, flow: Flow, now: int) -> Drop | None:
        """Pass a frame on whose prefix and ICRC are right."""
        nic = self._nic
        view = memoryview(frame)
        opcode: int  # annotated because struct returns Any
        flags: int
        pkey: int
        word: int
        opcode, flags, pkey, word, _psn = _bth(frame, flow.start)
        if flags & 0x0F:
            return Drop.MALFORMED
        if pkey & _PARTITION != _PARTITION:
            return Drop.PKEY
        trace = nic.trace
        if trace is not None:
            trace.received(port, frame, flow, now)
        if opcode not in opcodes.OF_MRC and opcode not in opcodes.OF_RC:
            if opcode in _ENDPOINT_OPCODES:
                return self._receive_endpoint(opcode, frame, flow, port, now)
            return Drop.OPCODE
        qp = self._qps.get(word & 0xFFFFFF)
        if qp is None:
            self._refuse(None, opcode, word & 0xFFFFFF, view, flow, now)
            return Drop.UNKNOWN_QP
        peer = qp.life.peer
        if peer is None:
            self._refuse(qp, opcode, word & 0xFFFFFF, view, flow, now)
            return Drop.QP_STATE
        if peer.address != flow.source:
            return Drop.WRONG_SOURCE
        if opcode not in qp.opcodes or flow.srv6 != (qp.source_routed and nic.srv6):
            return Drop.WRONG_TRANSPORT
        return qp.receive(opcode, view, flow, port, now)

    def _refuse(self, qp: NicQueuePair | None, opcode: int, qpn: int, frame: memoryview, flow: Flow, now: int) -> None:
        """Notify a peer that its data or probe is for a queue pair that does not exist or was reset."""
        peer = self._peers.get(flow.source)
        if peer is None or flow.trimmed or flow.srv6 != self._nic.srv6:
            return
        if (opcode > opcodes.WRITE_ONLY_IMM and opcode != opcodes.PROBE) or opcode in opcodes.OF_RC:
            return
        if qp is not None:
            qp.receive_late(opcode, frame, flow, peer, now)
            return
        number, stamp = identity(opcode, frame, flow.start)
        request = EndpointRequest(control.OP_NO_QP, qpn, stamp)
        peer.refuse(control.pack_endpoint_request(number & 0xFFFF, request), now)

    def _receive_endpoint(self, opcode: int, frame: bytes | memoryview, flow: Flow, port: int, now: int) -> Drop | None:
        peer = self._peers.get(flow.source)
        if peer is None and flow.source != self._address:  # a path probe may return to its sender
            return Drop.UNKNOWN_PEER
        start = flow.start
        _opcode, _flags, _pkey, qpn, word = headers.bth.unpack_from(frame, start)
        if flow.trimmed or flow.srv6 != self._nic.srv6 or qpn & 0xFFFFFF != opcodes.ENDPOINT_QPN:
            return Drop.MALFORMED
        at = start + headers.BTH_LENGTH
        if opcode == opcodes.ENDPOINT_REQUEST:
            request = control.parse_endpoint_request(frame, at)
            if request.op == control.OP_PATH_PROBE:
                counted = self._prober.receive(flow.source, word & 0xFFFF, request.port_mask)
                return None if counted else Drop.MALFORMED
            if peer is None:
                return Drop.UNKNOWN_PEER
            if request.op == control.OP_NO_QP:
                peer.remote_gone(request.port_mask, word & 0xFFFF, request.timestamp, now)
                return None
            if request.op > control.OP_EV_PROBE:
                return Drop.MALFORMED
            if flow.dscp != self._nic.settings.dscp.control:
                # The peer searches for working paths: answering it needs reverse paths, too.
                peer.answers.acknowledging(now)
            peer.receive_request(word & 0xFFFF, request, port, now)
            return None
        if peer is None:
            return Drop.UNKNOWN_PEER
        response = control.parse_endpoint_response(frame, at, self._nic.settings.endpoint_op_shift)
        return None if peer.receive_response(word & 0xFFFF, response, port, now) else Drop.STALE_RESPONSE
