"""Files that users get appear whole, or what was there before stays: written beside their place, then renamed.

A disk may become full at any byte. The system's own error names a file that cannot be opened, but not one that cannot
be written to; here it always does. The new file takes the place of a symbolic link, which is not followed: we may be
root, and the folder somebody else's. Only what is no file stays what it is, such as /dev/stdout, and is written to
directly, unless it is behind a link of another user. What is written for long and read meanwhile, such as a trace,
takes its place at once, empty (``create``).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LONGEST = 100  # characters of the name that a temporary one begins with


@contextlib.contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """An OSError in here names `path`, if it names none."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_text(path: Path | str, text: str) -> None:
    """Write a text file in UTF-8; an OSError names it."""
    with writing(path) as file:
        file.write(text)


@contextlib.contextmanager
def writing(path: Path | str, *, binary: bool = False, newline: str | None = None) -> Iterator[Any]:
    """A file to write to, which is at `path` once the body has ended without an error; an OSError names `path`."""
    path = Path(path)
    options: dict[str, Any] = {"mode": "wb"} if binary else {"mode": "w", "encoding": "utf-8", "newline": newline}
    with naming(path):
        if _is_written_directly(path):
            with open(path, **options) as file:
                yield file
            return
        descriptor, fresh = _open_fresh(path)
        try:
            with open(descriptor, **options) as file:
                _take_over(path, descriptor)
                yield file
            os.replace(fresh, path)
        except OSError as error:
            if error.filename in (fresh, descriptor):
                error.filename, error.filename2 = str(path), None
            _remove(fresh)
            raise
        except BaseException:
            _remove(fresh)
            raise


def create(path: Path | str) -> int:
    """A descriptor of an empty file that is at `path` at once, for what is written for long; an OSError names `path`.

    What is no file is opened as it is, without waiting for a reader.
    """
    path = Path(path)
    with naming(path):
        if _is_written_directly(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
            return descriptor
        descriptor, fresh = _open_fresh(path)
        try:
            _take_over(path, descriptor)
            os.replace(fresh, path)
        except BaseException as error:
            os.close(descriptor)
            _remove(fresh)
            if isinstance(error, OSError):
                error.filename, error.filename2 = str(path), None
            raise
        return descriptor


def _open_fresh(path: Path) -> tuple[int, str]:
    """A new file beside `path`, to be renamed: its descriptor and name."""
    fresh = str(path.with_name(f".{path.name[:_LONGEST]}.{secrets.token_hex(4)}"))
    try:
        return os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), fresh
    except OSError as error:
        error.filename = str(path)
        raise


def _is_written_directly(path: Path) -> bool:
    """Whether there is something that is no file, at a name that nobody but root and we have given it."""
    try:
        link, target = path.lstat(), path.stat()
    except OSError:
        return False
    return not (stat.S_ISREG(target.st_mode) or stat.S_ISDIR(target.st_mode)) and link.st_uid in (0, os.geteuid())


def _take_over(path: Path, descriptor: int) -> None:
    """Mode and owner of the file that is replaced."""
    try:
        before = path.lstat()
    except OSError:
        return
    if not stat.S_ISREG(before.st_mode):
        return
    with contextlib.suppress(OSError):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _remove(fresh: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(fresh)
