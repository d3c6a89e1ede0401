"""Workers of a sweep, one of which may die."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from mrc_lab.sweeps.local_processes import over_processes
from tests.mrc_lab.sweeps.workers import killed_at_13, record, runs

ROOT = Path(__file__).resolve().parents[3]


def test_every_run_returns_once_and_workers_are_reused():
    outcomes = list(over_processes(runs(*range(20)), 2, record))
    assert sorted(outcome.run.seed for outcome in outcomes) == list(range(20))
    assert len({(outcome.record or {})["pid"] for outcome in outcomes}) <= 2
    assert os.getpid() not in {(outcome.record or {})["pid"] for outcome in outcomes}


def test_a_killed_worker_loses_only_its_own_run():
    outcomes = list(over_processes(runs(11, 12, 13, 14, 15, 16), 2, killed_at_13))
    lost = [outcome for outcome in outcomes if outcome.record is None]
    assert [outcome.run.seed for outcome in lost] == [13]
    assert lost[0].lost == "its worker was killed by signal 9"
    assert sorted(outcome.run.seed for outcome in outcomes if outcome.record) == [11, 12, 14, 15, 16]


def test_without_runs_no_worker_starts():
    assert list(over_processes([], 2, record)) == []


def test_workers_exit_when_the_sweep_is_killed(tmp_path: Path):
    fifo = tmp_path / "pids"
    os.mkfifo(fifo)
    program = (
        "from tests.mrc_lab.sweeps.workers import runs, say_and_stay\n"
        "from mrc_lab.sweeps.local_processes import over_processes\n"
        f"if __name__ == '__main__': list(over_processes(runs(1, text={str(fifo)!r}), 1, say_and_stay))"
    )
    script = tmp_path / "sweep.py"
    script.write_text(program)
    with subprocess.Popen([sys.executable, script], env={**os.environ, "PYTHONPATH": str(ROOT)}) as parent:
        worker = os.pidfd_open(int(fifo.read_text()))
        parent.kill()
    ended = select.poll()
    ended.register(worker, select.POLLIN)
    assert ended.poll(30_000), "the worker lives on"
    os.close(worker)


def test_workers_exit_when_the_iterator_is_closed():
    outcomes = over_processes(runs(1, 2, 3), 1, record)
    worker = os.pidfd_open((next(outcomes).record or {})["pid"])
    outcomes.close()  # type: ignore[attr-defined]
    ended = select.poll()
    ended.register(worker, select.POLLIN)
    assert ended.poll(0)
    os.close(worker)
