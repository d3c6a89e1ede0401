"""Remove what a fabric left behind: after a crash, a kill -9, or a lost terminal.

Nothing is found by a broad name. Processes are those recorded in the run directory, if start time and command line
still agree, and whatever runs in the network namespaces recorded for its hosts (recognised by the namespace's
cookie, which is never reused). Interfaces are those of the fabric's interface group that also bear its names;
deleting the ones in the root namespace deletes the links' other ends. Doing it twice is no error.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute

from topologies import addressing
from topologies.emulation import interfaces, namespaces, rundir
from topologies.emulation.errors import EmulationError, InUseError
from topologies.emulation.rundir import DEFAULT_ROOT, RunDirectory

_OWNER_SECONDS = 15.0
_KILL_SECONDS = 5.0
_SWITCH_PORT = re.compile(r"[a-z][a-z0-9]-t[01]-\d+p[0-7]-\d+")
_GROUP_PREFIX = 0x6D


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
        _end_owner(run, owner)
    if not run.path.is_dir():
        return CleanupReport(name, 0, _delete_interfaces(name), False)
    with run.locked():
        report = remove_leftovers(run)
    run.remove()
    return report


def clean_all(*, root: Path = DEFAULT_ROOT, force: bool = False) -> list[CleanupReport]:
    """Remove the leftovers of every fabric that is not up (with `force`, of all), even without a run directory."""
    names = rundir.existing(root)
    if not force:
        names = tuple(name for name in names if RunDirectory(name, root).owner() is None)
    reports = [clean(name, root=root, force=force) for name in names]
    orphans = _delete_orphans() if root == DEFAULT_ROOT else 0
    if orphans:
        reports.append(CleanupReport("(no run directory)", 0, orphans, False))
    return [report for report in reports if report]


def remove_leftovers(run: RunDirectory) -> CleanupReport:
    """Remove processes and interfaces of a fabric whose lock the caller holds, and its files but two marks."""
    records = [record for record in run.records() if record.pid != os.getpid()]
    kept = {record.namespace for record in records if record.namespace is not None} - {namespaces.cookie()}
    doomed = {record.pid for record in records if record.alive()} | set(processes_in(kept))
    kill(doomed)
    deleted = _delete_interfaces(run.name)
    found = run.leftovers()
    for entry in run.path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry not in (run.path / "lock", run.closing_file):
            entry.unlink()
    return CleanupReport(run.name, len(doomed), deleted, found)


def kill(pids: Iterable[int]) -> None:
    """Kill processes at once and wait until they are gone (or are nobody's but init's to collect)."""
    waiting = {}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            waiting[os.pidfd_open(pid)] = pid
    try:
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


def _end_owner(run: RunDirectory, owner: int) -> None:
    """Ask whoever holds the fabric to take it down; kill it when it does not."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(owner)
        try:
            if run.owner() != owner:
                return
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            if not _ended(descriptor, _OWNER_SECONDS):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                _ended(descriptor, _KILL_SECONDS)
        finally:
            os.close(descriptor)


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


def _delete_interfaces(name: str) -> int:
    """Delete the fabric's interfaces in the root namespace; returns how many there were."""
    group, prefix = addressing.interface_group(name), f"{addressing.tag(name)}-"
    with IPRoute() as netlink:
        found = list(interfaces.group_members(netlink, group))
        if all(member.startswith(prefix) and _SWITCH_PORT.fullmatch(member) for member in found):
            interfaces.delete_group(netlink, group)
            return len(found)
    raise EmulationError(f"Interface group {group:#x} of fabric {name} holds interfaces that are not the fabric's.")


def orphans() -> tuple[str, ...]:
    """Interfaces of fabrics that have no run directory any more."""
    with IPRoute() as netlink:
        return tuple(member for members in _orphaned_groups(netlink).values() for member in members)


def _delete_orphans() -> int:
    """Delete interfaces of fabrics that have no run directory any more; returns how many."""
    with IPRoute() as netlink:
        groups = _orphaned_groups(netlink)
        for group in groups:
            interfaces.delete_group(netlink, group)
        return sum(map(len, groups.values()))


def _orphaned_groups(netlink: IPRoute) -> dict[int, list[str]]:
    """Interface groups, with their members, that look like a fabric's but belong to none with a run directory."""
    groups: dict[int, list[str]] = {}
    for link in netlink.get_links(kind="veth"):
        group = link.get("group") or 0
        if group >> 24 == _GROUP_PREFIX:
            groups.setdefault(group, []).append(link.get("ifname"))
    live = {addressing.interface_group(name) for name in rundir.existing()}
    return {
        group: members
        for group, members in groups.items()
        if group not in live and all(_SWITCH_PORT.fullmatch(member) for member in members)
    }
