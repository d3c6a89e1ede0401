"""Chunks on their way out of a rank, in order: each is sent once it is ready and a slot is free.

No coroutine waits for that. What makes it possible sends the chunk: its rank, the time, or a completion.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from mrc_lab.workloads.collectives.pacing import Pacing
from mrc_lab.workloads.collectives.stream import Bytes, Sender


class ChunkOutbox:
    """Of one operation. `pacing` is how long the library takes with each chunk.

    A failure to send fails the stream, and `failed` is notified, since whoever waits for an arrival would not notice.
    """

    def __init__(self, sender: Sender, pacing: Pacing | None, failed: Callable[[Exception], None]) -> None:
        self._sender = sender
        self._failed = failed
        self._pacing = pacing
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[tuple[Bytes, float]] = deque()  # and when each may be sent
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    def put(self, chunk: Bytes) -> None:
        """Send a chunk after those before it.

        Its memory may change only when the operation implies that it has been copied.
        """
        self._chunks.append((chunk, 0.0 if self._pacing is None else self._pacing.ready(chunk.size)))
        if len(self._chunks) == 1:
            self._send()

    async def flush(self) -> None:
        """Wait until everything is sent; raises what :meth:`Sender.send` does."""
        if self._chunks:
            self._emptied = self._loop.create_future()
            await self._emptied
        self._sender.check()

    def close(self) -> None:
        """Send nothing any more."""
        self._chunks.clear()
        self._sender.when_free(None)
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        """Send what can be sent, and see to it that the rest will be."""
        try:
            while self._chunks:
                chunk, ready = self._chunks[0]
                if ready > self._loop.time():
                    self._timer = self._loop.call_at(ready, self._on_time)
                    return
                if not self._sender.send_now(chunk):
                    self._sender.when_free(self._send)
                    return
                self._chunks.popleft()
        except Exception as failure:
            self._chunks.clear()
            self._sender.fail(failure)
            self._failed(failure)
        if self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _on_time(self) -> None:
        """The first chunk is ready, whatever the clock's rounding."""
        chunk, _ = self._chunks[0]
        self._chunks[0] = chunk, 0.0
        self._send()
