"""Limits of the system that are too low for dozens of hosts and switches, raised as far as it lets us.

Mininet has a list of such limits too, but gives up at the first that it cannot raise, with a warning among the output.
In a container, or any network namespace but the first, those of socket buffers are read-only and others are not there.
A fabric works without, up to a size, so each is raised on its own and one that cannot be raised is skipped silently:
``mrc doctor`` reports what :func:`out_of_reach` finds. They stay raised when the fabric is gone, until the machine is
restarted: other fabrics may need them by then, and somebody may have raised one further. docs/installation.md says so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

SYSCTL = Path("/proc/sys")

# By the name that users know them by: at least so much. Three numbers are the least, the usual and the most.
_PROCESS = {"processes": (resource.RLIMIT_NPROC, 8192), "open files": (resource.RLIMIT_NOFILE, 16384)}
_SYSTEM: dict[str, tuple[int, ...]] = {
    "fs.file-max": (10_000,),
    "kernel.pty.max": (20_000,),  # every host has a terminal
    "net.core.wmem_max": (16 << 20,),
    "net.core.rmem_max": (16 << 20,),
    "net.core.netdev_max_backlog": (5000,),
    "net.ipv4.tcp_rmem": (10_240, 87_380, 16 << 20),  # hosts take these from where the fabric is built
    "net.ipv4.tcp_wmem": (10_240, 87_380, 16 << 20),
    "net.ipv4.neigh.default.gc_thresh1": (4096,),
    "net.ipv4.neigh.default.gc_thresh2": (8192,),
    "net.ipv4.neigh.default.gc_thresh3": (16384,),
}


def raise_all() -> None:
    """Raise what is too low; what cannot be raised stays. Never lowers any."""
    for number, wanted in _PROCESS.values():
        _raise_process_limit(number, wanted)
    for name, least in _SYSTEM.items():
        path = _path(name)
        value = _read(path)
        raised = _raised(value, least)
        if raised != value:
            _write(path, raised)


def out_of_reach() -> Iterator[str]:
    """Each limit that is too low and cannot be raised here, as in ``open files 1024``. Changes nothing."""
    for name, (number, wanted) in _PROCESS.items():
        soft, hard = resource.getrlimit(number)
        if not _enough(soft, wanted) and not _enough(hard, wanted) and os.geteuid() != 0:
            yield f"{name} {hard}"
    for name, least in _SYSTEM.items():
        path = _path(name)
        value = _read(path)
        if _raised(value, least) != value and not os.access(path, os.W_OK):
            yield f"{name} {' '.join(map(str, value))}"


def out_of_descriptors(log: str) -> str | None:
    """A message if a process's log shows that it ran out of file descriptors, else None."""
    if os.strerror(errno.EMFILE) not in log:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"too many open files: {soft} are allowed here ('ulimit -n'), which is too few for a fabric of this size"


def _enough(value: int, least: int) -> bool:
    return value == resource.RLIM_INFINITY or value >= least


def _raised(value: tuple[int, ...], least: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(pair) for pair in zip(value, least, strict=False))  # no value, nothing to raise


def _raise_process_limit(number: int, least: int) -> None:
    soft, hard = resource.getrlimit(number)
    if _enough(soft, least):
        return
    if _enough(hard, least):
        resource.setrlimit(number, (least, hard))
        return
    try:
        resource.setrlimit(number, (least, least))
    except (OSError, ValueError):  # not allowed, so up to what is
        resource.setrlimit(number, (hard, hard))


def _path(name: str) -> Path:
    return SYSCTL.joinpath(*name.split("."))


def _read(path: Path) -> tuple[int, ...]:
    """The numbers in a limit's file; none where this kernel or namespace has no such limit."""
    try:
        return tuple(map(int, path.read_text().split()))
    except (OSError, ValueError):
        return ()


def _write(path: Path, value: tuple[int, ...]) -> None:
    with contextlib.suppress(OSError):
        path.write_text(" ".join(map(str, value)))
