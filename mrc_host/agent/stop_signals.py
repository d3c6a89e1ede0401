"""SIGTERM and SIGINT end a loop, whatever it does when they come.

Python calls the handler of a signal between instructions of its interpreter. The loop is compiled and has none: a
signal that came just before it went to sleep would be handled when something else woke it, perhaps never. So the
signal also writes to a socket that the loop watches (`signal.set_wakeup_fd`), and what reads that is interpreted. This
file must not be compiled.
"""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from mrc_host.driver.loop import READABLE, Loop

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_by_signals(loop: Loop) -> Iterator[None]:
    """While this is entered, in the main thread, the signals stop `loop`. Afterwards everything is as before."""
    reader, writer = socket.socketpair()

    def read(_mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            reader.recv(64)  # one byte a signal; before or after this line the handlers of those that came are called

    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        loop.add(reader.fileno(), READABLE, read)
        before = {number: signal.signal(number, lambda *_: loop.stop()) for number in SIGNALS}
        previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)
            loop.remove(reader.fileno())
