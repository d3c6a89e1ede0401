"""The limit on open files and sockets of a process."""

from __future__ import annotations

import contextlib
import resource


def raise_limit() -> None:
    """Let this process have as many as it may ask for; the usual 1024 are for programs that use select()."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # e.g. more than the kernel allows today
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
