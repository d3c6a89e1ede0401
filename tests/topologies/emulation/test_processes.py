from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.command_line import arguments
from topologies.emulation import processes
from topologies.emulation.errors import EmulationError, ProcessError
from topologies.emulation.processes import READY_FD, Child, Command
from topologies.emulation.run_directory import RunDirectory

READY = "import os, sys, time; os.write(int(sys.argv[1]), b'ready\\n'); time.sleep(60)"
FAIL = "import sys; print('the reason', file=sys.stderr); sys.exit(3)"
STUBBORN = (
    "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "os.write(int(sys.argv[1]), b'x'); time.sleep(60)"
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory("demo", tmp_path)
    directory.create()
    return directory


@pytest.fixture
def children(run: RunDirectory) -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    processes.stop(started)


def python(name: str, code: str, *more: str) -> Command:
    return Command(name, (sys.executable, "-c", code, *more))


def no_signal() -> None:
    """Nothing to check."""


def test_a_ready_process_is_awaited_by_its_message(run: RunDirectory, children: list[Child]) -> None:
    children += [processes.start(run, python(name, READY, READY_FD)) for name in ("a", "b")]
    processes.wait_ready(children, timeout_s=20, check=no_signal)
    assert all(child.process.poll() is None for child in children)
    assert {record.name for record in run.records() if record.alive()} == {"a", "b"}
    processes.stop(children)
    assert all(child.process.returncode == -signal.SIGTERM for child in children)
    assert not any(record.alive() for record in run.records())


def test_a_failed_process_is_named_with_the_end_of_its_log(run: RunDirectory, children: list[Child]) -> None:
    children.append(processes.start(run, python("switches", FAIL, READY_FD)))
    with pytest.raises(ProcessError, match="Process switches ended with status 3: the reason"):
        processes.wait_ready(children, timeout_s=20, check=no_signal)


def test_a_process_that_is_not_ready_in_time_is_named(run: RunDirectory, children: list[Child]) -> None:
    children.append(processes.start(run, python("h1", "import time; time.sleep(60)", READY_FD)))
    with pytest.raises(ProcessError, match=r"it printed nothing\. If .* busy, set MRC_READY_SECONDS=600"):
        processes.wait_ready(children, timeout_s=0.05, check=no_signal)


def test_waiting_can_be_cancelled(run: RunDirectory, children: list[Child]) -> None:
    children.append(processes.start(run, python("h1", "import time; time.sleep(60)", READY_FD)))

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        processes.wait_ready(children, timeout_s=20, check=interrupt)


def test_a_listening_socket_counts_as_ready_where_nothing_is_reported(
    run: RunDirectory, children: list[Child], tmp_path: Path
) -> None:
    path = str(tmp_path / "s")
    code = f"import socket, time; s = socket.socket(socket.AF_UNIX); s.bind({path!r}); s.listen(); time.sleep(60)"
    children.append(processes.start(run, Command("bmv2", (sys.executable, "-c", code), ready_socket=path)))
    processes.wait_ready(children, timeout_s=20, check=no_signal)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(path)


def test_a_process_that_never_listens_is_named(run: RunDirectory, children: list[Child], tmp_path: Path) -> None:
    command = Command("bmv2", (sys.executable, "-c", FAIL), ready_socket=str(tmp_path / "none"))
    children.append(processes.start(run, command))
    with pytest.raises(ProcessError, match="Process bmv2 ended with status 3: the reason"):
        processes.wait_ready(children, timeout_s=20, check=no_signal)


def test_a_process_that_ignores_sigterm_is_killed(
    run: RunDirectory, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_STOP_SECONDS", 0.1)
    children.append(processes.start(run, python("stubborn", STUBBORN, READY_FD)))
    processes.wait_ready(children, timeout_s=20, check=no_signal)
    processes.stop(children)
    assert children[0].process.returncode == -signal.SIGKILL


def test_children_die_with_their_parent(run: RunDirectory, tmp_path: Path) -> None:
    parent = (
        "import sys; from pathlib import Path; from topologies.emulation import processes, run_directory\n"
        "run = run_directory.RunDirectory('demo', Path(sys.argv[1]))\n"
        f"command = processes.Command('c', (sys.executable, '-c', {READY!r}, '{{ready-fd}}'))\n"
        "child = processes.start(run, command)\n"
        "processes.wait_ready([child], timeout_s=20, check=lambda: None)\n"
        "print(child.process.pid, flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    child = os.pidfd_open(int(process.stdout.readline()))
    process.kill()
    process.communicate()

    assert select.select([child], [], [], 10)[0], "the child lives on"
    os.close(child)


def test_ctrl_c_does_not_reach_children(run: RunDirectory, children: list[Child]) -> None:
    children.append(processes.start(run, python("a", READY, READY_FD)))
    processes.wait_ready(children, timeout_s=20, check=no_signal)
    assert os.getsid(children[0].process.pid) == children[0].process.pid
    assert os.getpgid(children[0].process.pid) != os.getpgrp()


def test_starting_a_process_does_not_block(run: RunDirectory, children: list[Child]) -> None:
    never = "import time; time.sleep(1000)"
    children += [processes.start(run, python(f"p{n}", never, READY_FD)) for n in range(5)]
    assert all(child.process.poll() is None for child in children)


def test_running_out_of_descriptors_is_reported(run: RunDirectory, children: list[Child]) -> None:
    code = "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))\nwhile True: os.pipe()"
    children.append(processes.start(run, python("switches", code, READY_FD)))
    with pytest.raises(ProcessError) as failed:
        processes.wait_ready(children, timeout_s=20, check=no_signal)
    error = str(failed.value)
    assert error.startswith("Process switches ended with status 1: too many open files: ")
    assert "ulimit -n" in error
    assert "Traceback" not in error
    assert "|" not in error


def test_slow_machines_may_give_processes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MRC_READY_SECONDS", raising=False)
    assert processes.ready_seconds() == 60
    monkeypatch.setenv("MRC_READY_SECONDS", "900")
    assert processes.ready_seconds() == 900
    words = arguments(Path("fabric.yaml"), "unix:switches", Path("socket"))
    assert words[words.index("--ready-timeout") + 1] == "900"


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_times_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MRC_READY_SECONDS", text)
    with pytest.raises(EmulationError, match="MRC_READY_SECONDS is"):
        processes.ready_seconds()
