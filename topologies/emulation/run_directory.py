"""The run directory of a fabric, ``/run/mrc/<fabric>/``: configuration, sockets, logs, and what has been started.

Mode 0700, or 0710 for the group `mrc` where there is one: its members may then reach sockets that are theirs to use
(docs/privileges.md), and list nothing.

The process that brings the fabric up holds an exclusive lock on the file ``lock`` until all is down again. The kernel
releases it when that process exits or crashes, so a directory whose lock is free is a leftover. Each process started is
recorded in ``processes/<name>.json`` with its start time and command line: a process id alone may have been reused
since.

Sockets are named here once, so that everybody finds them: ``switches.sock`` (or ``switch-<name>.sock`` each),
``controller.sock``, ``owner.sock``, ``<host>.sock`` for applications, ``<host>.control.sock`` for the host's
controller.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mrc_common import strict_json
from mrc_common.unix_sockets import DEFAULT_GROUP, group_id, listening
from mrc_common.written_files import write_text
from topologies.emulation.errors import EmulationError, InUseError

DEFAULT_ROOT = Path("/run/mrc")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")  # as of fabrics
_SHOWN = 80  # characters of what is no name
_SHELL = "shell-"  # begins the name of a host's record


class FabricState(enum.Enum):
    """Of a fabric with a run directory, as far as this user can see."""

    UP = "up"
    DOWN = "down"  # the run directory is a leftover
    UNKNOWN = "unknown"  # the directory is closed to this user, and nobody listens in it


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process of a fabric. `start_time` is in clock ticks since boot; `namespace` its network namespace's cookie.

    `namespace` is given for hosts only: whatever else runs in there belongs to the fabric too.
    """

    name: str
    pid: int
    start_time: int
    argv: tuple[str, ...]
    namespace: int | None = None

    def alive(self) -> bool:
        """Tell whether this very process is running: its start time and command line must be the recorded ones."""
        try:
            if start_time(self.pid) != self.start_time:
                return False
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            return False
        if not command:  # between fork and exec; its start time has to do
            return True
        # What is recorded is the end of the chain of wrappers that it is started through.
        return [os.fsencode(word) for word in self.argv] == command[-len(self.argv) :]


def start_time(pid: int) -> int:
    """Start time of a process in clock ticks since boot (proc(5), /proc/pid/stat field 22); OSError if it is gone."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if after_name[0] in "ZX":
        raise ProcessLookupError(f"process {pid} has ended")
    return int(after_name[19])


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Paths inside the run directory of fabric `name`; nothing exists until :meth:`create`.

    EmulationError for what cannot be a fabric's name: a directory by it is deleted with all that is in it.
    """

    name: str
    root: Path = DEFAULT_ROOT

    def __post_init__(self) -> None:
        """Check the name."""
        if not _NAME.fullmatch(self.name):
            shown = repr(self.name[:_SHOWN])
            raise EmulationError(f"{shown} is no name of a fabric: take lower-case letters, digits and hyphens.")

    @property
    def path(self) -> Path:
        """The directory itself."""
        return self.root / self.name

    @property
    def fabric_file(self) -> Path:
        """The fabric, as YAML."""
        return self.path / "fabric.yaml"

    @property
    def program(self) -> Path:
        """The folder of the P4 program that the switches run (``topologies.p4_program.saved_program``)."""
        return self.path / "p4"

    @property
    def controller_socket(self) -> Path:
        """Where the controller listens."""
        return self.path / "controller.sock"

    @property
    def owner_socket(self) -> Path:
        """Where a daemon that owns the fabric takes requests to restart processes."""
        return self.path / "owner.sock"

    @property
    def switches_socket(self) -> Path:
        """Where the one process of all switches listens."""
        return self.path / "switches.sock"

    @property
    def crashes_file(self) -> Path:
        """Processes that ended unasked, one JSON object a line (``watch``)."""
        return self.path / "crashes.jsonl"

    @property
    def closing_file(self) -> Path:
        """There once the fabric is being taken down: what ends from then on ends on purpose."""
        return self.path / "closing"

    def wire_counters(self, process: str) -> Path:
        """What links of a switch process have carried past the kernel (mrc_common.wire_counters); ``*`` for all."""
        return self.path / f"{process}.wires"

    def switch_socket(self, switch: str) -> Path:
        """Where a switch with a process of its own listens; ``{name}`` makes it a template."""
        return self.path / f"switch-{switch}.sock"

    def host_socket(self, host: str) -> Path:
        """Where a host's agent listens."""
        return self.path / f"{host}.sock"

    def config_file(self, name: str) -> Path:
        """Configuration of the process `name`."""
        return self.path / f"{name}.json"

    @property
    def names_file(self) -> Path:
        """The ``/etc/hosts`` of all hosts."""
        return self.path / "hosts"

    def log_file(self, name: str) -> Path:
        """What the process `name` has printed."""
        return self.path / "logs" / f"{name}.log"

    def create(self) -> None:
        """Make the directory and its parts."""
        self.root.mkdir(mode=0o755, parents=True, exist_ok=True)
        for directory in (self.path, self.path / "logs", self.path / "processes"):
            directory.mkdir(mode=0o700, exist_ok=True)
            directory.chmod(0o700)
        group = group_id(DEFAULT_GROUP)
        if group is not None:
            with contextlib.suppress(PermissionError):  # not root's: then there are no others to let in
                os.chown(self.path, -1, group)
                self.path.chmod(0o710)

    def remove(self) -> None:
        """Delete the directory and all that is in it; nothing there is no error."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.root.rmdir()

    def leftovers(self) -> bool:
        """Tell whether the directory holds more than its lock."""
        return self.path.is_dir() and any(entry.name != "lock" for entry in self.path.iterdir())

    def record(self, name: str, pid: int, argv: Sequence[str], namespace: int | None = None) -> None:
        """Note that a process has been started."""
        entry = ProcessRecord(name, pid, start_time(pid), tuple(argv), namespace)
        path = self.path / "processes" / f"{name}.json"
        temporary = path.with_suffix(".new")
        write_text(temporary, strict_json.dumps(asdict(entry)))
        temporary.replace(path)

    def ends_on_purpose(self, name: str) -> None:
        """Note that a process is about to be ended: for others that watch it, it has not crashed then."""
        note = self.path / "processes" / f"{name}.json"
        with contextlib.suppress(FileNotFoundError):
            note.replace(note.with_suffix(".ended"))

    def ended_on_purpose(self, name: str, pid: int) -> bool:
        """Whether the process of that name and id was ended by the fabric's owner."""
        record = _read_record(self.path / "processes" / f"{name}.ended")
        return record is not None and record.pid == pid

    def ended_names(self) -> list[str]:
        """Names of processes that the fabric's owner has ended, also those that it has restarted since."""
        return sorted(path.stem for path in (self.path / "processes").glob("*.ended")) if self.accessible() else []

    def accessible(self) -> bool:
        """Whether this user may open what is in the directory."""
        return os.access(self.path, os.X_OK, effective_ids=True)

    def records(self) -> Iterator[ProcessRecord]:
        """Every process noted, running or not; a half-written note is passed over, a directory closed to us empty."""
        if not self.accessible():
            return
        for path in sorted((self.path / "processes").glob("*.json")):
            record = _read_record(path)
            if record is not None:
                yield record

    def record_shell(self, node: str, pid: int, argv: Sequence[str], namespace: int) -> None:
        """Note the shell of a host or kernel switch, in whose namespaces all of the node's processes run."""
        self.record(_SHELL + node, pid, argv, namespace)

    def shell(self, node: str) -> ProcessRecord | None:
        """The shell of a host or kernel switch; None if none is running."""
        record = _read_record(self.path / "processes" / f"{_SHELL}{node}.json") if self.accessible() else None
        return record if record is not None and record.alive() else None

    def shells(self) -> dict[str, ProcessRecord]:
        """Hosts and kernel switches, and their shells, those that run."""
        shells = (record for record in self.records() if record.namespace is not None and record.alive())
        return {record.name.removeprefix(_SHELL): record for record in shells}

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory's lock, making it if needed; :class:`InUseError` if another process holds it."""
        descriptor = self._lock()
        try:
            yield
        finally:
            os.close(descriptor)

    def owner(self) -> int | None:
        """Id of the process that holds the lock, or None."""
        lock = self.path / "lock"
        try:
            with lock.open() as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(stream.read() or 0)
        except (OSError, ValueError):
            return None
        return None

    def state(self) -> FabricState:
        """Whether the fabric is up; never raises.

        The lock shows it. For users who cannot enter the directory (all but root), its listening sockets do: the kernel
        lists their paths for everybody.
        """
        try:
            (self.path / "lock").open().close()
        except PermissionError:
            return (
                FabricState.UP if any(Path(path).parent == self.path for path in listening()) else FabricState.UNKNOWN
            )
        except OSError:
            return FabricState.DOWN
        return FabricState.DOWN if self.owner() is None else FabricState.UP

    def _lock(self) -> int:
        while True:
            self.create()
            try:
                descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # removed by its previous owner
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(descriptor, 20).decode() or "unknown"
                os.close(descriptor)
                raise InUseError(
                    f"Fabric {self.name} is up already (process {holder}): choose another name, or take it down first."
                ) from None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(self.path / "lock")):
                    os.truncate(descriptor, 0)
                    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                    return descriptor
            os.close(descriptor)  # the directory was removed between opening and locking


def _read_record(path: Path) -> ProcessRecord | None:
    """What is noted in a file; None for a half-written one, or none."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        values = strict_json.loads(path.read_text())
        return ProcessRecord(**{**values, "argv": tuple(values["argv"])})
    return None


def existing(root: Path = DEFAULT_ROOT) -> tuple[str, ...]:
    """Names of all fabrics that have a run directory."""
    try:
        return tuple(sorted(entry.name for entry in root.iterdir() if entry.is_dir() and _NAME.fullmatch(entry.name)))
    except OSError:
        return ()
