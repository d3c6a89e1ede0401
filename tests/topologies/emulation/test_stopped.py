from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_lab.cli import fault
from mrc_lab.fabric import doctor
from tests.waiting import until
from topologies.emulation import run_directory
from topologies.emulation.run_directory import RunDirectory
from topologies.emulation.stopped import OWNER, Stopped, stopped


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    one = RunDirectory("lab", tmp_path)
    with one.locked():
        yield one


@pytest.fixture
def agent(run: RunDirectory) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        run.record("h1", process.pid, ["sleep", "60"])
        yield process
        process.kill()


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


def test_a_process_is_listed_while_stopped(run: RunDirectory, agent: subprocess.Popen[bytes]) -> None:
    assert list(stopped(run)) == []
    stop(agent)
    (one,) = stopped(run)
    assert str(one) == f"process h1 is stopped: let it go on with 'sudo kill -CONT {agent.pid}'"
    agent.send_signal(signal.SIGCONT)
    until(lambda: list(stopped(run)) == [])
    stop(agent)
    agent.kill()
    agent.wait()
    assert list(stopped(run)) == [], "it is dead"


def test_the_stopped_owner_of_the_fabric_is_listed(
    run: RunDirectory, agent: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop(agent)
    monkeypatch.setattr(RunDirectory, "owner", lambda _: agent.pid)
    assert [one.name for one in stopped(run)] == [OWNER, "h1"]


def test_a_traced_process_is_reported_as_held_by_a_debugger() -> None:
    assert str(Stopped("controller", 7, traced=True)) == (
        "process controller is held by a debugger: let it go on there (its id is 7)"
    )


def test_the_doctor_and_fault_commands_report_stopped_processes(
    run: RunDirectory,
    agent: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run_directory, "existing", lambda: ("lab",))
    monkeypatch.setattr(run_directory, "RunDirectory", lambda _: run)
    monkeypatch.setattr(fault, "find_controller", lambda _: run)
    stop(agent)
    (finding,) = doctor.check_fabrics()
    message = f"process h1 is stopped: let it go on with 'sudo kill -CONT {agent.pid}'"
    assert (finding.ok, finding.fatal, finding.detail) == (False, False, f"lab: {message}")
    # private: the part of every fault command that finds the controller, which does not run here
    fault._controller("lab", "", None, None).close()
    assert capsys.readouterr().err == f"note: {message}\n"
