"""Output of Mininet's commands: results where the prompt prints, warnings and errors on standard error.

Mininet has one log handler for all of it, on standard error.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from mininet.log import lg


@contextmanager
def mininet_output(stream: IO[str], on_error: Callable[[], None]) -> Iterator[None]:
    """Until it is left, print what Mininet prints on `stream`, errors on standard error after calling `on_error`."""
    handler = _Handler(stream, on_error)
    lg.removeHandler(lg.ch)
    lg.addHandler(handler)
    try:
        yield
    finally:
        lg.removeHandler(handler)
        lg.addHandler(lg.ch)


class _Handler(logging.Handler):
    def __init__(self, stream: IO[str], on_error: Callable[[], None]) -> None:
        super().__init__()
        self._stream = stream
        self._on_error = on_error

    def emit(self, record: logging.LogRecord) -> None:
        """Mininet ends its lines itself."""
        if record.levelno >= logging.ERROR:
            self._on_error()
        stream = sys.stderr if record.levelno >= logging.WARNING else self._stream
        stream.write(self.format(record))
        stream.flush()
