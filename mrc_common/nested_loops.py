"""Run an event loop of ours while another one runs in this thread, as in a notebook, whose cells its loop executes.

asyncio refuses that, lest the outer loop be forgotten while the inner one waits. Here that is meant: the call blocks,
as any other does, and the outer loop goes on when it returns. So asyncio is told meanwhile that no loop runs in this
thread and that no task is current, which Python 3.14 keeps for each thread instead of for each loop. Only that thread's
two markers are changed, and put back; neither loop notices anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_swap: Callable[[Any, Any], Any] | None = getattr(asyncio.tasks, "_swap_current_task", None)  # since Python 3.12


@contextmanager
def outer_loop_suspended() -> Iterator[None]:
    """Meanwhile this thread may run another event loop. Nothing is done where none runs."""
    outer = asyncio._get_running_loop()
    if outer is None:
        yield
        return
    task = asyncio.current_task(outer)
    if task is not None and _swap is not None:
        _swap(outer, None)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(outer)
        if task is not None and _swap is not None:
            _swap(outer, task)
