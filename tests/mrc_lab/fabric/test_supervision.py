"""Which processes are restarted when they exit, how often, and the messages; how a run names what ended it."""

from __future__ import annotations

from pathlib import Path

from mrc_lab.fabric.supervision import MAX_RESTARTS, WITHIN_S, Restarts, crash_message
from topologies.emulation.errors import ProcessError
from topologies.emulation.process_watch import Crash

CRASH = Crash("switches", 42, 0.0, "was killed by SIGKILL", "out of memory")


class Fabric:
    """Processes that start, unless `problem` says why not; each start takes a second."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.started: list[str] = []
        self.notices: list[str] = []
        self.now = 0.0
        self.pids = {"switches": 42, "h1": 43}
        self.restarts = Restarts(self.restart, self.pids.__getitem__, self.notices.append, lambda: self.now)

    def restart(self, name: str) -> None:
        self.now += 1
        if self.problem:
            raise ProcessError(self.problem)
        self.started.append(name)


def test_crashed_processes_are_restarted() -> None:
    fabric = Fabric()
    fabric.restarts.crashed(CRASH)
    assert fabric.started == ["switches"]
    assert fabric.notices == ["process switches was restarted"]


def test_a_process_that_somebody_has_restarted_meanwhile_is_left_alone() -> None:
    fabric = Fabric()
    fabric.pids["switches"] = 44
    fabric.restarts.crashed(CRASH)
    assert (fabric.started, fabric.notices) == ([], [])


def test_a_failed_restart_is_reported() -> None:
    fabric = Fabric("No memory.")
    fabric.restarts.crashed(CRASH)
    assert fabric.notices == ["process switches could not be restarted: No memory."]


def test_a_repeatedly_crashing_process_is_not_restarted_until_stable() -> None:
    fabric = Fabric()
    for _ in range(MAX_RESTARTS + 1):
        fabric.restarts.crashed(CRASH)
    assert fabric.started == ["switches"] * MAX_RESTARTS
    assert fabric.notices[-1] == "process switches was restarted 5 times within 60 s and will not be restarted again"
    fabric.restarts.crashed(Crash("h1", 43, 0.0, "ended", ""))
    assert fabric.started[-1] == "h1", "others are none the worse for it"
    fabric.now += WITHIN_S
    fabric.restarts.crashed(CRASH)
    assert fabric.started[-1] == "switches"


def test_a_failed_run_names_the_signal_and_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "switches.log"
    log.write_text("".join(f"line {number}\n" for number in range(30)))
    message, hint = crash_message([Crash("switches", 42, 0.0, "was killed by SIGKILL", "line 29", str(log))])
    assert message.startswith("process switches was killed by SIGKILL at ")
    assert str(log) in message
    assert "run it again" in hint
    assert [line.strip() for line in hint.splitlines()[1:]] == [f"switches.log: line {n}" for n in range(20, 30)]
    assert len(crash_message([CRASH])[1].splitlines()) == 1
