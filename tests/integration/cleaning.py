"""Cleaning up after crashes, which concerns all fabrics of a machine, one test at a time."""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LOCK = Path(tempfile.gettempdir()) / "mrc-tests-cleaning.lock"


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """For a test that cleans everything, or expects what a killed process has left: another would take it away."""
    with _LOCK.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
