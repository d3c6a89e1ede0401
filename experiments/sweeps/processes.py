"""Runs over processes of this machine: as many workers as jobs, each with one run at a time.

A worker is a process of its own behind a pipe (multiprocessing, spawn), not part of a pool: when it is killed, by
whomever, its pipe ends, its run is lost, and a new worker takes its place, while the others go on. A worker ends as
soon as this process does, however that ends, and leaves Ctrl-C to it.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection

from experiments.sweeps.execute import Outcome, execute
from experiments.sweeps.grid import Run
from experiments.sweeps.worker import serve
from mrc_host import compiled

Execute = Callable[[Run], Outcome]
_SPAWN = multiprocessing.get_context("spawn")


def over_processes(runs: Sequence[Run], jobs: int, execute: Execute = execute) -> Iterator[Outcome]:
    """The outcome of every run as it comes, from `jobs` workers. `execute` must be a module's function."""
    waiting = deque(runs)
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(_Worker(execute))
                workers[-1].give(waiting.popleft())
            ready = connection.wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in ready]:
                outcome = worker.take()
                if outcome.lost or not waiting:
                    workers.remove(worker)
                    worker.end()
                else:
                    worker.give(waiting.popleft())
                yield outcome
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process, and the run it has."""

    def __init__(self, execute: Execute) -> None:
        self.pipe, far = _SPAWN.Pipe()
        self._run: Run | None = None
        self._process = _SPAWN.Process(target=serve, args=(far, compiled.in_use()), daemon=True)
        with _interrupts_ignored():
            self._process.start()
        far.close()  # so that the pipe ends with the process
        self._tell(execute)

    def give(self, run: Run) -> None:
        """Have it do a run; a worker that is gone is noticed when the outcome is taken."""
        self._run = run
        self._tell(run)

    def _tell(self, what: Execute | Run) -> None:
        try:
            self.pipe.send(what)
        except OSError:
            return

    def take(self) -> Outcome:
        """The outcome of its run, once there is something in the pipe or the pipe has ended."""
        assert self._run is not None
        try:
            outcome: Outcome = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            status = self._process.exitcode or 0
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            return Outcome(self._run, None, f"its worker {how}")
        return outcome

    def end(self) -> None:
        """Kill the process, if it lives, and wait for it."""
        self.pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()


class _interrupts_ignored:  # noqa: N801 - used as a function
    """A child inherits that SIGINT is ignored: from its first moment Ctrl-C is this process's business."""

    def __enter__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        self._before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None

    def __exit__(self, *_error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
