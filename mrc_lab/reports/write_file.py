"""Writing files of a result so that an error names the file.

The system's own error does when a file cannot be opened, but not when it cannot be written to, as on a full disk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError in here names `path`, if it names none."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a file; an OSError names it."""
    with naming(path):
        path.write_text(text, "utf-8")
