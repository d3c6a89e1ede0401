"""Crashes of a fabric's processes are noticed, reported once and recorded."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from topologies.emulation import process_watch
from topologies.emulation.attach import watching
from topologies.emulation.process_watch import Crash, ProcessWatch
from topologies.emulation.run_directory import RunDirectory

TIMEOUT_S = 20.0


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory("watched", tmp_path)
    run.create()
    return run


@contextlib.contextmanager
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with sleeping() as process:
        yield process


def crashes_of(found: ProcessWatch) -> queue.Queue[Crash]:
    crashes: queue.Queue[Crash] = queue.Queue()
    found.listen(crashes.put)
    return crashes


def test_a_crash_is_reported_once_with_the_signal_and_the_last_line(
    run: RunDirectory, sleeper: subprocess.Popen[bytes]
) -> None:
    run.log_file("switches").write_text("ready\nout of memory\n\n")
    found = ProcessWatch(run, {"switches": sleeper.pid}, keep=True)
    try:
        crashes = crashes_of(found)
        sleeper.kill()
        crash = crashes.get(timeout=TIMEOUT_S)
        assert (crash.name, crash.pid, crash.how, crash.last_line) == (
            "switches", sleeper.pid, "was killed by SIGKILL", "out of memory",
        )  # fmt: skip
        assert "process switches was killed by SIGKILL at " in str(crash)
        log = run.log_file("switches")
        assert str(crash).endswith(f"(its id was {sleeper.pid}); the last line of its log {log}: out of memory")
        assert found.crashes == (crash,)
        late = crashes_of(found)
        assert late.get(timeout=TIMEOUT_S) == crash, "a later listener is notified too"
        assert process_watch.recorded(run) == (crash,)
        assert sleeper.wait() == -signal.SIGKILL, "its status is still there for its parent"
        assert crashes.empty()
    finally:
        found.stop()


def test_an_exit_status_is_reported(run: RunDirectory) -> None:
    with subprocess.Popen(["sh", "-c", "read x; exit 7"], stdin=subprocess.PIPE) as process:
        found = ProcessWatch(run, {"h1": process.pid}, keep=False)
        crashes = crashes_of(found)
        assert process.stdin is not None
        process.stdin.close()
        assert crashes.get(timeout=TIMEOUT_S).how == "ended with status 7"
        found.stop()
    assert process_watch.recorded(run) == (), "it is for who brought the fabric up to write it down"


def test_processes_of_other_parents_are_watched(run: RunDirectory) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        found = ProcessWatch(run, {"h1": grandchild}, keep=False)
        crashes = crashes_of(found)
        os.kill(grandchild, signal.SIGKILL)
        assert crashes.get(timeout=TIMEOUT_S).how == "ended"
        found.stop()


def test_look_returns_at_once_and_a_listener_gets_nothing_after_leaving(
    run: RunDirectory, sleeper: subprocess.Popen[bytes]
) -> None:
    with subprocess.Popen(["sleep", "1000"]) as second:
        found = ProcessWatch(run, {"h1": sleeper.pid, "h2": second.pid}, keep=True)
        crashes: queue.Queue[Crash] = queue.Queue()
        assert found.look() == ()
        with found.listening(crashes.put):
            sleeper.kill()
            os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
            assert [crash.name for crash in found.look()] == ["h1"]
            assert crashes.get(timeout=TIMEOUT_S).name == "h1"
        second.kill()
        os.waitid(os.P_PID, second.pid, os.WEXITED | os.WNOWAIT)
        assert [crash.name for crash in found.look()] == ["h1", "h2"]
        found.stop()
    assert crashes.empty()


def test_an_observer_finds_processes_restarted_by_others(run: RunDirectory, sleeper: subprocess.Popen[bytes]) -> None:
    found = ProcessWatch(run, {"h1": sleeper.pid}, keep=False)
    crashes = crashes_of(found)
    sleeper.kill()
    assert crashes.get(timeout=TIMEOUT_S).pid == sleeper.pid
    with subprocess.Popen(["sleep", "1000"]) as again:
        run.record("h1", again.pid, ["sleep", "1000"])
        until(lambda: "h1" in found.watched, "the watch to find it again")
        again.kill()
        assert crashes.get(timeout=TIMEOUT_S).pid == again.pid
        found.stop()


def test_an_observer_that_joins_during_a_restart_watches_the_new_process(
    run: RunDirectory, sleeper: subprocess.Popen[bytes]
) -> None:
    run.record("h1", sleeper.pid, ["sleep", "1000"])
    run.ends_on_purpose("h1")
    with watching(run) as found, sleeping() as again:
        crashes = crashes_of(found)
        sleeper.kill()
        run.record("h1", again.pid, ["sleep", "1000"])
        until(lambda: "h1" in found.watched, "the watch to find it")
        again.kill()
        assert crashes.get(timeout=TIMEOUT_S).pid == again.pid
    assert crashes.empty()


def test_an_observer_that_finds_a_process_dead_watches_the_next(run: RunDirectory) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    found = ProcessWatch(run, {"h1": process.pid}, keep=False)
    with sleeping() as again:
        run.record("h1", again.pid, ["sleep", "1000"])
        until(lambda: "h1" in found.watched, "the watch to find it")
    found.stop()


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("controller", "Packets flow on"),
        ("switches", "Traffic through its switches is lost"),
        ("h1", "queue pairs of h1"),
    ],
)
def test_a_crash_names_its_consequence(name: str, lost: str) -> None:
    assert lost in Crash(name, 1, 0.0, "ended", "").consequence


def test_how_a_process_of_another_parent_exited_is_read_from_the_crashes_file(run: RunDirectory) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        crash = {"name": "h1", "pid": grandchild, "at": 0.0, "how": "was killed by SIGKILL", "last_line": "", "log": ""}
        run.crashes_file.write_text(json.dumps(crash) + "\n")
        found = ProcessWatch(run, {"h1": grandchild}, keep=False)
        crashes = crashes_of(found)
        os.kill(grandchild, signal.SIGKILL)
        assert crashes.get(timeout=TIMEOUT_S).how == "was killed by SIGKILL"
        found.stop()


def test_nothing_is_reported_after_the_watch_has_stopped(run: RunDirectory, sleeper: subprocess.Popen[bytes]) -> None:
    found = ProcessWatch(run, {"h1": sleeper.pid}, keep=True)
    crashes = crashes_of(found)
    found.stop()
    found.stop()
    sleeper.kill()
    sleeper.wait()
    assert crashes.empty()
    assert process_watch.recorded(run) == ()


def test_a_crashed_process_that_was_restarted_is_no_longer_listed(
    run: RunDirectory, sleeper: subprocess.Popen[bytes]
) -> None:
    crash = {"name": "controller", "pid": 1, "at": 0.0, "how": "ended", "last_line": ""}
    run.crashes_file.write_text(json.dumps(crash) + "\n" + '{"half": ')
    assert [found.name for found in process_watch.recorded(run)] == ["controller"]
    run.record("controller", sleeper.pid, ["sleep", "1000"])
    assert process_watch.recorded(run) == ()


def test_a_process_that_exited_before_the_watch_began_is_skipped(run: RunDirectory) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    ProcessWatch(run, {"h1": process.pid}, keep=True).stop()
    assert process_watch.recorded(run) == ()


def test_long_last_lines_are_truncated(run: RunDirectory) -> None:
    run.log_file("h1").write_text("x" * 5000)
    assert len(process_watch.last_line(run, "h1")) == 200
    assert process_watch.last_line(run, "h2") == ""


def test_a_forgotten_process_is_not_reported_but_its_successor_is(
    run: RunDirectory, sleeper: subprocess.Popen[bytes]
) -> None:
    with subprocess.Popen(["sleep", "1000"]) as after:
        found = ProcessWatch(run, {"controller": sleeper.pid}, keep=True)
        crashes = crashes_of(found)
        found.forget("controller")
        sleeper.kill()
        sleeper.wait()
        found.add("controller", after.pid)
        after.kill()
        assert crashes.get(timeout=TIMEOUT_S).pid == after.pid
        found.stop()
    assert crashes.empty()
    assert len(process_watch.recorded(run)) == 1
