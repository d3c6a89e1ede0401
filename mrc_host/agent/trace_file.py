"""The file for a NIC's event trace: JSON lines, buffered in memory and written a few times a second.

When the disk is full or gone the trace ends, with a line in the log; the NIC goes on undisturbed. Only regular files
and the likes of /dev/null are accepted, since pipes and terminals may block.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrc_common import written_files
from mrc_host.errors import MrcError

FLUSH_NS = 200_000_000
_MEMORY_DEVICES = 1  # major number of /dev/null, /dev/full
_CHUNK = 4096  # lines written at once at the latest

log = logging.getLogger("mrc.agent")
_encode = json.JSONEncoder(separators=(",", ":")).encode


class TraceError(MrcError):
    """The trace cannot be written; the message says why."""


def _check(fd: int) -> None:
    """Raise OSError for a file on which writing may block."""
    status = os.fstat(fd)
    memory = stat.S_ISCHR(status.st_mode) and os.major(status.st_rdev) == _MEMORY_DEVICES
    if not stat.S_ISREG(status.st_mode) and not memory:
        raise OSError(errno.EINVAL, "it is not a regular file")


class TraceFile:
    """A sink for :meth:`mrc_host.nic.Nic.set_trace` that writes to `path`, replacing what was there.

    With `fd` it writes to that descriptor, which it then owns, and `path` is only a name.
    """

    def __init__(self, path: str | Path, fd: int | None = None) -> None:
        try:
            if fd is None:
                fd = written_files.create(path)
            _check(fd)
            self._file = open(fd, "w", encoding="ascii")  # noqa: SIM115 - closed by close()
        except (OSError, ValueError) as error:
            if fd is not None:
                os.close(fd)
            raise TraceError(f"Cannot write the trace to {path}: {getattr(error, 'strerror', error)}.") from None
        self.path = Path(path)
        self._lines: list[str] = []
        self._due: int | None = None

    @property
    def ended(self) -> bool:
        """Whether writing has ended."""
        return self._file.closed

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        self._lines.append(_encode(event))
        if len(self._lines) >= _CHUNK:
            self.flush()

    def turn(self, now: int) -> int | None:
        """Write when it is time; returns the time of the next write, None when nothing is buffered."""
        if not self._lines:
            self._due = None
        elif self._due is None:
            self._due = now + FLUSH_NS
        elif now >= self._due:
            self.flush()
            self._due = None
        return self._due

    def flush(self) -> None:
        """Write what is buffered."""
        lines, self._lines = self._lines, []
        if not lines or self._file.closed:
            return
        try:
            self._file.write("\n".join(lines) + "\n")
            self._file.flush()
        except OSError as error:
            log.error("the trace %s ends here: %s", self.path, error.strerror)
            self._abandon()

    def close(self) -> None:
        """Write the rest and close. Closing twice does nothing."""
        self.flush()
        self._abandon()

    def _abandon(self) -> None:
        try:
            self._file.close()
        except OSError:  # what could not be written is lost
            log.error("the trace %s is incomplete", self.path)
