"""Remove what a fabric left behind: after a crash, a kill -9, or a lost terminal.

Nothing is found by a broad name. Processes are those recorded in the run directory, if start time and command line
still agree, and whatever runs in the network namespaces recorded for its hosts (recognised by the namespace's
cookie, which is never reused). Interfaces are the veths of the fabric's interface group that bear its mark, if its
owner is dead (``ownership``): that holds as well where run directories are others. Whatever else is in the group stays.
Deleting the ones in the root namespace deletes the links' other ends. Doing it twice is no error.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyroute2 import IPRoute

from topologies import addressing
from topologies.emulation import interfaces, namespaces, ownership, run_directory
from topologies.emulation.errors import EmulationError, InUseError
from topologies.emulation.ownership import Mark
from topologies.emulation.run_directory import DEFAULT_ROOT, RunDirectory

_OWNER_SECONDS = 15.0
_KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What was removed of one fabric: how many processes and interfaces, and whether there was a run directory."""

    name: str
    processes: int
    interfaces: int
    directory: bool

    def __bool__(self) -> bool:
        return bool(self.processes or self.interfaces or self.directory)


def clean(name: str, *, root: Path = DEFAULT_ROOT, force: bool = False) -> CleanupReport:
    """Remove everything of fabric `name`. Nothing to remove is no error.

    A fabric that is up is left alone with :class:`InUseError`, unless `force`: then its owner is asked to end first,
    and killed if it does not.
    """
    run = RunDirectory(name, root)
    owner = run.owner()
    if owner is not None:
        if not force:
            raise InUseError(f"Fabric {name} is up (process {owner}): end that, or force its removal.")
        _end_owner(owner, lambda: run.owner() == owner)
    elif force:
        _end_owners_elsewhere(name)
    if not run.path.is_dir():
        _refuse_live(name)
        return CleanupReport(name, 0, _delete_interfaces(name, unmarked=False), False)
    with run.locked():
        report = remove_leftovers(run)
    run.remove()
    return report


def clean_all(*, root: Path = DEFAULT_ROOT, force: bool = False) -> list[CleanupReport]:
    """Remove the leftovers of every fabric that is not up (with `force`, of all), even without a run directory."""
    names = set(run_directory.existing(root))
    if root == DEFAULT_ROOT:
        names |= {mark.fabric for _, mark in _marked()}
    if not force:
        names = {name for name in names if RunDirectory(name, root).owner() is None and not _live(name)}
    reports = []
    for name in sorted(names):
        with contextlib.suppress(
            *() if force else (InUseError,)
        ):  # somebody has brought it up meanwhile, or cleans too
            reports.append(clean(name, root=root, force=force))
    return [report for report in reports if report]


def remove_leftovers(run: RunDirectory) -> CleanupReport:
    """Remove processes and interfaces of a fabric whose lock the caller holds, and its files but two marks.

    :class:`InUseError` when its interfaces are those of a fabric that is up, whose run directory is not seen from here.
    """
    _refuse_live(run.name)
    records = {record.pid: record for record in run.records() if record.pid != os.getpid()}
    kept = {record.namespace for record in records.values() if record.namespace is not None} - {namespaces.cookie()}
    doomed = {pid: record.alive for pid, record in records.items() if record.alive()}
    for pid in processes_in(kept):
        doomed.setdefault(pid, partial(_is_in, pid, kept))
    kill(doomed)
    deleted = _delete_interfaces(run.name, unmarked=True)
    found = run.leftovers()
    for entry in run.path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry not in (run.path / "lock", run.closing_file):
            entry.unlink()
    return CleanupReport(run.name, len(doomed), deleted, found)


def free_interface_names(name: str) -> None:
    """Delete what fabrics that are down have left under the interface names that fabric `name` will use.

    Those have other names and no run directory that is seen from here; :class:`InUseError` when one of them is up.
    """
    tag = addressing.tag(name)
    marks = {mark for _, mark in _marked() if mark.fabric != name and addressing.tag(mark.fabric) == tag}
    for mark in marks:
        if ownership.owner(mark) is not None:
            raise InUseError(
                f"Fabric {name} would use the interface names of fabric {mark.fabric}, which is up elsewhere: "
                "choose another name."
            )
    for other in {mark.fabric for mark in marks}:
        _delete_interfaces(other, unmarked=False)


def kill(doomed: Mapping[int, Callable[[], bool]]) -> None:
    """Kill processes at once and wait until they are gone (or are nobody's but init's to collect).

    Each comes with a function that checks whether its process id is still that of the process that is meant. It is
    called once the process is held, so that a process that has reused the id is not killed.
    """
    waiting = {}
    try:
        for pid, still in doomed.items():
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                waiting[descriptor] = pid
                if not still():
                    os.close(descriptor)
                    del waiting[descriptor]
        for descriptor in waiting:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        deadline = time.monotonic() + _KILL_SECONDS
        for descriptor, pid in waiting.items():
            if not _ended(descriptor, deadline - time.monotonic()):
                raise EmulationError(f"Process {pid} does not end although it was killed: see what it waits for.")
    finally:
        for descriptor in waiting:
            os.close(descriptor)


def _ended(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _end_owner(owner: int, still: Callable[[], bool]) -> None:
    """Ask the owner of a fabric to take it down; kill it when it does not. `still` checks that it is that process."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(owner)
        try:
            if not still():
                return
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            if not _ended(descriptor, _OWNER_SECONDS):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                _ended(descriptor, _KILL_SECONDS)
        finally:
            os.close(descriptor)


def _end_owners_elsewhere(name: str) -> None:
    """The same for those whose run directory is not seen from here; EmulationError when they cannot be seen either."""
    for mark, pid in _live(name).items():
        if not pid:
            raise EmulationError(
                f"Fabric {name} is up in another container: its process cannot be seen from here, so end it there."
            )
        _end_owner(pid, lambda mark=mark, pid=pid: ownership.owner(mark) == pid)  # type: ignore[misc]


def processes_in(cookies: set[int]) -> Iterator[int]:
    """Processes whose network namespace has one of these cookies."""
    if not cookies:
        return
    seen: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        with contextlib.suppress(OSError):
            inode = os.stat(f"/proc/{pid}/ns/net").st_ino
            if inode not in seen:
                seen[inode] = namespaces.cookie(pid)
            if seen[inode] in cookies:
                yield pid


def _is_in(pid: int, cookies: set[int]) -> bool:
    try:
        return namespaces.cookie(pid) in cookies
    except OSError:
        return False


def _delete_interfaces(name: str, *, unmarked: bool) -> int:
    """Delete the interfaces of a fabric that is down, in the root namespace; returns how many there were.

    Those that bear its mark, and with `unmarked` what a crash has left between making a link and marking it: veths of
    its group with its names. The caller has the lock of its run directory then, and knows that nobody else is at it.
    """
    pattern = re.compile(f"{addressing.tag(name)}-t[012]-\\d+p[0-7]-\\d+")

    def ours(member: interfaces.GroupedInterface) -> bool:
        if member.mark is None:
            return unmarked and member.kind == "veth" and pattern.fullmatch(member.name) is not None
        return member.kind == "veth" and member.mark.fabric == name

    with IPRoute() as netlink:
        return interfaces.delete(netlink, addressing.interface_group(name), ours)


def orphans() -> tuple[str, ...]:
    """Interfaces of fabrics that are down and have no run directory any more."""
    known = set(run_directory.existing())
    return tuple(name for name, mark in _marked() if mark.fabric not in known and ownership.owner(mark) is None)


def _marked() -> list[tuple[str, Mark]]:
    """Interfaces that bear a mark, each with it."""
    with IPRoute() as netlink:
        return [(member.name, member.mark) for member in interfaces.members(netlink) if member.mark is not None]


def _live(name: str) -> dict[Mark, int]:
    """Marks of a fabric's interfaces whose owner is up, each with its process id; not those of this process."""
    owners = {mark: ownership.owner(mark) for mark in {mark for _, mark in _marked() if mark.fabric == name}}
    return {mark: pid for mark, pid in owners.items() if pid is not None and pid != os.getpid()}


def _refuse_live(name: str) -> None:
    for pid in _live(name).values():
        who = f"process {pid}" if pid else "a process in another container"
        raise InUseError(
            f"Fabric {name} is up ({who}), and its files are out of reach from here: end it where it was started."
        )
