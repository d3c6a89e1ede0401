"""Dispatches the log records of a switch (trace, log_msg, failed assertions) to a file, the log, or gRPC streams.

The switch keeps records in a bounded list and signals an eventfd. They are taken in the event loop, some at a time, and
passed to every listener. Tracing is on only while a listener needs it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from typing import Protocol, TextIO

from p4runtime_shim.entities import LogRecord
from p4runtime_shim.switch import EmbeddedSwitch

_BATCH = 500  # records before other events are handled
_MAX_WAITING = 4096  # records queued for a slow stream

_log = logging.getLogger(__name__)


class LogListener(Protocol):
    """Receives records; `lost` records before the first were dropped. `traces`: needs a trace of packets."""

    traces: bool

    def handle(self, records: list[LogRecord], lost: int) -> None:
        """The next records, oldest first."""
        ...


class LogDispatcher:
    """The log records of one switch, and their listeners."""

    def __init__(self, switch: EmbeddedSwitch) -> None:
        self._switch = switch
        self._listeners: list[LogListener] = []
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._event, self._ready)
        self._lost = 0
        self._closed = False

    @property
    def tracing(self) -> bool:
        """True while a listener needs a trace."""
        return any(listener.traces for listener in self._listeners)

    def add(self, listener: LogListener) -> None:
        """Pass records to a listener from now on; does nothing once this is closed."""
        if self._closed:
            return
        self._take(None)  # earlier records are for the other listeners
        self._listeners.append(listener)
        self._apply()

    def remove(self, listener: LogListener) -> None:
        """Stop passing records to a listener. Safe after this and the switch are closed, since calls may end late."""
        if self._closed:
            return
        self._take(None)
        self._listeners.remove(listener)
        self._apply()

    def close(self) -> None:
        """Pass on the remaining records and stop; the switch is not closed."""
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
            os.eventfd_write(self._event, 1)  # take the rest after other events

    def _take(self, limit: int | None) -> int:
        records = self._switch.take_log(limit)
        lost = self._switch.log_lost()
        new, self._lost = lost - self._lost, lost
        if records or new:
            for listener in self._listeners:
                listener.handle(records, new)
        return len(records)


def format_record(record: LogRecord, epoch: int, label: str) -> str:
    """A line of text: seconds since `epoch` (ns), the switch, the record."""
    since = max(record.time - epoch, 0)
    return f"{since // 10**9}.{since % 10**9:09} {label}: {record.text}\n"


class SwitchTraceFile:
    """A trace in a file ("-": standard error). Records that cannot be written are dropped, with one message."""

    traces = True

    def __init__(self, where: str, epoch: int) -> None:
        """Open the file for appending; raises OSError."""
        self._epoch = epoch
        self._file: TextIO = sys.stderr if where == "-" else open(where, "a", encoding="utf-8")  # noqa: SIM115
        self._where = "standard error" if where == "-" else where
        self._broken = False

    def for_switch(self, label: str) -> LogListener:
        """The listener for one switch."""
        return _Labelled(self, label)

    def write(self, label: str, records: list[LogRecord], lost: int) -> None:
        """Write the records of a switch."""
        gap = f"{label}: {lost} records were lost\n" if lost else ""
        try:
            self._file.write(gap + "".join(format_record(record, self._epoch, label) for record in records))
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
                self._broken = True  # reported already


class _Labelled:
    traces = True

    def __init__(self, trace: SwitchTraceFile, label: str) -> None:
        self._trace = trace
        self._label = label

    def handle(self, records: list[LogRecord], lost: int) -> None:
        self._trace.write(self._label, records, lost)


class ProgramLog:
    """Passes the program's records (log_msg, failed assertions) to the log."""

    traces = False

    def __init__(self, label: str) -> None:
        self._label = label

    def handle(self, records: list[LogRecord], lost: int) -> None:
        """Log the records."""
        if lost:
            _log.info("%s: %d records were lost", self._label, lost)
        for record in records:
            _log.info("%s: %s", self._label, record.text)


class LogRecordQueue:
    """A queue for a slow reader; records beyond its limit are dropped and counted."""

    def __init__(self, *, traces: bool = True) -> None:
        self.traces = traces
        self._waiting: deque[tuple[LogRecord, int]] = deque()
        self._lost = 0
        self._filled = asyncio.Event()

    def handle(self, records: list[LogRecord], lost: int) -> None:
        """Queue the records that fit."""
        self._lost += lost
        for record in records:
            if len(self._waiting) >= _MAX_WAITING:
                self._lost += 1
            else:
                self._waiting.append((record, self._lost))
                self._lost = 0
        self._filled.set()

    async def next(self) -> tuple[LogRecord, int]:
        """The next record, and the number of records lost before it."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        return self._waiting.popleft()
