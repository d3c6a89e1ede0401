"""Handlers of signals that run later: one that raises an exception, as Ctrl-C's does, would end a NIC's work half way.

While signals are held, what they would do is noted, and done when they are released; whoever sleeps meanwhile looks for
notes first, and is woken by the signal. Only the handlers of signals that programs usually handle are held, and only
those that are Python functions: they are replaced meanwhile.

Where it is compiled ``signal_holder.c`` does the same in a fraction of the time. Its notes end a sleep that begins when
a signal has just come, too, by ringing a bell.
"""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

_HELD: Final = tuple(
    int(getattr(signal, name))
    for name in (
        "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGPROF", "SIGCHLD"
    )
)  # fmt: skip
_signal: Any = importlib.import_module("_signal")  # without enumerations: in a fraction of the time

Handler = Callable[[int, "FrameType | None"], Any]


class HeldSignals:
    """For the main thread, in which handlers run."""

    __slots__ = ("_came", "_handlers", "_holder", "_noted", "_since", "_times")

    def __init__(self) -> None:
        self._holder = _compiled_holder()
        self._since = 0  # of the holder: when they were held
        self._times = 0  # held and not released
        self._handlers: dict[int, Handler] = {}  # those that are replaced
        self._came: list[tuple[Handler, int, FrameType | None]] = []
        self._noted = False

    @property
    def noted(self) -> bool:
        """Something came, and is to be done when signals are released."""
        if self._holder is None:
            return self._noted
        return self._times > 0 and bool(self._holder.noted(self._since))

    @property
    def bell(self) -> int | None:
        """A descriptor to wait for edge-triggered, which rings when something comes; None: there is none."""
        return None if self._holder is None else int(self._holder.fileno())

    def hold(self) -> None:
        """From now on handlers run after as many calls of :meth:`release`."""
        if not self._times:
            self._replace()
        self._times += 1

    def release(self) -> None:
        """Undo :meth:`hold`; handlers that were held run now, and what they raise is raised here."""
        if self._times:  # otherwise this is a forked child's
            self._times -= 1
        if not self._times:
            self._restore()

    def sleep(self, function: Callable[[], None]) -> None:
        """Call `function`, which a note would not end: handlers run in it."""
        if not self._times:
            function()
            return
        try:
            self._restore()
            function()
        finally:
            self._replace()

    def leave_to_parent(self) -> None:
        """In a forked child: nothing is held, and what came is the parent's."""
        self._times = 0
        self._came.clear()
        if self._holder is not None:
            self._holder.forget()
        else:
            self._restore()

    def _replace(self) -> None:
        if self._holder is not None:
            self._since = self._holder.hold(_HELD)
            return
        try:
            for number in _HELD:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    _signal.signal(number, self._note)
        except BaseException:  # of a handler that is not replaced yet
            self._restore()
            raise

    def _restore(self) -> None:
        """A handler that is back may raise something at once: then the others follow, and it is raised."""
        if self._holder is not None:
            self._holder.release()
            return
        try:
            while self._handlers:
                number = next(iter(self._handlers))
                if _signal.getsignal(number) == self._note:  # otherwise somebody has set another one
                    _signal.signal(number, self._handlers[number])
                del self._handlers[number]
            self._noted = False
            while self._came:
                handler, number, frame = self._came.pop(0)
                handler(number, frame)
        finally:
            if self._handlers or self._came:
                self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        handler = self._handlers.get(number)
        if handler is not None:
            self._came.append((handler, number, frame))
            self._noted = True


def _compiled_holder() -> Any:
    """The module in C, None where it is not compiled."""
    try:
        from mrc_host.driver import signal_holder
    except ImportError:
        return None
    return signal_holder
