"""A recording of the live view: everything that a viewer is sent, written into one file that plays it.

The file is the page itself with its styles, modules and records inside, and needs neither a server nor a network: a
module's imports become names, which an import map gives as data. The recorder is a viewer like any other, so the fabric
is read for as long as it runs. Records are at the end of the file, one a line, and are appended as they come: a
recording whose end was never written, because its recorder was killed or the disk is full, plays as far as it goes. One
that has become too large ends there, and says so.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc_common import named_files, strict_json, written_files
from mrc_lab.errors import ExperimentError
from mrc_lab.web.feed import Feed, Outbox
from mrc_lab.web.server import static_files

MAX_BYTES = 128 << 20
_PERIOD_S = 0.1
_IMPORT = re.compile(r'(\bfrom "|\bimport ")(?:\./)((?:uplot/)?\w+(?:\.esm)?\.js")')
_MODULES = "live-view/"  # begins the names of modules in a recording
_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"
_CLOSING = "</script>"
_SEPARATOR = ",\n"
_EMPTY = b"[]"  # where records go in a page without any


class Recorder:
    """Records a feed from now on into `file`; ExperimentError if it cannot be written."""

    def __init__(self, feed: Feed, file: Path, max_bytes: int = MAX_BYTES) -> None:
        self._feed = feed
        self._file = file
        self._left = max_bytes
        self._separator = b""
        begin, _, self._end = playable([]).rpartition(_EMPTY)
        try:
            self._stream = open(written_files.create(file), "wb", buffering=0)  # noqa: SIM115 - closed by close()
            self._stream.write(begin + b"[")
        except OSError as error:
            raise ExperimentError(f"{file} cannot be written: {error.strerror}") from None
        self._outbox: Outbox = feed.join()

    async def run(self) -> None:
        """Record until the recording is too large or cannot be written, and then wait; does not return."""
        problem = f"{self._file} has become too large and ends here."
        try:
            while self._left > 0:
                await self._outbox.take()
                self.write()
                await asyncio.sleep(_PERIOD_S)
        except ExperimentError as error:
            problem = str(error)
        self._left = 0
        self._feed.leave(self._outbox)
        self._feed.event("recording", "", problem)
        await asyncio.get_running_loop().create_future()

    def write(self) -> None:
        """Write what has come until now. ExperimentError if that cannot be done."""
        if self._left <= 0:
            return
        lines = self._outbox.records(self._feed.now_ms())
        if not lines:
            return
        text = _escaped(_SEPARATOR.join(lines)).encode()
        self._left -= len(text)
        self._append(self._separator + text)
        self._separator = _SEPARATOR.encode()

    def close(self) -> None:
        """Write what has come until now, and the end. ExperimentError if that cannot be done."""
        self.write()
        self._append(b"]" + self._end)
        self._stream.close()

    def _append(self, text: bytes) -> None:
        try:
            while text:
                text = text[self._stream.write(text) :]
        except OSError as error:
            raise ExperimentError(f"{self._file} cannot be written any further: {error.strerror}.") from None


def in_order(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records by time: an event may be known some time after it happened. Layout and first state stay in front."""
    return [*records[:2], *sorted(records[2:], key=lambda record: record["at"])]


def playable(records: Iterable[str]) -> bytes:
    """The page, with all that belongs to it and these records, as one HTML file."""
    page = self_contained("index.html", "main.js")
    return page.replace("</body>", f"{data('recording', records)}</body>").encode()


def self_contained(name: str, script: str) -> str:
    """A page of the live view with its script, modules, styles and icon inside; it can load nothing from elsewhere."""
    files = {file: content.decode() for file, content in static_files().items()}
    modules = {
        _MODULES + file: f"data:text/javascript;base64,{base64.b64encode(_named_imports(text).encode()).decode()}"
        for file, text in files.items()
        if file.endswith(".js")
    }
    icon = base64.b64encode(files["icon.svg"].encode()).decode()
    page = files[name]
    page = page.replace('href="static/icon.svg"', f'href="data:image/svg+xml;base64,{icon}"')
    for sheet in ("uplot/uPlot.min.css", "page.css"):
        page = page.replace(f'<link rel="stylesheet" href="static/{sheet}" />', f"<style>{files[sheet]}</style>")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}" />\n'
        f'<script type="importmap">{json.dumps({"imports": modules})}</script>\n'
        f'<script type="module">import "{_MODULES}{script}";</script>'
    )
    return page.replace(f'<script type="module" src="static/{script}"></script>', head)


def _named_imports(text: str) -> str:
    """A module whose imports of other files are names of the import map."""
    return _IMPORT.sub(rf"\1{_MODULES}\2", text)


def data(name: str, records: Iterable[str]) -> str:
    """Lines of JSON as a list in a script element, in which nothing can end the element."""
    return f"{_opening(name)}[{_escaped(_SEPARATOR.join(records))}]{_CLOSING}\n"


def _escaped(text: str) -> str:
    return text.replace("<", "\\u003c")


@dataclass(frozen=True, slots=True)
class NamedRecording:
    """A recording and what it is called; each record is a line of JSON that begins with its time."""

    name: str
    records: tuple[str, ...]


def read_recordings(file: Path) -> list[NamedRecording]:
    """The recordings in a page that plays one or several; nothing else of it is used.

    Raises ExperimentError if there are none.
    """
    try:
        text = named_files.read_bytes(file, 2 * MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ExperimentError(f"{file} cannot be read: {error.strerror}") from None
    one = _part(text, "recording")
    several, names = _part(text, "recordings"), _part(text, "times")
    found: list[tuple[Any, Any]] = []
    if one is not None:
        found = [("recording", one)]
    elif isinstance(several, list) and isinstance(names, list) and len(several) == len(names):
        found = [
            (name[0] if isinstance(name, list) and name else "", _loads(each) if isinstance(each, str) else None)
            for each, name in zip(several, names, strict=True)
        ]
    if not found or not all(isinstance(name, str) and _is_recording(records) for name, records in found):
        raise ExperimentError(f"{file} is not a recording: 'mrc web --record FILE.html' or 'mrc report' makes one.")
    try:
        return [NamedRecording(name, tuple(map(_with_time_first, in_order(records)))) for name, records in found]
    except ValueError:  # what could only just be read can be too deep to be written
        raise ExperimentError(f"{file} is not a recording: it is nested too deeply.") from None


def _part(text: str, name: str) -> Any:
    """What a page's script element of that id has as JSON; None if there is no such thing."""
    _, begin, rest = text.rpartition(_opening(name))
    content, end, _ = rest.partition(_CLOSING)
    if begin and not end:  # it was not finished: the last line may be there in part
        whole = content.rpartition(_SEPARATOR)[0]
        content = f"{content if _loads(content + ']') is not None else whole}]"
    return _loads(content) if begin else None


def _loads(text: str) -> Any:
    try:
        return strict_json.loads(text)
    except ValueError:
        return None


def _with_time_first(record: dict[str, Any]) -> str:
    return strict_json.dumps({"at": record["at"], **record})


def _is_recording(records: Any) -> bool:
    """Whether these are a layout, a whole state and what came then, each with its time."""
    if not isinstance(records, list) or len(records) < 2:
        return False
    if not all(isinstance(record, dict) and len(record) > 1 and _is_time(record.get("at")) for record in records):
        return False
    return isinstance(records[0].get("layout"), dict) and isinstance(records[1].get("whole"), dict)


def _is_time(at: Any) -> bool:
    return type(at) in (int, float) and 0 <= at < 1 << 53


def _opening(name: str) -> str:
    return f'<script type="application/json" id="{name}">'
