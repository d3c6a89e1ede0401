"""Files that a user names are read by one rule: a regular file, of limited size, opened without waiting.

A name may be that of anything: opening a pipe waits for somebody to write, a device never ends, and a terminal waits
for a key. Here each is refused, before anything is read. Refusals are OSErrors, so that whoever says why a file cannot
be read says this too (``strerror``).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 64 << 20
"""For files that nobody expects to be large."""
MAX_LINE = 1 << 20

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class NamedFileError(OSError):
    """A name is not that of a regular file, or the file is too large; `strerror` says what is wrong."""


def open_file(path: Path | str, maximum: int = MAX_BYTES) -> BinaryIO:
    """A regular file of at most `maximum` bytes, open for reading; NamedFileError or another OSError if it is none."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(about.st_mode):
            kind = next((name for matches, name in _KINDS if matches(about.st_mode)), "something else")
            raise NamedFileError(errno.EINVAL, f"It is {kind}, not a regular file", str(path))
        if about.st_size > maximum:
            raise _too_large(path, maximum)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def lines(path: Path | str, longest: int = MAX_LINE) -> Iterator[str]:
    """The lines of a regular file of any size, in UTF-8; NamedFileError for one of more than `longest` bytes."""
    with open_file(path, sys.maxsize) as file:
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise NamedFileError(errno.EFBIG, f"It has a line of more than {_size(longest)}", str(path))
            yield line.decode("utf-8")


def read_bytes(path: Path | str, maximum: int = MAX_BYTES) -> bytes:
    """What a regular file of at most `maximum` bytes contains; errors as above."""
    with open_file(path, maximum) as file:
        found = file.read(maximum + 1)  # files of /proc and /sys have no size, and others may grow meanwhile
    if len(found) > maximum:
        raise _too_large(path, maximum)
    return found


def read_text(path: Path | str, maximum: int = MAX_BYTES) -> str:
    """The same as text in UTF-8, with line ends as they are in Python; UnicodeDecodeError where it is none."""
    return read_bytes(path, maximum).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _too_large(path: Path | str, maximum: int) -> NamedFileError:
    return NamedFileError(errno.EFBIG, f"It has more than {_size(maximum)}, which is the most", str(path))


def _size(count: int) -> str:
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >> shift and not count & ((1 << shift) - 1):
            return f"{count >> shift} {unit}"
    return f"{count} bytes"
