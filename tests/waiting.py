"""Wait for what no event announces: a condition is looked at again and again, with a deadline that only a hang reaches.

Tests sleep nowhere else, but where it is the passing of time that they test; there a comment says so.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

# A machine that is slow enough to need more says so, as it does for processes of a fabric that start (docs/start.md).
TIMEOUT_S = max(60.0, float(os.environ.get("MRC_READY_SECONDS") or 0))
_PAUSE_S = 0.005  # of real time between two looks


def until(condition: Callable[[], T], what: str = "what never came", timeout_s: float = TIMEOUT_S) -> T:
    """Wait for a condition to hold; returns what it returned. AssertionError when it never does."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}"
        time.sleep(_PAUSE_S)
    return found


async def until_async(
    condition: Callable[[], T | Awaitable[T]], what: str = "what never came", timeout_s: float = TIMEOUT_S
) -> T:
    """:func:`until` in an event loop; the condition may be a coroutine function."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        value: T = await found if inspect.isawaitable(found) else found
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}"
        await asyncio.sleep(_PAUSE_S)
