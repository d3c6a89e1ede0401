"""The work of a NIC in its application's process: rounds of the loop within the application's calls.

Here because it is compiled: a call without anything to do, which applications make by the thousand, is short.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from mrc_host.driver.loop import Loop
from mrc_host.errors import StateError

_ANY: Final = 0  # in place of the number of a thread


class NicWork:
    """Runs `loop` for a NIC whose application has news when `has_news` says so.

    It belongs to the thread that makes it, while that lives: whatever lets the NIC work raises StateError in others. In
    the main thread handlers of signals, which run there, run when the work is done.
    """

    def __init__(self, loop: Loop, has_news: Callable[[], bool]) -> None:
        self._loop = loop
        self._has_news = has_news
        self._take()
        self._check: Callable[[], None] | None = None
        self._announce: Callable[[], bool] | None = None
        self._interrupted: Callable[[], bool] | None = None
        self.busy = False  # the loop runs, or coroutines do, after which it will
        self.poked = False  # the NIC may have something to send

    def attach(self, check: Callable[[], None], announce: Callable[[], bool]) -> None:
        """What raises an error when the NIC is no more, and what gives the application its news, if there is any."""
        self._check, self._announce = check, announce

    def _take(self) -> None:
        """It belongs to this thread."""
        self._owner = threading.current_thread()
        self._owning_thread = threading.get_ident()
        self._hold = self._owner is threading.main_thread()

    def release(self) -> None:
        """It belongs to no thread: there is no NIC any more, and whoever calls is to hear that."""
        self._owning_thread = _ANY
        self._hold = False  # nothing is left that a handler of a signal could interrupt

    def check_thread(self) -> None:
        """StateError in another thread."""
        if threading.get_ident() == self._owning_thread or self._owning_thread == _ANY:
            return
        if self._owner.is_alive():
            raise StateError("This NIC belongs to the thread that opened it: use it there, or an agent's NIC instead.")
        self._take()

    def poke(self) -> None:
        """The NIC may have something to send."""
        self.check_thread()
        self.poked = True
        if not self.busy:
            self.work(0, None)

    def advance(self, deadline: int | None) -> bool:
        """As a ``LocalProvider`` needs it."""
        self.work(deadline, None)
        return True  # its world never ends

    def work(self, deadline: int | None, interrupted: Callable[[], bool] | None) -> None:
        """Let the NIC do what is due, and then until `deadline` (monotonic ns; None: no limit) whatever becomes due.

        It ends when there is news for the application, or `interrupted` says so, which is asked after each round.
        """
        self.check_thread()
        if not self._hold:
            self.work_held(deadline, interrupted)
            return
        signals = self._loop.signals
        signals.hold()
        try:
            self.work_held(deadline, interrupted)
        finally:
            signals.release()

    def work_held(self, deadline: int | None, interrupted: Callable[[], bool] | None) -> None:
        """The same, within `whole`."""
        if self._check is not None:
            self._check()
        busy, self.busy = self.busy, True
        outer, self._interrupted = self._interrupted, interrupted
        try:
            self.poked = False
            self._loop.run_until(self._done, deadline)
            self._interrupted = None
            while self.poked:  # by a callback, of events say, that has posted
                self.poked = False
                self._loop.run_until(self._done, 0)
        finally:
            self.busy, self._interrupted = busy, outer

    def _done(self) -> bool:
        if self._has_news() and self._announce is not None and self._announce():
            return True
        return self._interrupted is not None and self._interrupted()

    def whole(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `function` returns; no handler of a signal runs meanwhile."""
        self.check_thread()
        if not self._hold:
            return function(*arguments)
        signals = self._loop.signals
        signals.hold()
        try:
            return function(*arguments)
        finally:
            signals.release()
