"""The P4Runtime gRPC service: dispatches RPCs to devices, and turns errors into gRPC statuses.

It runs on asyncio: streams need no threads, so any number of clients can have streams to any number of devices, and all
state belongs to one thread.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NoReturn

import grpc
import grpc.aio
from finsy.proto import p4r, p4r_grpc

from mrc_common.connection_limits import grpc_options
from mrc_common.grpc_guards import Readable
from p4runtime_shim import limits
from p4runtime_shim.errors import SwitchError
from p4runtime_shim.server.budget import ReadBudget, ReadsInProgress
from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.rpc_errors import (
    DETAILS_KEY,
    BatchError,
    RpcError,
    exhausted,
    from_switch,
    not_found,
    precondition,
)
from p4runtime_shim.server.stream_channel import ClientStream

SERVICES = ("p4.v1.P4Runtime", "p4runtime_shim.v1.SwitchManagement")
API_VERSION = "1.5.0"
_MAX_MESSAGE = 1000  # characters of an error message; parts of it may come from a client
_READ_CHUNK = 500  # entities in one ReadResponse

_STATUS = {code.value[0]: code for code in grpc.StatusCode}
_log = logging.getLogger(__name__)


class P4RuntimeService(p4r_grpc.P4RuntimeServicer):
    """P4Runtime for a set of devices."""

    def __init__(self, devices: Iterable[P4RuntimeDevice]) -> None:
        self._devices = {device.device_id: device for device in devices}
        self._readers: set[asyncio.Task[None]] = set()
        self._idle: set[ClientStream] = set()  # streams without arbitration
        self.reading = ReadsInProgress()

    async def Capabilities(  # noqa: N802, D102 - the names of the RPCs
        self, request: p4r.CapabilitiesRequest, context: Any
    ) -> p4r.CapabilitiesResponse:
        if request.device_id:
            await reporting(context, self._device, request.device_id)
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    async def Write(self, request: p4r.WriteRequest, context: Any) -> p4r.WriteResponse:  # noqa: N802, D102
        device = await reporting(context, self._device, request.device_id)
        try:
            await device.write(request)
        except Exception as error:
            await abort(context, error)
        return p4r.WriteResponse()

    async def Read(self, request: p4r.ReadRequest, context: Any) -> None:  # type: ignore[override]  # noqa: N802, D102
        device = await reporting(context, self._device, request.device_id)
        budget = ReadBudget(self.reading)
        try:
            await self._send_entities(context, device.read(request, budget))
        except Exception as error:
            budget.close()  # the status is sent after messages that the client may never read
            await abort(context, error.with_traceback(None))  # the traceback references the copied entities
        finally:
            budget.close()

    async def _send_entities(self, context: Any, entities: Iterator[p4r.Entity]) -> None:
        """Send entities in chunks, with other calls in between; those found before an error are sent too."""
        error: BatchError | None = None
        while True:
            found: list[p4r.Entity] = []
            try:
                found.extend(islice(entities, _READ_CHUNK))
            except BatchError as failure:
                error = failure
            if found:
                await self._send(context, p4r.ReadResponse(entities=found))
            if error is not None:
                raise error
            if len(found) < _READ_CHUNK:
                return

    @staticmethod
    async def _send(context: Any, response: p4r.ReadResponse) -> None:
        writing = asyncio.ensure_future(context.write(response))
        await asyncio.wait((writing,), timeout=limits.MAX_READ_WAIT_S)
        if not writing.done():
            raise exhausted(f"the client has not received its data for {limits.MAX_READ_WAIT_S} s")
        await writing
        await asyncio.sleep(0)

    async def SetForwardingPipelineConfig(  # noqa: N802, D102
        self, request: p4r.SetForwardingPipelineConfigRequest, context: Any
    ) -> p4r.SetForwardingPipelineConfigResponse:
        device = await reporting(context, self._device, request.device_id)
        try:
            await device.set_config(request)
        except Exception as error:
            await abort(context, error)
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(  # noqa: N802, D102
        self, request: p4r.GetForwardingPipelineConfigRequest, context: Any
    ) -> p4r.GetForwardingPipelineConfigResponse:
        device = await reporting(context, self._device, request.device_id)
        return p4r.GetForwardingPipelineConfigResponse(config=device.get_config(request.response_type))

    async def StreamChannel(  # type: ignore[override]  # noqa: N802, D102 - the stub knows generators only
        self, request_iterator: AsyncIterator[p4r.StreamMessageRequest], context: Any
    ) -> None:
        stream = ClientStream()
        if len(self._idle) >= limits.MAX_IDLE_STREAMS:
            await abort(context, exhausted(f"{limits.MAX_IDLE_STREAMS} streams without arbitration are already open"))
        self._idle.add(stream)
        writer = asyncio.create_task(stream.write_to(context))
        reader = asyncio.create_task(self._receive(stream, request_iterator))
        for task in (writer, reader):  # do not log their errors after the client has disconnected
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._readers.add(reader)
        stream.end = reader.cancel
        try:
            await asyncio.wait((reader,))
        finally:  # also when the call is cancelled because the client disconnected
            self._readers.discard(reader)
            self._idle.discard(stream)
            stream.close()
            reader.cancel()
            writer.cancel()
        await stream.sent()
        if stream.too_slow:
            await abort(context, exhausted("the client does not read its stream, not even arbitration"))
        if reader.cancelled():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
        failure = reader.exception()
        if isinstance(failure, Exception):
            await abort(context, failure)

    async def _receive(self, stream: ClientStream, messages: AsyncIterator[p4r.StreamMessageRequest]) -> None:
        try:
            first = await asyncio.wait_for(messages.__anext__(), limits.MAX_IDLE_S)
        except asyncio.TimeoutError:
            raise precondition(f"no MasterArbitrationUpdate came for {limits.MAX_IDLE_S} s") from None
        except StopAsyncIteration:
            return
        stream.receive(self._devices, first)
        self._idle.discard(stream)
        async for message in messages:
            stream.receive(self._devices, message)
            await asyncio.sleep(0)  # let other clients' messages in

    def close_streams(self) -> None:
        """End all streams, before the server stops."""
        for reader in list(self._readers):
            reader.cancel()

    def _device(self, device_id: int) -> P4RuntimeDevice:
        if device_id not in self._devices:
            known = ", ".join(str(item) for item in sorted(self._devices))
            raise not_found(f"there is no device {device_id}; this server has {known}")
        return self._devices[device_id]


async def reporting(context: Any, function: Any, *args: Any) -> Any:
    """The function's result; an error ends the RPC."""
    try:
        return function(*args)
    except Exception as error:
        await abort(context, error)


async def abort(context: Any, error: Exception) -> NoReturn:
    """End the RPC with the error's status."""
    if isinstance(error, SwitchError):
        error = from_switch(error)
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        error = exhausted("the switch process is out of file descriptors: close connections, then try again")
    if isinstance(error, RpcError):
        await context.abort(_STATUS[error.code], error.message[:_MAX_MESSAGE])
    if isinstance(error, BatchError):
        details = error.details()
        metadata = ((DETAILS_KEY, details),) if details is not None else ()
        await context.abort(grpc.StatusCode.UNKNOWN, error.message[:_MAX_MESSAGE], metadata)
    _log.error("a request failed unexpectedly", exc_info=error)
    await context.abort(grpc.StatusCode.INTERNAL, f"internal error: {error!r}"[:_MAX_MESSAGE])
    raise AssertionError("abort never returns")


def make_server(service: P4RuntimeService, interceptors: Sequence[Any] = ()) -> grpc.aio.Server:
    """A server with the service behind `interceptors`; the caller binds, starts and stops it."""
    server = grpc.aio.server(
        interceptors=(*interceptors, Readable(SERVICES)),
        options=[
            ("grpc.max_receive_message_length", limits.MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", limits.MAX_MESSAGE_BYTES),
            *grpc_options(limits.MAX_CONNECTIONS),
            ("grpc.keepalive_time_ms", 60_000),  # release the resources of clients whose machine has disappeared
            ("grpc.keepalive_timeout_ms", 20_000),
            ("grpc.so_reuseport", 0),  # an address in use must be an error, not shared with another server
        ],
        maximum_concurrent_rpcs=limits.MAX_CALLS,
    )
    p4r_grpc.add_P4RuntimeServicer_to_server(service, server)
    return server
