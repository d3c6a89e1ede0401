"""Checks of every gRPC request before its method sees it: the sender's token, and that it can be read at all."""

from __future__ import annotations

import contextlib
import hmac
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import grpc
from google.protobuf.message import DecodeError

_UNREADABLE = object()


class TokenCheck(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Lets requests pass that bring ``authorization: Bearer TOKEN``; `who` wants it, as the refusal says."""

    def __init__(self, token: str, who: str) -> None:
        self._wanted = f"Bearer {token}".encode()

        async def refuse(_request: Any, context: Any) -> None:
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED, f"The {who} wants a token: give the file it was started with."
            )

        async def refuse_stream(request: Any, context: Any) -> Any:
            await refuse(request, context)
            yield

        self._refuse = grpc.unary_unary_rpc_method_handler(refuse)
        self._refusals = {
            (False, True): grpc.unary_stream_rpc_method_handler(refuse_stream),
            (True, False): grpc.stream_unary_rpc_method_handler(refuse),
            (True, True): grpc.stream_stream_rpc_method_handler(refuse_stream),
        }

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """The method, or one that refuses."""
        given = [value for key, value in details.invocation_metadata if key == "authorization"]
        if any(hmac.compare_digest(_bytes(value), self._wanted) for value in given):
            return await continuation(details)
        handler = await continuation(details)
        if handler is None:
            return self._refuse
        return self._refusals.get((handler.request_streaming, handler.response_streaming), self._refuse)


class Readable(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses bytes that are no message as INVALID_ARGUMENT; gRPC itself calls them UNKNOWN and logs a traceback."""

    def __init__(self, services: Collection[str]) -> None:
        self._prefixes = tuple(f"/{service}/" for service in services)

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """The method, behind a look at what came."""
        handler = await continuation(details)
        if handler is None or not details.method.startswith(self._prefixes):
            return handler
        parse, serialize = handler.request_deserializer, handler.response_serializer

        def read(data: bytes) -> Any:
            try:
                return parse(data)
            except DecodeError:
                return _UNREADABLE

        async def answer(request: Any, context: Any) -> Any:
            await _check(request, context)
            return await handler.unary_unary(request, context)

        async def write(request: Any, context: Any) -> None:
            await _check(request, context)
            await handler.unary_stream(request, context)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            await _check(request, context)
            async with contextlib.aclosing(handler.unary_stream(request, context)) as replies:
                async for reply in replies:
                    yield reply

        async def converse(requests: AsyncIterator[Any], context: Any) -> None:
            await handler.stream_stream(_readable(requests, context), context)

        if handler.request_streaming and handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(converse, read, serialize)
        if handler.response_streaming and inspect.iscoroutinefunction(handler.unary_stream):
            return grpc.unary_stream_rpc_method_handler(write, read, serialize)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(stream, read, serialize)
        return grpc.unary_unary_rpc_method_handler(answer, read, serialize)


async def _readable(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
    async for request in requests:
        await _check(request, context)
        yield request


async def _check(request: Any, context: Any) -> None:
    if request is _UNREADABLE:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT, "The request is no message of this service: it does not parse."
        )


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
