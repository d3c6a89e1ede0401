"""Ctrl-C and termination at a safe point only.

Bringing a fabric up and taking it down are sequences of steps that must be undone or completed as wholes. While one
of them runs, SIGINT, SIGTERM and SIGHUP are only noted, and are acted upon between steps (:meth:`Deferred.check`).
While the fabric is up, SIGINT means what it always means, and SIGTERM and SIGHUP end the program through its
``finally`` clauses instead of at once. Signals reach Python's main thread only; in any other thread nothing is
changed.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], object]


class Deferred:
    """Notes which signal came; :meth:`check` acts upon it."""

    def __init__(self) -> None:
        self.pending: int | None = None

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Signal handler: remember the first signal."""
        if self.pending is None:
            self.pending = number

    def check(self) -> None:
        """Raise what the signal that came means: KeyboardInterrupt, or SystemExit with the shell's exit status."""
        if self.pending is None:
            return
        number, self.pending = self.pending, None
        _raise(number, None)


@contextlib.contextmanager
def deferred() -> Iterator[Deferred]:
    """While in this context, signals are noted; one that was never checked is acted upon at the end."""
    notes = Deferred()
    with _handlers(notes.note, _SIGNALS):
        yield notes
    notes.check()


@contextlib.contextmanager
def orderly() -> Iterator[None]:
    """While in this context, SIGTERM and SIGHUP unwind the stack, unless the program handles them itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    default = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    with _handlers(_raise, default):
        yield


def _raise(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _handlers(handler: Handler, numbers: tuple[signal.Signals, ...] | list[signal.Signals]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
