"""Threads that run what users attach to futures, so that it may wait, take long, raise or destroy the group.

Nothing of a user's may run on the NIC's loop: what waits there for another operation waits for ever. A call goes to a
thread that is idle, or to a new one, since all others may be waiting for what this call is to do. Idle threads end.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable

_IDLE_S = 1.0


class CallbackThreads:
    """As many threads as there are calls under way. They do not keep the interpreter from ending."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0  # threads that wait, less the calls in the queue

    def run(self, call: Callable[[], None]) -> None:
        """Have a thread run it; returns at once."""
        with self._lock:
            start = not self._idle
            if not start:
                self._idle -= 1
        self._calls.put(call)
        if start:
            threading.Thread(target=self._serve, name="mrc callback", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if not self._idle:
                        continue  # a call has just been counted on this thread
                    self._idle -= 1
                    return
            try:
                call()
            except BaseException:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            del call  # it refers to tensors
            with self._lock:
                self._idle += 1
