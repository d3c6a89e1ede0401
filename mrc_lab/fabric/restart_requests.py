"""Requests to the daemon of a fabric that it restarts one of the fabric's processes.

Only the daemon can: processes of a fabric are its children and end with it. It listens on ``owner.sock`` in the run
directory, which is its user's alone, and answers one line of JSON with one: ``{"restart": "h3"}`` with
``{"seconds": 0.4}`` or ``{"error": "..."}``. Its main thread carries requests out (:class:`RestartRequest`), since a
child also ends with the thread that has started it.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final

from mrc_common import strict_json, unix_sockets
from mrc_common.suggestions import did_you_mean
from mrc_lab.errors import ExperimentError
from topologies import name_patterns
from topologies.emulation.errors import EmulationError
from topologies.emulation.processes import ready_seconds
from topologies.emulation.run_directory import RunDirectory

_MAX_LINE: Final = 4096  # bytes
_CLIENT_S: Final = 5.0  # how long a client may take to say what it wants
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
_PAUSE_S: Final = 0.1
_MARGIN_S: Final = 10.0  # of a client's patience, beyond the time that a process may take to get ready


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A process that somebody wants restarted."""

    name: str
    _answer: SimpleQueue[dict[str, Any]] = field(default_factory=SimpleQueue)

    def carry_out(self, restart: Callable[[str], object]) -> str | None:
        """Restart the process, in the daemon's main thread, and answer; returns why it failed, or None."""
        began = time.monotonic()
        try:
            restart(self.name)
        except (EmulationError, OSError) as error:
            self._answer.put({"error": str(error)})
            return str(error)
        self._answer.put({"seconds": time.monotonic() - began})
        return None

    def answer(self) -> dict[str, Any]:
        """Wait until it was carried out."""
        return self._answer.get(timeout=2 * ready_seconds())


@contextlib.contextmanager
def served(run: RunDirectory, put: Callable[[RestartRequest], None]) -> Iterator[None]:
    """Take requests from clients, one after the other, and `put` each where the main thread finds it."""
    with unix_sockets.listen(run.owner_socket, socket.SOCK_STREAM) as listener:
        listener.setblocking(True)
        threading.Thread(target=_serve, args=(listener, put), name="requests", daemon=True).start()
        yield


def _serve(listener: socket.socket, put: Callable[[RestartRequest], None]) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError as error:
            if error.errno in _NONE_LEFT:  # no descriptor: others give theirs back
                time.sleep(_PAUSE_S)
                continue
            return  # closed
        with client, contextlib.suppress(OSError):
            client.settimeout(_CLIENT_S)
            line = _line(client)
            if not _is_gone(client):
                client.sendall(strict_json.dumps(_answered(line, put)).encode() + b"\n")


def _is_gone(client: socket.socket) -> bool:
    """Whether a client that waited behind others has given up, and was told that nothing was restarted."""
    poll = select.poll()
    poll.register(client, 0)
    return bool(poll.poll(0))  # POLLHUP: it has closed both directions


def _answered(line: bytes, put: Callable[[RestartRequest], None]) -> dict[str, Any]:
    try:
        request = RestartRequest(str(strict_json.loads(line)["restart"]))
    except (ValueError, KeyError, TypeError):
        return {"error": 'expected one line of JSON: {"restart": NAME}'}
    put(request)
    try:
        return request.answer()
    except Empty:
        return {"error": f"the fabric's process is busy, and has not restarted {request.name} yet"}


def _line(stream: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) <= _MAX_LINE and (more := stream.recv(_MAX_LINE)):
        data += more
    return data


def ask(run: RunDirectory, name: str) -> float:
    """Have the daemon of a fabric restart its process `name`; returns how long (s) that took.

    Raises ExperimentError for an unknown name, a fabric that has no daemon, and where the process does not get ready.
    """
    process = process_of(run, name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(2 * ready_seconds() + _MARGIN_S)
        try:
            stream.connect(str(run.owner_socket))
        except (FileNotFoundError, ConnectionRefusedError):
            raise ExperimentError(
                f"fabric {run.name} belongs to process {run.owner()}, a prompt, a demo or an experiment",
                f"At a prompt type 'restart {process}'; demos and experiments restart nothing, which would invalidate"
                " their measurements.",
            ) from None
        try:
            stream.sendall(strict_json.dumps({"restart": process}).encode() + b"\n")
            answer = strict_json.loads(_line(stream) or b'{"error": "the fabric was taken down meanwhile"}')
        except OSError as error:
            reason = "it does not answer" if isinstance(error, TimeoutError) else error.strerror
            raise ExperimentError(f"process {process} was not restarted: {reason}") from None
    if "error" in answer:
        raise ExperimentError(f"process {process} was not restarted: {answer['error']}")
    return float(answer["seconds"])


def process_of(run: RunDirectory, name: str) -> str:
    """The process of a fabric that `name` means; a switch that shares its process with all others has none."""
    names = list(_processes(run))
    if name in names:
        return name
    if f"switch-{name}" in names:
        return f"switch-{name}"
    if "switches" in names and "@" in name:
        raise ExperimentError(
            f"{name} has no process of its own: one process runs all switches",
            "Restart that one: its name is switches.",
        )
    known = ", ".join(names)
    raise ExperimentError(f"fabric {run.name} has no process {name!r}: it has {known}", did_you_mean(name, names))


def processes_of(run: RunDirectory, pattern: str) -> list[str]:
    """The processes of a fabric that a name or pattern means; ExperimentError for none, FabricError if unreadable."""
    if not name_patterns.is_pattern(pattern):
        return [process_of(run, pattern)]
    by_name = {name.removeprefix("switch-"): name for name in _processes(run)}
    found = name_patterns.select(by_name.values(), pattern)
    found = found or [by_name[name] for name in name_patterns.select(by_name, pattern)]
    if not found:
        process_of(run, pattern)  # says what there is
    return found


def exited(run: RunDirectory) -> list[str]:
    """Names of the fabric's processes that do not run."""
    return [name for name, runs in _processes(run).items() if not runs]


def _processes(run: RunDirectory) -> dict[str, bool]:
    """Names of the fabric's processes, and whether each runs."""
    found = dict.fromkeys(run.ended_names(), False)  # one is being restarted, or could not be started
    found |= {record.name: record.alive() for record in run.records() if record.namespace is None}
    return dict(sorted(found.items()))
