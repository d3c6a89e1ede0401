"""Wait for what no event announces: a condition is looked at again and again, with a deadline that only a hang reaches.

The deadline is counted as the limits of tests are (``tests/time_limit.py``): by what a busy machine gives a process. A
child is waited for without one: a test that hangs is ended, with its children, and all of them say where they were.

Tests sleep nowhere else, but where it is the passing of time that they test; there a comment says so.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.time_limit_keeper import share

T = TypeVar("T")

# A slow machine says so, as it does for processes of a fabric that start (docs/troubleshooting.md).
TIMEOUT_S = max(60.0, float(os.environ.get("MRC_READY_SECONDS") or 0))
_PAUSE_S = 0.005  # of real time between two looks


class _Budget:
    """Time for a wait, of which a second of a busy machine takes less than one."""

    def __init__(self, seconds: float, what: str) -> None:
        self._seconds, self._what = seconds, what
        self._left = seconds
        self._looked = time.monotonic()

    def check(self) -> None:
        now = time.monotonic()
        self._left -= (now - self._looked) * share()
        self._looked = now
        assert self._left > 0, f"waited {self._seconds:g} s for {self._what}"


def until(condition: Callable[[], T], what: str = "what never came", timeout_s: float = TIMEOUT_S) -> T:
    """Wait for a condition to hold; returns what it returned. AssertionError when it never does."""
    budget = _Budget(timeout_s, what)
    while not (found := condition()):
        budget.check()
        time.sleep(_PAUSE_S)
    return found


async def until_async(
    condition: Callable[[], T | Awaitable[T]], what: str = "what never came", timeout_s: float = TIMEOUT_S
) -> T:
    """:func:`until` in an event loop; the condition may be a coroutine function."""
    budget = _Budget(timeout_s, what)
    while True:
        found = condition()
        value: T = await found if inspect.isawaitable(found) else found
        if value:
            return value
        budget.check()
        await asyncio.sleep(_PAUSE_S)
