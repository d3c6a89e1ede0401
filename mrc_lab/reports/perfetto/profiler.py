"""A trace in Chrome's JSON format, as the PyTorch profiler writes it, as tracks beside those of the network.

Such a file is one JSON object, whose list ``traceEvents`` may be of any length: it is read piece by piece, an event at
a time. Times (`ts`, microseconds) count from ``baseTimeNanoseconds``, which stands before the list, or else from 1970;
the clocks of an event trace (`clock`, docs/trace.md) say what that is on the network's clock. Only slices (`X`) and
instants (`i`) are taken, with the names of processes and threads (`M`). They come in any order but have to be written
in that of their times to nest, so their times and names are kept, up to a limit.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any, Final, TextIO

from mrc_lab.errors import ExperimentError
from mrc_lab.reports.perfetto.track_writer import TrackWriter

_PIECE: Final = 1 << 16
_EVENT_LIMIT: Final = 1 << 22
_NAME_LIMIT: Final = 200
_HEAD_LIMIT: Final = 1 << 22
_MAX_EVENTS: Final = 2_000_000  # kept to be sorted, 200 bytes each
_LIST: Final = re.compile(r'"traceEvents"\s*:\s*\[')
_BASE: Final = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')
_SPACE: Final = re.compile(r"[\s,]*")
_decode: Final = json.JSONDecoder().raw_decode


def convert_profile(writer: TrackWriter, path: Path, realtime_at_zero: int) -> None:
    """Write the tracks; `realtime_at_zero` is what the wall clock said at time 0 of the trace, in ns since 1970."""
    open_file = gzip.open if path.suffix == ".gz" else open
    try:
        with open_file(path, "rt", encoding="utf-8") as file:
            profile = _Profile(path, realtime_at_zero)
            profile.read(file)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    profile.write(writer)


class _Profile:
    def __init__(self, path: Path, zero: int) -> None:
        self._path = path
        self._zero = zero
        self._line = 1
        self._count = 0
        self._names: dict[tuple[str, ...], str] = {}
        self._threads: dict[tuple[str, str], list[tuple[int, int, str]]] = {}  # begin, minus duration, name

    def read(self, file: TextIO) -> None:
        """Write all events."""
        text = self._head(file)
        at = 0
        while True:
            at = self._skip(text, at)
            while at == len(text):
                text, at = file.read(_PIECE), 0
                if not text:
                    raise self._error("the list of events does not end")
                at = self._skip(text, 0)
            if text[at] == "]":
                return
            event, text, at = self._next(file, text, at)
            try:
                self._take(event)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise self._error(f"not an event of Chrome's format: {error}") from None

    def _head(self, file: TextIO) -> str:
        """What stands after the opening of the list."""
        text = ""
        while (found := _LIST.search(text)) is None:
            piece = file.read(_PIECE)
            text += piece
            if not piece or len(text) > _HEAD_LIMIT:
                raise self._error("it has no list traceEvents, as a trace of the PyTorch profiler has")
        base = _BASE.search(text, 0, found.start())
        self._zero -= int(base[1]) if base else 0
        self._line += text.count("\n", 0, found.end())
        return text[found.end() :]

    def _skip(self, text: str, at: int) -> int:
        space = _SPACE.match(text, at)
        assert space is not None, "the pattern matches nothing too"
        self._line += text.count("\n", at, space.end())
        return space.end()

    def _next(self, file: TextIO, text: str, at: int) -> tuple[Any, str, int]:
        """The event that begins at `at`, the text in hand, and where the rest begins."""
        text = text[at:]
        while True:
            try:
                event, end = _decode(text)
            except (ValueError, RecursionError):
                piece = file.read(_PIECE)
                if not piece or len(text) > _EVENT_LIMIT:
                    raise self._error("not an event in JSON") from None
                text += piece
                continue
            self._line += text.count("\n", 0, end)
            return event, text, end

    def _take(self, event: dict[str, Any]) -> None:
        kind, key = event.get("ph"), (str(event.get("pid", "")), str(event.get("tid", "")))
        if kind == "M" and event["name"] in ("process_name", "thread_name"):
            self._names[key[:1] if event["name"] == "process_name" else key] = str(event["args"]["name"])
        elif kind in ("X", "i", "I"):
            begin = round(event["ts"] * 1000) - self._zero
            end = begin + round(event.get("dur", 0) * 1000)
            if not 0 <= begin <= end < 1 << 62:
                raise ValueError("its time is before the beginning of the network's trace, or out of range")
            self._count += 1
            if self._count > _MAX_EVENTS:
                raise self._error(f"it has more than {_MAX_EVENTS:,} events: profile fewer steps")
            name = sys.intern(str(event["name"])[:_NAME_LIMIT])
            self._threads.setdefault(key, []).append((begin, begin - end, name))

    def write(self, writer: TrackWriter) -> None:
        """Write a track for each thread, and more where slices of one overlap without one being inside the other."""
        group = writer.track(f"profiler: {self._path.name}", rank=-1)
        for key, slices in self._threads.items():
            process = writer.track(self._names.get(key[:1], f"process {key[0]}"), group)
            lanes: list[tuple[int, list[int]]] = []  # each a track, and the ends of the slices that are open on it
            slices.sort()
            for begin, negative, name in slices:
                end = begin - negative
                for track, open_slices in lanes:
                    _end_until(writer, track, open_slices, begin)
                found = next((lane for lane in lanes if not lane[1] or lane[1][-1] >= end), None)
                if found is None:
                    label = self._names.get(key, f"thread {key[1]}") + (f" ({len(lanes) + 1})" if lanes else "")
                    found = (writer.track(label, process, rank=len(lanes)), [])
                    lanes.append(found)
                writer.begin(found[0], begin, name)
                found[1].append(end)
            for track, open_slices in lanes:
                _end_until(writer, track, open_slices, 1 << 62)

    def _error(self, text: str) -> ExperimentError:
        return ExperimentError(f"{self._path}, line {self._line}: {text}")


def _end_until(writer: TrackWriter, track: int, open_slices: list[int], time: int) -> None:
    """End the slices of a track that are over at `time`, innermost first."""
    while open_slices and open_slices[-1] <= time:
        writer.end(track, open_slices.pop())
