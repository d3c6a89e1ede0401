"""A StreamChannel: passes a client's messages to its device, and the device's through a bounded queue."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from finsy.proto import p4r, rpc_code

from p4runtime_shim import limits
from p4runtime_shim.server.rpc_errors import RpcError, precondition

if TYPE_CHECKING:
    from p4runtime_shim.server.device import P4RuntimeDevice

_MAX_MESSAGE = 1000  # characters of an error
_MAX_RETURNED = 9216  # bytes of a rejected message that are returned with the error

_LAST_WRITE_S = 0.5  # for a message that is being sent when the stream ends
_log = logging.getLogger(__name__)


class ClientStream:
    """One StreamChannel call. The device is known from the first MasterArbitrationUpdate on."""

    def __init__(self) -> None:
        self.device: P4RuntimeDevice | None = None
        self.dropped = 0
        self._waiting: deque[p4r.StreamMessageResponse] = deque()
        self._waiting_bytes = 0
        self.too_slow = False
        self.end: Callable[[], Any] | None = None
        """Ends the stream; set by the service."""
        self._queued = asyncio.Event()
        self._write: asyncio.Future[None] | None = None  # the last one

    def send(self, message: p4r.StreamMessageResponse) -> None:
        """Queue a message; if the client does not keep up, it is dropped and counted.

        Arbitration must not be lost: if the queue has no room for it, the stream is ended.
        """
        size = message.ByteSize()
        if self._is_full(size):
            self.dropped += 1
            if message.HasField("arbitration") and not self.too_slow:
                self.too_slow = True
                if self.end is not None:
                    self.end()
            return
        self._waiting.append(message)
        self._waiting_bytes += size
        self._queued.set()

    def _is_full(self, size: int) -> bool:
        too_many = len(self._waiting) >= limits.MAX_WAITING_MESSAGES
        return too_many or self._waiting_bytes + size > limits.MAX_WAITING_BYTES

    async def write_to(self, context: Any) -> None:
        """Send what is queued, until cancelled."""
        while True:
            await self._queued.wait()
            self._queued.clear()
            while self._waiting:
                message = self._waiting.popleft()
                self._waiting_bytes -= message.ByteSize()
                self._write = asyncio.ensure_future(context.write(message))
                self._write.add_done_callback(lambda done: done.cancelled() or done.exception())
                await asyncio.shield(self._write)

    async def sent(self) -> None:
        """Wait until the message that was being sent has been: gRPC takes no status of a call before.

        For a client that does not read, the wait is short.
        """
        if self._write is not None:
            await asyncio.wait((self._write,), timeout=_LAST_WRITE_S)

    def receive(self, devices: dict[int, P4RuntimeDevice], message: p4r.StreamMessageRequest) -> None:
        """Handle a message; an RpcError ends the stream. Invalid packets and acknowledgements are reported only."""
        kind = message.WhichOneof("update")
        if kind == "arbitration":
            self._arbitrate(devices, message.arbitration)
            return
        if self.device is None:
            raise precondition("the first message of a stream must be a MasterArbitrationUpdate")
        try:
            if kind == "packet":
                self.device.packet_out(self, message.packet)
            elif kind == "digest_ack":
                self.device.digest_ack(self, message.digest_ack)
            else:
                raise RpcError(rpc_code.UNIMPLEMENTED, f"stream message {kind or 'without content'} is not supported")
        except RpcError as error:
            self._report(error, kind, message)

    def close(self) -> None:
        """The stream has ended."""
        if self.device is not None:
            self.device.leave(self)
        if self.dropped:
            _log.warning("a slow client missed %d messages", self.dropped)

    def _arbitrate(self, devices: dict[int, P4RuntimeDevice], message: p4r.MasterArbitrationUpdate) -> None:
        if self.device is None:
            device = devices.get(message.device_id)
            if device is None:
                raise RpcError(rpc_code.NOT_FOUND, f"there is no device {message.device_id}")
            device.arbitrate(self, message)
            self.device = device
        else:
            self.device.arbitrate(self, message)

    def _report(self, error: RpcError, kind: str | None, message: p4r.StreamMessageRequest) -> None:
        report = p4r.StreamError(canonical_code=error.code, message=error.message[:_MAX_MESSAGE])
        fits = message.ByteSize() <= _MAX_RETURNED
        if kind == "packet":
            report.packet_out.SetInParent()
            if fits:
                report.packet_out.packet_out.CopyFrom(message.packet)
        elif kind == "digest_ack":
            report.digest_list_ack.digest_list_ack.CopyFrom(message.digest_ack)
        else:
            report.other.SetInParent()
        self.send(p4r.StreamMessageResponse(error=report))
