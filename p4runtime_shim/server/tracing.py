"""Lines of a switch (trace, log_msg, failed assertions) to whoever wants them: a file, the log, gRPC streams.

The switch keeps lines in a bounded list and signals an eventfd; here they are taken in the event loop, some at a time,
and handed to every listener. Tracing is on only while a listener asks for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from typing import Protocol, TextIO

from p4runtime_shim.switch import Switch
from p4runtime_shim.values import LogLine

_BATCH = 500  # lines before other events have their turn
_MAX_WAITING = 4096  # lines for a slow stream

_log = logging.getLogger(__name__)


class Listener(Protocol):
    """Takes lines; `lost` of them came before the first and are gone. `traces`: wants packets traced."""

    traces: bool

    def lines(self, lines: list[LogLine], lost: int) -> None:
        """The next lines, oldest first."""
        ...


class Lines:
    """The lines of one switch and their listeners."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._listeners: list[Listener] = []
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._event, self._ready)
        self._lost = 0
        self._closed = False

    @property
    def tracing(self) -> bool:
        """True while a listener has packets traced."""
        return any(listener.traces for listener in self._listeners)

    def add(self, listener: Listener) -> None:
        """Hand it the lines from now on; none come once this is closed."""
        if self._closed:
            return
        self._take(None)  # what came before belongs to the others
        self._listeners.append(listener)
        self._apply()

    def remove(self, listener: Listener) -> None:
        """No more lines for it. Safe when this is closed, and the switch with it: a call may end that late."""
        if self._closed:
            return
        self._take(None)
        self._listeners.remove(listener)
        self._apply()

    def close(self) -> None:
        """Hand out what is there and stop; the switch is not closed."""
        self._closed = True
        self._take(None)
        self._listeners.clear()
        self._switch.set_logging(messages=False, trace=False, event=-1)
        self._loop.remove_reader(self._event)
        os.close(self._event)

    def _apply(self) -> None:
        event = self._event if self._listeners else -1
        self._switch.set_logging(messages=bool(self._listeners), trace=self.tracing, event=event)

    def _ready(self) -> None:
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return
        if self._take(_BATCH) == _BATCH:
            os.eventfd_write(self._event, 1)  # the rest after other events

    def _take(self, limit: int | None) -> int:
        lines = self._switch.take_log(limit)
        lost = self._switch.log_lost()
        new, self._lost = lost - self._lost, lost
        if lines or new:
            for listener in self._listeners:
                listener.lines(lines, new)
        return len(lines)


def text_of(line: LogLine, epoch: int, label: str) -> str:
    """A line for people: seconds since `epoch` (ns), the switch, what happened."""
    since = max(line.time - epoch, 0)
    return f"{since // 10**9}.{since % 10**9:09} {label}: {line.text}\n"


class TextTrace:
    """A trace in a file ("-": standard error). What cannot be written is said once, and left out."""

    traces = True

    def __init__(self, where: str, epoch: int) -> None:
        """Open it, to append; OSError."""
        self._epoch = epoch
        self._file: TextIO = sys.stderr if where == "-" else open(where, "a", encoding="utf-8")  # noqa: SIM115
        self._where = "standard error" if where == "-" else where
        self._broken = False

    def for_switch(self, label: str) -> Listener:
        """The listener for one of the switches."""
        return _Labelled(self, label)

    def write(self, label: str, lines: list[LogLine], lost: int) -> None:
        """Add lines of a switch."""
        gap = f"{label}: {lost} lines are lost\n" if lost else ""
        try:
            self._file.write(gap + "".join(text_of(line, self._epoch, label) for line in lines))
            self._file.flush()
        except OSError as error:
            if not self._broken:
                sys.stderr.write(f"p4runtime_shim: cannot write the trace to {self._where}: {error.strerror}\n")
            self._broken = True
        else:
            self._broken = False

    def close(self) -> None:
        """Close the file."""
        if self._file is not sys.stderr:
            try:
                self._file.close()
            except OSError:
                self._broken = True  # said already


class _Labelled:
    traces = True

    def __init__(self, trace: TextTrace, label: str) -> None:
        self._trace = trace
        self._label = label

    def lines(self, lines: list[LogLine], lost: int) -> None:
        self._trace.write(self._label, lines, lost)


class LogLines:
    """What the program says (log_msg, failed assertions), to the log."""

    traces = False

    def __init__(self, label: str) -> None:
        self._label = label

    def lines(self, lines: list[LogLine], lost: int) -> None:
        """Log them."""
        if lost:
            _log.info("%s: %d lines are lost", self._label, lost)
        for line in lines:
            _log.info("%s: %s", self._label, line.text)


class LineQueue:
    """Lines for a reader that may be slow; what it does not fetch in time is dropped and counted."""

    def __init__(self, *, traces: bool = True) -> None:
        self.traces = traces
        self._waiting: deque[tuple[LogLine, int]] = deque()
        self._lost = 0
        self._something = asyncio.Event()

    def lines(self, lines: list[LogLine], lost: int) -> None:
        """Keep those for which there is room."""
        self._lost += lost
        for line in lines:
            if len(self._waiting) >= _MAX_WAITING:
                self._lost += 1
            else:
                self._waiting.append((line, self._lost))
                self._lost = 0
        self._something.set()

    async def next(self) -> tuple[LogLine, int]:
        """The next line, and how many were lost before it."""
        while not self._waiting:
            self._something.clear()
            await self._something.wait()
        return self._waiting.popleft()
