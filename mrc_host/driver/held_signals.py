"""Handlers of signals that run later, where there is no gate in C (``signal_gate.h``, which says what for).

While signals are held, what they would do is noted. Only the handlers of signals that programs usually handle are held,
and only those that are Python functions: they are replaced meanwhile.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

_HELD: Final = tuple(
    getattr(signal, name)
    for name in (
        "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGPROF", "SIGCHLD"
    )
)  # fmt: skip


class HeldSignals:
    """For the main thread, in which handlers run."""

    def __init__(self) -> None:
        self._times = 0  # held and not released
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}  # those that are replaced
        self._came: list[tuple[Callable[[int, FrameType | None], Any], int, FrameType | None]] = []

    def hold(self) -> None:
        """From now on handlers run in a `sleep`, or after as many calls of :meth:`release`."""
        if not self._times:
            self._replace()
        self._times += 1

    def release(self) -> None:
        """Undo :meth:`hold`; handlers that were held run now, and what they raise is raised here."""
        self._times -= 1
        if not self._times:
            self._restore()

    def sleep(self, function: Callable[[], None]) -> None:
        """Call `function`, in which handlers run."""
        if not self._times:
            function()
            return
        try:
            self._restore()
            function()
        finally:
            self._replace()

    def _replace(self) -> None:
        try:
            for number in _HELD:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)
        except BaseException:  # of a handler that is not replaced yet
            self._restore()
            raise

    def _restore(self) -> None:
        """A handler that is back may raise something at once: then the others follow, and it is raised."""
        try:
            while self._handlers:
                number = next(iter(self._handlers))
                if signal.getsignal(number) == self._note:  # otherwise somebody has set another one
                    signal.signal(number, self._handlers[number])
                del self._handlers[number]
            while self._came:
                handler, number, frame = self._came.pop(0)
                handler(number, frame)
        finally:
            if self._handlers or self._came:
                self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append((self._handlers[number], number, frame))
