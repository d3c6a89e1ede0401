"""What htsim's two formats have in common: lines of words between blanks, whole numbers, and comments from ``#`` on.

htsim itself reads numbers with ``stoi``, which takes the beginning of a word and skips the rest, and words that it does
not know in a header it skips. Here each word is either understood or refused, with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mrc_common import named_files
from mrc_lab.errors import FileError

MAX_FILE = 64 << 20  # bytes
MAX_LINE = 1024
MAX_INT = (1 << 31) - 1  # of stoi
_WHOLE = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Line:
    """A line with something on it; `number` counts from 1, `source` is the file as messages name it."""

    source: str
    number: int
    words: tuple[str, ...]

    def error(self, reason: str) -> FileError:
        """The error for this line."""
        return FileError(f"{self.source}, line {self.number}: {reason}")

    def whole(self, name: str, word: str, least: int, most: int = MAX_INT) -> int:
        """The whole number that `word` is, of what is called `name`; FileError unless it is from `least` to `most`."""
        found = int(word) if _WHOLE.fullmatch(word) else -1
        if not least <= found <= most:
            raise self.error(f"{name} is a whole number from {least:,} to {most:,}, not {shown(word)}")
        return found

    def value(self) -> str:
        """The second word of two; FileError for fewer or more."""
        if len(self.words) != 2:
            raise self.error(f"{self.words[0]} has one value, as in '{self.words[0]} 4'")
        return self.words[1]


def shown(word: str) -> str:
    """A word of a file as a message shows it."""
    return repr(word if len(word) <= 40 else f"{word[:40]}...")


def read_text(path: Path) -> str:
    """The text of a file; FileError when it cannot be read, is too large, or is no text."""
    try:
        return named_files.read_bytes(path, MAX_FILE).decode("ascii")
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise FileError(f"{path}, line {number}: is not text: a file of htsim has letters, digits and blanks") from None


def lines_of(text: str, source: str) -> Iterator[Line]:
    """Lines with something on them; FileError for one that is too long or has control characters."""
    for number, line in enumerate(text.split("\n"), 1):
        words = tuple(line.partition("#")[0].split())
        if len(line) > MAX_LINE:
            raise Line(source, number, ()).error(f"a line has at most {MAX_LINE} characters")
        if not line.replace("\t", " ").rstrip("\r").isprintable():
            raise Line(source, number, ()).error("is not text: it has control characters")
        if words:
            yield Line(source, number, words)
