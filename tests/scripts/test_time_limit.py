"""Tests that hang on purpose: they end, their children too, and their stacks are printed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests import time_limit_keeper

ROOT = Path(__file__).parents[2]
COMMON = """
import collections, itertools, os, pathlib, signal, subprocess, sys, threading, time
import pytest
from mrc_common import children
HERE = pathlib.Path(__file__).parent
def note(pid):
    with (HERE / "pids").open("a") as file:
        file.write(f"{pid}\\n")
soon = pytest.mark.timeout(1)
def hang_in_c():
    collections.deque(itertools.repeat(0), maxlen=0)
"""


def run(folder: Path, body: str, *options: str, grace_s: float = 3) -> subprocess.CompletedProcess[str]:
    """Run a file with tests; only those that hang have a short limit, and those that cannot be saved little grace."""
    (folder / "test_it.py").write_text(COMMON + textwrap.dedent(body))
    plugins = ("-p", "tests.time_limit", "-p", "no:cacheprovider", "-p", "no:mrc")
    limits = ("--timeout=180", f"--grace={grace_s}", "--rootdir", str(folder))
    command = (sys.executable, "-m", "pytest", "-q", *plugins, *limits, *options, str(folder))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def alive(folder: Path) -> list[int]:
    """Processes that the test has noted and that still run; those that are killed may take a moment to go."""
    pids = [int(line) for line in (folder / "pids").read_text().split()]
    end = time.monotonic() + 20
    while True:
        left = [pid for pid in pids if _runs(pid)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


CHILDREN = """
SLEEPING = "import faulthandler, threading; faulthandler.enable()\\ndef sleeping():\\n    threading.Event().wait()\\n"
DETACHED = "import os\\nif os.fork(): os._exit(0)\\nos.setsid()\\nprint(os.getpid(), flush=True)\\n" + SLEEPING

@soon
def test_hangs():
    def in_a_thread():
        threading.Event().wait()
    threading.Thread(target=in_a_thread, daemon=True).start()
    forked = os.fork()
    if not forked:
        signal.pause()
        os._exit(0)
    note(forked)
    for errors in (subprocess.PIPE, (HERE / "log").open("w"), None):
        child = subprocess.Popen(children.python_code(SLEEPING + "sleeping()"), stderr=errors)
        note(child.pid)
    other = subprocess.Popen(["sleep", "1000"])
    note(other.pid)
    middle = subprocess.Popen(children.python_code(DETACHED + "sleeping()"), stdout=subprocess.PIPE, text=True)
    note(int(middle.stdout.readline()))
    other.wait()
    threading.Event().wait()

def test_after():
    pass
"""
IDLE = """
if "PYTEST_XDIST_WORKER" in os.environ:  # one that has no test, as long as the other hangs
    from tests import time_limit
    time_limit._END_S = 0.001
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_test_that_hangs_fails_and_its_children_die_with_their_stacks_printed(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    done = run(tmp_path, IDLE + CHILDREN, *workers)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "The test took longer than 1 s: standard error has the stacks." in done.stdout
    assert alive(tmp_path) == []
    assert "test_hangs hangs. Stacks of the process that runs it" in done.stderr
    assert "in in_a_thread" in done.stderr
    assert re.search(r"process \d+, in \S+: sleep 1000\n", done.stderr)
    assert done.stderr.count("in sleeping\n") == 4
    assert not workers or "The end of pytest" not in done.stderr, (
        "errors go to a pipe, a file, and what pytest captures; one has left its parent"
    )


def test_a_tests_code_may_wait_for_children_reset_timers_and_catch_the_failure(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        @soon
        def test_waits():
            child = subprocess.Popen(["sleep", "1000"])
            note(child.pid)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
                threading.Event().wait()
            except BaseException:
                pass
            threading.Event().wait()

        def test_after():
            pass
        """,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert alive(tmp_path) == []


def test_a_fixture_that_hangs_after_a_failure_ends_as_well(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        @pytest.fixture
        def hanging():
            yield
            child = subprocess.Popen(["sleep", "1000"])
            note(child.pid)
            child.wait()
            threading.Event().wait()

        @soon
        def test_fails(hanging):
            assert False

        def test_after():
            pass
        """,
    )
    assert "1 failed, 1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert alive(tmp_path) == []


def test_xdist_goes_on_after_a_test_that_hangs_in_c(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        @soon
        def test_hangs_in_c():
            note(os.getpid())
            child = subprocess.Popen(["sleep", "1000"])
            note(child.pid)
            hang_in_c()

        def test_after():
            pass
        """,
        "-n1",
        grace_s=0.2,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert re.search(r"worker 'gw0' crashed while running '.*test_hangs_in_c'", done.stdout)
    assert alive(tmp_path) == []
    assert "in hang_in_c" in done.stderr


def test_a_thread_that_keeps_pytest_from_ending_is_named(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        from tests import time_limit
        time_limit._END_S = 10.0  # in which pytest prints its summary

        def test_leaves_a_thread():
            def left():
                threading.Event().wait()
            note(os.getpid())
            threading.Thread(target=left).start()
        """,
        grace_s=0.2,
    )
    assert "1 passed" in done.stdout
    assert alive(tmp_path) == []
    assert "The end of pytest hangs." in done.stderr
    assert "in left" in done.stderr


def test_children_of_a_process_that_crashes_die_too(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        def test_crashes():
            child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            note(child.pid)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert done.returncode == -9
    assert alive(tmp_path) == []


def test_what_tests_leave_running_on_purpose_survives_when_pytest_ends(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        def test_leaves_a_daemon():
            child = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=-3, stderr=-3)
            note(child.pid)
        """,
    )
    pid = int((tmp_path / "pids").read_text())
    assert _runs(pid)
    os.kill(pid, 9)


@pytest.mark.parametrize("terminal", [("--ctty",), ()], ids=["terminal", "none"])
def test_what_somebody_has_suspended_at_a_terminal_does_not_hang(terminal: tuple[str, ...]) -> None:
    ours, its = os.openpty()
    command = ("setsid", *terminal, "sh", "-c", "kill -STOP $$; kill -STOP $$")
    with open(ours), open(its) as stdin, subprocess.Popen(command, stdin=stdin) as process:
        for _ in range(2):
            assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
            assert time_limit_keeper.is_suspended(process.pid) is bool(terminal)
            process.send_signal(signal.SIGCONT)
        assert process.wait() == 0
    assert not time_limit_keeper.is_suspended(process.pid)


@pytest.mark.parametrize(("load", "share"), [(0.0, 1.0), (2.0, 1.0), (8.0, 0.25), (9999.0, 0.05)])
def test_a_second_of_a_busy_machine_counts_less(monkeypatch: pytest.MonkeyPatch, load: float, share: float) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert time_limit_keeper.share() == share
