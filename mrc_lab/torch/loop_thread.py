"""A thread with an event loop in it: torch's own threads post operations to it and wait.

All groups of a process share one, since they share one NIC. Coroutines start in the order in which they were posted.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """Starts at once; :meth:`stop` ends it. It does not keep the interpreter from ending."""

    def __init__(self, name: str = "mrc") -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def post(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine, which must not raise, on the loop. RuntimeError after a fork or after :meth:`stop`."""
        self._check()
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(start()))

    def call(self, coroutine: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Run a coroutine on the loop and wait for what it returns or raises; not from the loop's own thread."""
        self._check()
        future: Future[Result] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(timeout_s)

    def stop(self) -> None:
        """End the thread; what still runs on the loop is cancelled. In a forked process there is nothing to end."""
        if self._process != os.getpid() or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _check(self) -> None:
        if self._process != os.getpid():
            raise RuntimeError("This process was forked from one that uses the NIC: make a new process group in it.")
        if not self._thread.is_alive():
            raise RuntimeError("The process group is destroyed.")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            self._loop.close()
