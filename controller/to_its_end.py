"""A change goes on after the client that asked for it has gone: half a change would stay."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns. It is not cancelled when its caller is, as gRPC does when a client disconnects."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be that nobody waits any more
    return await asyncio.shield(task)
