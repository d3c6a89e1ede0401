"""Work over processes of this machine: as many workers as jobs, each with one item at a time.

A worker is a process of its own behind a pipe, not part of a pool: when it is killed, by whomever, its pipe ends, its
item is lost, and a new worker takes its place, while the others go on. A worker ends as soon as this process does,
however that ends, and leaves Ctrl-C to it. It is started as every child is (``mrc_common.children``), which a pool of
``multiprocessing`` would not be.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, Generic, TypeVar

from mrc_common import children
from mrc_host import compiled

Item = TypeVar("Item")
_MODULE = "mrc_lab.experiments.running.process_worker"


@dataclass(frozen=True, slots=True)
class Done(Generic[Item]):
    """What came of an item: what the function returned, or how its worker was lost."""

    item: Item
    result: Any
    lost: str = ""


def each(items: Sequence[Item], jobs: int, function: Callable[[Item], Any]) -> Generator[Done[Item], None, None]:
    """What `function`, a module's function, makes of every item, as it comes, from `jobs` workers."""
    waiting = deque(items)
    workers: list[_Worker[Item]] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(_Worker(function))
                workers[-1].give(waiting.popleft())
            ready = connection.wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in ready]:
                done = worker.take()
                if done.lost or not waiting:
                    workers.remove(worker)
                    worker.end()
                else:
                    worker.give(waiting.popleft())
                yield done
    finally:
        for worker in workers:
            worker.end()


class _Worker(Generic[Item]):
    """A process, and the item it has."""

    def __init__(self, function: Callable[[Item], Any]) -> None:
        self.pipe, far = connection.Pipe()
        self._item: Item | None = None
        command = children.python(_MODULE, str(far.fileno()), "compiled" if compiled.in_use() else "plain")
        with far, _interrupts_ignored():  # our copy is closed, so that the pipe ends with the process
            self._process = children.popen(command, pass_fds=(far.fileno(),), stdin=subprocess.PIPE)
        self._notify([path for path in sys.path if path])  # functions are found where this process finds them
        self._notify(function)

    def give(self, item: Item) -> None:
        """Have it work on an item; a worker that is gone is noticed when the result is taken."""
        self._item = item
        self._notify(item)

    def _notify(self, what: object) -> None:
        try:
            self.pipe.send(what)
        except OSError:
            return

    def take(self) -> Done[Item]:
        """The result of its item, once there is something in the pipe or the pipe has ended."""
        assert self._item is not None
        try:
            return Done(self._item, self.pipe.recv())
        except (EOFError, OSError):
            status = self._process.wait()
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            return Done(self._item, None, f"its worker {how}")

    def end(self) -> None:
        """Kill the process, if it lives, and wait for it."""
        self.pipe.close()
        self._process.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class _interrupts_ignored:  # noqa: N801 - used as a function
    """A child inherits that SIGINT is ignored: from its first moment Ctrl-C is this process's business."""

    def __enter__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        self._before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None

    def __exit__(self, *_error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
