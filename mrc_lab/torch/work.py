"""An operation under way, as torch.distributed hands it to its caller."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from mrc_lab.torch.callback_threads import CallbackThreads


class MrcWork(dist.Work):  # type: ignore[misc]
    """Completed by :meth:`finish` from the loop's thread; any other thread may wait for it.

    `tensors` is the result that hooks of DistributedDataParallel get. torch calls some methods from C++ (`wait`,
    `get_future`) and the others from Python. Completing a future runs its callbacks, so `callbacks` does that.
    """

    def __init__(self, what: str, tensors: list[Any], callbacks: CallbackThreads) -> None:
        super().__init__()
        self._what = what
        self._tensors = tensors
        self._callbacks = callbacks
        self._source: int | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._settle: Callable[[], None] | None = None
        self._future: Any = None

    def finish(self, error: Exception | None = None, source: int | None = None) -> None:
        """The operation has ended, by `error` if it is one; `source` is whom a message came from."""
        with self._lock:
            self._error = error
            if source is not None:
                self._source = source
            self._ended.set()
            settle, self._settle = self._settle, None
        if settle is not None:
            self._callbacks.run(settle)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return True when it has ended well; raise its DistBackendError if not, or one after `timeout` (0: none)."""
        seconds = timeout.total_seconds() if timeout is not None and timeout > timedelta(0) else None
        if not self._ended.wait(seconds):
            raise dist.DistBackendError(f"{self._what} timed out after {seconds:g} s; it goes on.")
        with self._lock:
            future = self._future
        if future is not None:
            with contextlib.suppress(Exception):  # it has the error below
                future.wait()  # as with torch's own backends it is done now; its callbacks may still run
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """As :meth:`wait`."""
        self.wait()

    def block_current_stream(self) -> None:
        """A CPU has no streams: as :meth:`wait`."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._ended.is_set() and self._error is None

    def exception(self) -> Exception | None:
        """What it has ended by, if not well."""
        return self._error

    def result(self) -> list[Any]:
        """The tensors, once it has ended."""
        return self._tensors

    def source_rank(self) -> int:
        """Whom a received message came from. RuntimeError for other operations, and before the end."""
        if self._source is None:
            raise RuntimeError(f"{self._what} has no source rank")
        return self._source

    def _source_rank(self) -> int:
        return self.source_rank()

    def get_future(self) -> Any:
        """A torch future of the tensors; waiting for it raises what :meth:`wait` does, in C++ too."""
        with self._lock:
            if self._future is None:
                begun: Any = torch.futures.Future()
                # An error set from Python is a mere value to C++; one that a callback raises is an error.
                self._future = begun.then(self._outcome)
                if self._ended.is_set():
                    begun.set_result(None)
                else:
                    self._settle = lambda: begun.set_result(None)
            return self._future

    def _outcome(self, _: Any) -> list[Any]:
        if self._error is not None:
            raise self._error
        return self._tensors
