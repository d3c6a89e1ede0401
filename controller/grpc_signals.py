"""gRPC where Ctrl-C may come at any time.

Python runs signal handlers in the main thread, between any two instructions. An exception there leaves gRPC's own books
half written when it comes inside of one of its functions, and then closing the channel waits for ever for a call that
nobody ends; inside of a destructor it is lost. So whatever touches a channel is done in a thread of its own, where no
handler runs, while the main thread waits for the result, which can be interrupted anywhere. The thread is left to
itself then; closing the channel, or the call's deadline, ends it.
"""

from __future__ import annotations

import _thread
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")
_LOOK_S = 0.2  # a signal that comes just before a wait does not interrupt it, so that waits are short


def run_in_thread(function: Callable[[], _T]) -> _T:
    """What `function` returns or raises; done in another thread when this one is the one that signals interrupt.

    The thread is started and waited for by single C functions: those of ``threading`` are Python, and break as well.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answer = True, function()
        except BaseException as error:
            answers.put((False, error))
        else:
            answers.put(answer)

    _thread.start_new_thread(work, ())
    while True:
        with contextlib.suppress(queue.Empty):
            well, answer = answers.get(timeout=_LOOK_S)
            break
    if not well:
        raise answer
    result: _T = answer
    return result


class ThreadedStream:
    """The messages of a gRPC stream, which is begun, read, ended and destroyed apart. Raises what the stream raises."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._held: list[Any] = []
        run_in_thread(lambda: self._held.append(begin()))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        message = run_in_thread(lambda: next(self._held[0], self))
        if message is self:
            raise StopIteration
        return message

    def close(self) -> None:
        """End the stream."""

        def end() -> None:
            self._held[0].cancel()
            self._held.clear()

        run_in_thread(end)
