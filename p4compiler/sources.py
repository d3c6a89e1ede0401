"""Source texts and positions in them.

A :class:`SourceText` is a file's name and text. A :class:`SourceSpan` is a piece of it, given by two offsets; lines and
columns are computed when somebody asks, which is when an error is shown. Text that a macro put into the program has the
span of the macro's use, and `origin`, the span in the macro's definition, so that errors can show both.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

MAX_FILE_BYTES = 8 << 20
_MAX_SHOWN_FOLDERS = 5
STANDARD_INCLUDES = Path(__file__).parent / "include"


class SourceText:
    """A file's name, as errors show it, and its text."""

    def __init__(self, name: str, text: str, *, standard: bool = False) -> None:
        self.name = name
        self.text = text
        self.standard = standard  # core.p4 or v1model.p4
        self._starts: list[int] | None = None

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        if self._starts is None:
            self._starts = [0, *(i + 1 for i, char in enumerate(self.text) if char == "\n")]
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, without its end."""
        self.place(0)
        assert self._starts is not None
        if not 1 <= number <= len(self._starts):
            return ""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


class SourceSpan(NamedTuple):
    """The characters from `start` to before `end` of a source; `origin` is where a macro's definition has them."""

    source: SourceText
    start: int
    end: int
    origin: SourceSpan | None = None

    @property
    def line(self) -> int:
        """The line of the first character, from 1."""
        return self.source.place(self.start)[0]

    @property
    def column(self) -> int:
        """The column of the first character, from 1."""
        return self.source.place(self.start)[1]

    def to(self, other: SourceSpan) -> SourceSpan:
        """From the start of this span to the end of a later one of the same source."""
        if other.source is not self.source or other.end < self.start:
            return self
        return SourceSpan(self.source, self.start, other.end, self.origin)


class NotReadableError(Exception):
    """A file that cannot be read as source text; the message says why."""


class Includes:
    """The files that a program may include: its own folder's, `folders`, and the standard ones.

    With ``local=False``, for programs that come from elsewhere, the standard ones are all.
    """

    def __init__(self, folders: Sequence[str | os.PathLike[str]] = (), *, local: bool = True) -> None:
        self.folders = [os.fspath(folder) for folder in folders]
        self.local = local

    def find(self, name: str, including: SourceText, *, quoted: bool) -> SourceText:
        """The source of ``#include "name"`` (`quoted`) or ``#include <name>``; raises NotReadableError."""
        if self.local:
            own = [] if including.standard else [os.path.dirname(including.name)]
            folders = [*own, *self.folders] if quoted else [*self.folders]
            for folder in folders:
                path = os.path.join(folder, name)
                if os.path.exists(path):
                    return read(path)
        if name in ("core.p4", "v1model.p4"):
            return SourceText(name, (STANDARD_INCLUDES / name).read_text(encoding="utf-8"), standard=True)
        if not self.local:
            raise NotReadableError(f"{name!r} cannot be included here: only core.p4 and v1model.p4 can")
        if not quoted:
            path = os.path.join(os.path.dirname(including.name), name)
            if os.path.exists(path):
                return read(path)
        raise NotReadableError(f"{name!r} is not found; {self._why_not_found()}")

    def _why_not_found(self) -> str:
        missing = [folder for folder in dict.fromkeys(self.folders) if not os.path.isdir(folder)]
        if not missing:
            return "folders of include files are given by -I"
        more = f" and {len(missing) - _MAX_SHOWN_FOLDERS} more" if len(missing) > _MAX_SHOWN_FOLDERS else ""
        return f"of the folders given by -I these do not exist: {', '.join(missing[:_MAX_SHOWN_FOLDERS])}{more}"


def read(path: str) -> SourceText:
    """The source of a regular file of at most MAX_FILE_BYTES; raises NotReadableError."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # O_NONBLOCK: a FIFO does not wait
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotReadableError(f"{path!r} is not a regular file")
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise NotReadableError(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise NotReadableError(f"{path!r} is larger than {MAX_FILE_BYTES >> 20} MiB")
    try:
        return SourceText(path, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotReadableError(f"{path!r} is not UTF-8 text (byte {error.start})") from None
