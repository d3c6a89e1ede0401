"""Requests to restart a process: what the daemon answers to clients, to nonsense too, and what clients are told."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.fabric import restart_requests
from topologies.emulation.errors import ProcessError
from topologies.emulation.run_directory import RunDirectory
from topologies.errors import FabricError


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    found = RunDirectory("lab", tmp_path)
    found.create()
    for name in ("controller", "h1", "h2", "switches"):
        found.record(name, os.getpid(), ["it"])
    return found


class Daemon:
    """Restarts h1, and fails with all others."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def put(self, request: restart_requests.RestartRequest) -> None:
        threading.Thread(target=request.carry_out, args=(self.restart,)).start()

    def restart(self, name: str) -> None:
        self.asked.append(name)
        if name != "h1":
            raise ProcessError(f"Process {name} is not ready.")


@pytest.fixture
def daemon(run: RunDirectory) -> Iterator[Daemon]:
    found = Daemon()
    with restart_requests.served(run, found.put):
        yield found


def said(run: RunDirectory, line: bytes) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(60)
        client.connect(str(run.owner_socket))
        with contextlib.suppress(OSError):
            client.sendall(line)
            client.shutdown(socket.SHUT_WR)
        answer = json.loads(client.makefile().readline())
        assert isinstance(answer, dict)
        return answer


def test_a_process_is_restarted(run: RunDirectory, daemon: Daemon) -> None:
    assert restart_requests.ask(run, "h1") >= 0
    assert daemon.asked == ["h1"]


def test_a_failed_restart_says_why(run: RunDirectory, daemon: Daemon) -> None:
    with pytest.raises(ExperimentError, match=r"process h2 was not restarted: Process h2 is not ready\."):
        restart_requests.ask(run, "h2")


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"nonsense\n", b"[]\n", b"3\n", b'{"start": "h1"}\n', b"\xff\n", b"x" * 100_000]
)
def test_nonsense_restarts_nothing_and_the_next_client_is_served(
    run: RunDirectory, daemon: Daemon, line: bytes
) -> None:
    with contextlib.suppress(
        ConnectionError, ValueError
    ):  # what was sent beyond the longest line resets the connection
        assert "expected one line of JSON" in str(said(run, line)["error"])
    assert restart_requests.ask(run, "h1") >= 0
    assert daemon.asked == ["h1"]


def test_the_socket_is_its_users_alone(run: RunDirectory, daemon: Daemon) -> None:
    assert run.owner_socket.stat().st_mode & 0o777 == 0o600


def test_a_fabric_without_a_daemon_says_where_to_ask(run: RunDirectory) -> None:
    with (
        run.locked(),
        pytest.raises(ExperimentError, match=rf"belongs to process {os.getpid()}, a prompt, a demo") as error,
    ):
        restart_requests.ask(run, "h1")
    assert "At a prompt type 'restart h1'" in error.value.hint


def test_names_of_processes(run: RunDirectory) -> None:
    assert restart_requests.process_of(run, "h1") == "h1"
    with pytest.raises(ExperimentError, match="one process runs all switches"):
        restart_requests.process_of(run, "t0-0@p0")
    with pytest.raises(ExperimentError, match="no process 'h3': it has controller, h1, h2, switches"):
        restart_requests.process_of(run, "h3")
    run.record("switch-t0-0@p0", os.getpid(), ["it"])
    assert restart_requests.process_of(run, "t0-0@p0") == "switch-t0-0@p0"


def test_patterns_of_processes(run: RunDirectory) -> None:
    for name in ("switch-t0-0@p0", "switch-t0-1@p0", "h10"):
        run.record(name, os.getpid(), ["it"])
    meant = {
        "h1": ["h1"], "h[1-2]": ["h1", "h2"], "h*": ["h1", "h10", "h2"], "t0-*": ["switch-t0-0@p0", "switch-t0-1@p0"],
        "switch*": ["switch-t0-0@p0", "switch-t0-1@p0", "switches"],
    }  # fmt: skip
    assert {pattern: restart_requests.processes_of(run, pattern) for pattern in meant} == meant
    with pytest.raises(ExperimentError, match="no process 'x\\*': it has controller, h1"):
        restart_requests.processes_of(run, "x*")
    with pytest.raises(FabricError, match="no name has 3: write"):
        restart_requests.processes_of(run, "h[1-3]")


def test_processes_that_do_not_run_are_found(run: RunDirectory) -> None:
    assert restart_requests.exited(run) == ["controller", "h1", "h2", "switches"]  # their command lines are not ours


def test_a_process_that_another_restarts_just_now_has_its_name_all_the_same(run: RunDirectory) -> None:
    run.ends_on_purpose("h1")
    assert restart_requests.process_of(run, "h1") == "h1"
    assert "h1" in restart_requests.exited(run), "nor is it lost if it could not be started"


def test_what_a_client_wanted_that_has_given_up_is_not_done_later(run: RunDirectory) -> None:
    asked: SimpleQueue[restart_requests.RestartRequest] = SimpleQueue()
    with restart_requests.served(run, asked.put), contextlib.ExitStack() as clients:
        first, second, third = (
            clients.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) for _ in range(3)
        )
        for client, name in ((first, b"h1"), (second, b"h2"), (third, b"switches")):
            client.settimeout(60)
            client.connect(str(run.owner_socket))
            client.sendall(b'{"restart": "' + name + b'"}\n')
        busy_with = asked.get(timeout=60)
        second.close()
        third.shutdown(socket.SHUT_WR)
        busy_with.carry_out(lambda name: None)
        assert b"seconds" in first.recv(100)
        assert asked.get(timeout=60).name == "switches"
