"""Descriptors of another process, copied into this one (pidfd_getfd(2), Linux 5.6).

Who may trace the other process may do that: root, say.
"""

from __future__ import annotations

import ctypes
import os

_PIDFD_GETFD = 438  # on every architecture


def copied(pid: int, descriptor: int) -> int:
    """A copy, to be closed. OSError if the process is gone, does not have it, or may not be asked."""
    process = os.pidfd_open(pid)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        copy: int = libc.syscall(ctypes.c_long(_PIDFD_GETFD), process, descriptor, ctypes.c_uint(0))
    finally:
        os.close(process)
    if copy < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return copy
