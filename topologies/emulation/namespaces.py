"""Doing things inside another network namespace without leaving one's own.

A namespace belongs to a thread, not to a process. So a function that must run inside a host's namespaces is run in a
thread of its own that enters them and ends there: the caller never moves, whatever happens in between. Sockets opened
inside stay in that namespace. A host has a network, a mount and a UTS namespace: interfaces, /etc/hosts, and its name.

A namespace is recognised by its cookie (getsockopt SO_NETNS_COOKIE, Linux 5.14), which the kernel never gives twice;
inode numbers of namespaces are reused and would not do for deciding what to kill.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_SO_NETNS_COOKIE = 71
_CLONE_FS, _CLONE_NEWNET = 0x200, 0x4000_0000


def run_inside(pid: int, function: Callable[[], T], *, kinds: Sequence[str] = ("net",)) -> T:
    """Run `function` in namespaces of process `pid` and return (or raise) what it does.

    `kinds` are names in /proc/pid/ns.
    """

    def enter() -> None:
        if "mnt" in kinds:
            _unshare(_CLONE_FS)  # a mount namespace is entered by those only who share their root with nobody
        for kind in kinds:
            descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            try:
                _set_namespace(descriptor)
            finally:
                os.close(descriptor)

    return _in_thread(enter, function)


def run_inside_open(descriptor: int, function: Callable[[], T]) -> T:
    """Run `function` in the namespace that `descriptor` holds open."""
    return _in_thread(lambda: _set_namespace(descriptor), function)


def enter_host(pid: int) -> list[str]:
    """The words before a command that runs it in the namespaces of a host, whose shell is process `pid`."""
    return [*enter_name(pid), "mnexec", "-a", str(pid)]


def enter_name(pid: int) -> list[str]:
    """The words before a command that runs it in the UTS namespace of a host; ``mnexec`` knows only the others."""
    return ["nsenter", "--target", str(pid), "--uts", "--"]


def run_in_new(function: Callable[[], T]) -> T:
    """Run `function` in a new network namespace, which goes away when it returns."""
    return _in_thread(lambda: _unshare(_CLONE_NEWNET), function)


def cookie(pid: int | None = None) -> int:
    """Cookie of the network namespace of process `pid`, or of the caller's own."""

    def ask() -> int:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            return int.from_bytes(probe.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), "little")

    return ask() if pid is None else run_inside(pid, ask)


def _unshare(flags: int) -> None:
    check_call("unshare", flags)


def _set_namespace(descriptor: int) -> None:
    check_call("setns", descriptor, 0)


def check_call(function: str, *arguments: object) -> None:
    """Call a function of the C library that returns 0 for success; OSError for anything else."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _in_thread(enter: Callable[[], None], function: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            enter()
            results.append(function())
        except BaseException as error:  # handed to the caller below
            errors.append(error)

    thread = threading.Thread(target=work, name="namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
