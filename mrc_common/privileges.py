"""Giving up privileges that a process needs only while it starts.

A daemon of ours is started by root and opens what takes root to open: raw sockets, files, UNIX sockets. After that it
calls `drop`, and from then on a defect in what it does with packets and clients is worth little to an attacker:

- **Capabilities.** Every set (permitted, effective, inheritable, ambient, bounding) keeps those in `keep` and no more.
  A process of user 0 without capabilities still owns root's files, so
- **no_new_privs**: no program that it might execute gets more than it has (setuid, file capabilities), and
- **Landlock** (Linux 5.13 and later, where it is not disabled): it executes no program at all, and makes, writes and
  removes files only beneath `writable` (and removes them beneath `removable`). Reading stays as it was, since Python
  may still import. What is open stays open, and descriptors that others pass in keep the rights with which they were
  opened.

All three belong to a thread and to those it starts, so `drop` refuses to be called when there are others: call it
before the first one starts. None can be taken back.

See capabilities(7), prctl(2), landlock(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import os
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

StrPath: TypeAlias = "str | os.PathLike[str]"


class Capability(enum.IntEnum):
    """Some of capabilities(7), by number."""

    DAC_OVERRIDE = 1
    DAC_READ_SEARCH = 2
    NET_ADMIN = 12
    NET_RAW = 13
    SYS_PTRACE = 19
    SYS_ADMIN = 21


class PrivilegeError(Exception):
    """Privileges could not be given up; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Privileges:
    """What a process may do: capability sets as bit masks, no_new_privs."""

    permitted: int
    effective: int
    inheritable: int
    bounding: int
    ambient: int
    no_new_privs: bool


_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63

_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446  # on every architecture
_LANDLOCK_VERSION_FLAG = 1
_LANDLOCK_RULE_PATH_BENEATH = 1
_READ_ACCESS = 1 << 2 | 1 << 3  # READ_FILE, READ_DIR
_IOCTL_DEV = 1 << 15
_ACCESS_BITS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many access rights each version of Landlock knows
_EXECUTE = 1
_REMOVE_FILE = 1 << 5
_REFER = 1 << 13

_libc = ctypes.CDLL(None, use_errno=True)


def current(pid: int | None = None) -> Privileges:
    """Privileges of a process (None: of this thread), from /proc; OSError if it is gone."""
    text = Path("/proc/thread-self/status" if pid is None else f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return Privileges(
        permitted=int(fields["CapPrm"], 16),
        effective=int(fields["CapEff"], 16),
        inheritable=int(fields["CapInh"], 16),
        bounding=int(fields["CapBnd"], 16),
        ambient=int(fields["CapAmb"], 16),
        no_new_privs=fields["NoNewPrivs"] == "1",
    )


def drop(
    *,
    keep: Collection[Capability] = (),
    writable: Collection[StrPath] = (),
    removable: Collection[StrPath] = (),
    landlock: bool = True,
) -> Privileges:
    """Keep the capabilities `keep`, of those there are, and the right to change files beneath `writable`; see above.

    Beneath `removable` files may only be removed, as who made a socket does in the end. Without `landlock` files are as
    they were and programs may be executed, for who runs a compiler. Returns what is left. Raises
    PrivilegeError, having perhaps given up some; a kernel without Landlock is no error.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        raise PrivilegeError("Privileges are given up before the first thread is started, not after.")
    kept = sum(1 << capability for capability in keep)
    _prctl("no_new_privs cannot be set", _PR_SET_NO_NEW_PRIVS, 1)
    if landlock:
        _restrict_files(writable, removable)
    with contextlib.suppress(PrivilegeError):  # kernels before 4.3
        _prctl("", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    for number in range(_LAST_CAPABILITY + 1):
        if not kept >> number & 1:
            with contextlib.suppress(PrivilegeError):  # no such capability here, or not privileged to begin with
                _prctl("", _PR_CAPBSET_DROP, number)
    before = current()
    _set_capabilities(before.permitted & kept)
    after = current()
    if (after.permitted | after.effective | after.inheritable | after.ambient) & ~kept or not after.no_new_privs:
        raise PrivilegeError(f"The kernel left this process capabilities that it was to give up: {after}.")
    return after


def landlock_version() -> int:
    """Version of Landlock that the kernel offers, 0 for none."""
    version: int = _libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION_FLAG)
    return max(version, 0)


def _set_capabilities(permitted: int) -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    low, high = permitted & 0xFFFFFFFF, permitted >> 32
    if _libc.capset(header, struct.pack("=6I", low, low, 0, high, high, 0)):
        raise PrivilegeError(f"Capabilities cannot be given up: {os.strerror(ctypes.get_errno())}.")


def _restrict_files(writable: Collection[StrPath], removable: Collection[StrPath]) -> None:
    version = landlock_version()
    if not version:
        return
    known = (1 << _ACCESS_BITS[min(version, max(_ACCESS_BITS))]) - 1
    handled = known & ~_READ_ACCESS & ~_IOCTL_DEV
    with _closing(_landlock(_LANDLOCK_CREATE_RULESET, struct.pack("=Q", handled), 8, 0)) as ruleset:
        rights = [(path, handled & ~_EXECUTE & ~_REFER) for path in writable]
        rights += [(path, _REMOVE_FILE) for path in removable]
        for path, allowed in rights:
            with _closing(os.open(path, os.O_PATH | os.O_CLOEXEC)) as folder:
                rule = struct.pack("=Qi", allowed, folder)
                _landlock(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_PATH_BENEATH, rule, 0)
        _landlock(_LANDLOCK_RESTRICT_SELF, ruleset, 0)


def _landlock(number: int, *arguments: int | bytes) -> int:
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        raise PrivilegeError(f"Landlock refuses to restrict this process: {os.strerror(ctypes.get_errno())}.")
    return result


def _prctl(what: str, option: int, argument: int) -> None:
    if _libc.prctl(option, argument, 0, 0, 0):
        raise PrivilegeError(f"{what}: {os.strerror(ctypes.get_errno())}.")


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
