"""Watch the processes of a fabric that is up, and report once each switch, controller or agent that crashes.

A thread waits on a pidfd of each process (pidfd_open(2)), so nothing is polled and a reused process id deceives nobody.
The fabric's owner, who brought it up, also writes every crash to ``crashes.jsonl`` in the run directory, where a prompt
that joins later, and ``mrc doctor``, find it. Any other watch looks whether crashed processes have been restarted, and
watches them again, also those that were being restarted when it began. It watches the owner, too, since what ends with
the fabric has not crashed. Taking the fabric down stops the owner's watch first.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from mrc_common import strict_json
from topologies.emulation.run_directory import RunDirectory

_LINE = 200  # characters of a log's last line
_OWNER_S = 0.2  # how long the fabric's owner may take to record a crash
_LOOK_S = 0.5  # how often a watch looks for restarted processes, while any is dead


@dataclass(frozen=True, slots=True)
class Crash:
    """A process of a fabric that ended unasked: when (seconds since the epoch), how, and the last line of its log."""

    name: str
    pid: int
    at: float
    how: str
    last_line: str
    log: str = ""

    def __str__(self) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(self.at))
        log = f"its log {self.log}" if self.log else "its log"
        words = f"the last line of {log}: {self.last_line or 'none'}"
        return f"process {self.name} {self.how} at {clock} (its id was {self.pid}); {words}"

    @property
    def consequence(self) -> str:
        """What the fabric lacks now."""
        if self.name == "controller":
            return "Packets flow on as before; faults, links, the map and the wait command are unavailable."
        if self.name.startswith("switch"):
            return "Traffic through its switches is lost."
        return f"The queue pairs of {self.name} are lost, and all that its applications had registered."


class ProcessWatch:
    """Watches `processes`, given by name and process id, until :meth:`stop`; `keep` records crashes.

    Processes named in `absent` do not run now, and are watched once they do.
    """

    def __init__(
        self,
        run: RunDirectory,
        processes: Mapping[str, int],
        *,
        keep: bool,
        owner: int | None = None,
        absent: Iterable[str] = (),
    ) -> None:
        self._run = run
        self._owner = None if owner is None else _pidfd(owner)
        self._closed = owner is not None and self._owner is None
        self._closed_listeners: list[Callable[[], None]] = []
        self._keep = keep
        self._lock = threading.Lock()
        self._crashes: list[Crash] = []
        self._dead = set(absent)  # those that another may have restarted
        self._listeners: list[Callable[[Crash], None]] = []
        self._wake, waker = os.pipe2(os.O_CLOEXEC)
        self._waker: int | None = waker
        self._watched: dict[int, tuple[str, int]] = {}  # by pidfd; the lock's
        self._poll = select.epoll()  # sees what is added while it waits
        self._poll.register(self._wake, select.EPOLLIN | select.EPOLLHUP)
        if self._owner is not None:
            self._poll.register(self._owner, select.EPOLLIN)
        for name, pid in processes.items():
            self.add(name, pid)
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()

    def add(self, name: str, pid: int) -> None:
        """Watch one more process. One that is dead already is passed over, until another has restarted it."""
        with self._lock:
            descriptor = _pidfd(pid)
            if descriptor is not None:
                self._watched[descriptor] = (name, pid)
                self._poll.register(descriptor, select.EPOLLIN)
            elif not self._keep:
                self._dead.add(name)

    def forget(self, name: str) -> None:
        """Watch a process no more: it is about to be ended on purpose."""
        with self._lock:
            for descriptor in [fd for fd, (watched, _) in self._watched.items() if watched == name]:
                self._drop(descriptor)

    @property
    def watched(self) -> frozenset[str]:
        """Names of the processes that are watched now."""
        with self._lock:
            return frozenset(name for name, _ in self._watched.values())

    @property
    def crashes(self) -> tuple[Crash, ...]:
        """Processes that have crashed since the watch began, oldest first."""
        with self._lock:
            return tuple(self._crashes)

    def listen(self, notify: Callable[[Crash], None]) -> None:
        """Call `notify` for every crash, past and to come, also from the watch's thread."""
        with self._lock:
            before = tuple(self._crashes)
            self._listeners.append(notify)
        for crash in before:
            notify(crash)

    def listen_closed(self, notify: Callable[[], None]) -> None:
        """Have `notify` called once, from the watch's thread or now, when the fabric's owner has ended."""
        with self._lock:
            if not self._closed:
                self._closed_listeners.append(notify)
                return
        notify()

    def closing(self) -> bool:
        """Whether the fabric is being taken down by its owner, or has lost it. False for the owner's own watch."""
        if self._owner is None:
            return False
        closing = self._run.closing_file.exists() or not self._run.fabric_file.exists()
        return closing or bool(select.select([self._owner], [], [], 0)[0])

    @contextlib.contextmanager
    def listening(self, notify: Callable[[Crash], None]) -> Iterator[None]:
        """:meth:`listen` for a while."""
        self.listen(notify)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(notify)

    def look(self) -> tuple[Crash, ...]:
        """All crashes until now, without waiting for the watch's thread to notice."""
        for descriptor, _ in self._poll.poll(0):
            if descriptor != self._owner:
                self._exited(descriptor)
        return self.crashes

    def stop(self) -> None:
        """Watch no more. Stopping twice does nothing."""
        if self._waker is None:
            return
        os.close(self._waker)
        self._waker = None
        self._thread.join()
        os.close(self._wake)
        if self._owner is not None:
            os.close(self._owner)
        with self._lock:
            for descriptor in list(self._watched):
                self._drop(descriptor)
        self._poll.close()

    def _work(self) -> None:
        while True:
            ready = [descriptor for descriptor, _ in self._poll.poll(_LOOK_S if self._dead else None)]
            if self._wake in ready:
                return
            if self._owner in ready:
                self._close()
                continue
            for descriptor in ready:
                self._exited(descriptor)
            if self._dead and not ready:
                self._find_again()

    def _close(self) -> None:
        assert self._owner is not None
        self._poll.unregister(self._owner)
        with self._lock:
            self._closed = True
            listeners, self._closed_listeners = self._closed_listeners, []
            for descriptor in list(self._watched):
                self._drop(descriptor)
            self._dead.clear()
        for notify in listeners:
            notify()

    def _find_again(self) -> None:
        """Watch those of the dead that were restarted."""
        for record in self._run.records():
            if record.name in self._dead and record.alive():
                self._dead.discard(record.name)
                self.add(record.name, record.pid)

    def _recorded_by_owner(self, descriptor: int) -> Crash | None:
        """The crash as the owner recorded it, since only a parent learns how a process ended; None if it has not."""
        with self._lock:
            name, pid = self._watched.get(descriptor, ("", 0))
        deadline = time.monotonic() + _OWNER_S
        while True:
            found = next((crash for crash in written(self._run) if crash.pid == pid), None)
            if found is not None or time.monotonic() > deadline or self._run.ended_on_purpose(name, pid):
                return found
            time.sleep(_OWNER_S / 20)

    def _drop(self, descriptor: int) -> None:
        del self._watched[descriptor]
        self._poll.unregister(descriptor)
        os.close(descriptor)

    def _exited(self, descriptor: int) -> None:
        recorded_crash = None if self._keep else self._recorded_by_owner(descriptor)
        with self._lock:
            if descriptor not in self._watched:  # forgotten meanwhile
                return
            if self.closing():
                self._drop(descriptor)
                return
            name, pid = self._watched[descriptor]
            if self._run.ended_on_purpose(name, pid):
                self._drop(descriptor)
                self._dead.add(name)  # until its owner has restarted it
                return
            log = str(self._run.log_file(name))
            crash = recorded_crash or Crash(name, pid, time.time(), _how(descriptor), last_line(self._run, name), log)
            self._drop(descriptor)
            if not self._keep:
                self._dead.add(name)
            else:
                with contextlib.suppress(OSError), self._run.crashes_file.open("a") as stream:
                    stream.write(strict_json.dumps(asdict(crash)) + "\n")
            self._crashes.append(crash)
            listeners = tuple(self._listeners)
        for notify in listeners:
            notify(crash)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def recorded(run: RunDirectory) -> tuple[Crash, ...]:
    """Crashes that were recorded, of processes that have not been restarted since."""
    alive = {record.name for record in run.records() if record.alive()}
    return tuple(crash for crash in written(run) if crash.name not in alive)


def written(run: RunDirectory) -> tuple[Crash, ...]:
    """All crashes that were recorded, restarted since or not."""
    try:
        lines = run.crashes_file.read_text().splitlines()
    except OSError:
        return ()
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):  # half written
            found.append(Crash(**strict_json.loads(line)))
    return tuple(found)


def last_line(run: RunDirectory, name: str) -> str:
    """What a process printed last, cut to a line's length; empty when it printed nothing."""
    try:
        with run.log_file(name).open(encoding="utf-8", errors="replace") as stream:
            lines = deque((line.strip() for line in stream if line.strip()), maxlen=1)
    except OSError:
        return ""
    return lines[0][:_LINE] if lines else ""


def _how(descriptor: int) -> str:
    """How a process ended, as its parent learns; it stays for the parent to collect."""
    try:
        result = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return "ended"
    if result is None:
        return "ended"
    if result.si_code == os.CLD_EXITED:
        return f"ended with status {result.si_status}"
    return f"was killed by {signal.Signals(result.si_status).name}"
