"""Doing things inside another network namespace without leaving one's own.

A namespace belongs to a thread, not to a process. So a function that must run inside a host's namespace is run in a
thread of its own that enters the namespace and ends there: the caller never moves, whatever happens in between.
Sockets opened inside stay in that namespace.

A namespace is recognised by its cookie (getsockopt SO_NETNS_COOKIE, Linux 5.14), which the kernel never gives twice;
inode numbers of namespaces are reused and would not do for deciding what to kill.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

from pyroute2 import netns

T = TypeVar("T")

_SO_NETNS_COOKIE = 71
_CLONE_NEWNET = 0x4000_0000


def run_inside(pid: int, function: Callable[[], T]) -> T:
    """Run `function` in the network namespace of process `pid` and return (or raise) what it does."""

    def enter() -> None:
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            netns.setns(descriptor)
        finally:
            os.close(descriptor)

    return _in_thread(enter, function)


def run_in_new(function: Callable[[], T]) -> T:
    """Run `function` in a new network namespace, which goes away when it returns."""
    return _in_thread(_unshare, function)


def cookie(pid: int | None = None) -> int:
    """Cookie of the network namespace of process `pid`, or of the caller's own."""

    def ask() -> int:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            return int.from_bytes(probe.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), "little")

    return ask() if pid is None else run_inside(pid, ask)


def _unshare() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
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
