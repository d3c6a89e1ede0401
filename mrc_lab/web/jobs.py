"""Transfers started from the page: writes between two hosts, every byte verified, and all-reduces over all hosts.

A write is done in this process, in a thread, in pieces short enough that it can be stopped within a second. An
all-reduce is the command ``all_reduce_perf`` as a process. A few may run at once; the feed shows each with how far it
has come and, for a while, its result.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from mrc_common import children
from mrc_common.units import show_rate, show_size
from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import JobState, StateSection
from mrc_lab.workloads.verified_write import Transfer

MAX_JOBS = 8
_PIECE = 2 << 20  # bytes between two looks at whether to stop
_KEPT_S = 60.0  # how long a result is shown
_ITERATIONS = 20
_LONGEST_LINE = 300  # characters of a process's output that are shown


class Jobs:
    """The transfers of one fabric; `socket` gives the path of a host's agent."""

    def __init__(self, feed: Feed, socket: Callable[[str], Path | str], fabric: str) -> None:
        self._feed = feed
        self._socket = socket
        self._fabric = fabric
        self._numbers = itertools.count(1)
        self._stops: dict[str, Callable[[], None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def write(self, source: str, destination: str, nbytes: int) -> str:
        """Begin to write from a host to another; returns the job's id. ExperimentError when too many run."""
        stop = threading.Event()
        text = f"write {source} to {destination}, {show_size(nbytes)}"
        job = self._begin(text, stop.set)
        self._spawn(job, text, asyncio.to_thread(self._write, job, text, (source, destination), nbytes, stop))
        return job

    def all_reduce(self, nbytes: int) -> str:
        """Begin an all-reduce of `nbytes` over all hosts; returns the job's id. ExperimentError when too many run."""
        stop = asyncio.Event()
        text = f"all-reduce over all hosts, {show_size(nbytes)}"
        job = self._begin(text, stop.set)
        self._spawn(job, text, self._all_reduce(all_reduce_words(nbytes, self._fabric), stop))
        return job

    def stop(self, job: str) -> None:
        """Stop a job; ExperimentError if none of that id runs."""
        if job not in self._stops:
            raise ExperimentError("that transfer has ended already")
        self._stops[job]()

    async def close(self) -> None:
        """Stop all jobs and wait until they have given back what they had."""
        for stop in list(self._stops.values()):
            stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, text: str, stop: Callable[[], None]) -> str:
        if len(self._stops) >= MAX_JOBS:
            raise ExperimentError(f"{MAX_JOBS} transfers run already: stop one, or wait until it has ended")
        job = f"job{next(self._numbers)}"
        self._stops[job] = stop
        self._feed.put(StateSection.JOBS, job, JobState(text, True))
        return job

    def _spawn(self, job: str, text: str, work: Awaitable[str]) -> None:
        task = asyncio.create_task(self._finish(job, text, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, job: str, text: str, work: Awaitable[str]) -> None:
        """Wait for a job, and show its result."""
        try:
            result = await work
        except (MrcError, ExperimentError, OSError) as error:
            result = f"failed: {error}"
        del self._stops[job]
        self._feed.put(StateSection.JOBS, job, JobState(text, False, result, 1.0))
        self._feed.event("transfer", job, f"{text}: {result}")
        self._loop.call_later(_KEPT_S, self._feed.put, StateSection.JOBS, job, None)

    def _write(self, job: str, text: str, ends: tuple[str, str], nbytes: int, stop: threading.Event) -> str:
        """Write and verify piece by piece, in a thread; returns the result in words."""
        done, seconds, wrong = 0, 0.0, 0
        with ExitStack() as undo:
            near, far = (undo.enter_context(verbs.open(self._socket(host))) for host in ends)
            transfer = undo.enter_context(Transfer(near, far, memory=_PIECE))
            while done < nbytes and not stop.is_set():
                report = transfer.write(min(_PIECE, nbytes - done))
                done += report.nbytes
                seconds += report.seconds
                wrong += report.wrong_bytes
                state = JobState(text, True, share=round(done / nbytes, 3))
                self._loop.call_soon_threadsafe(self._progress, job, state)
        rate = show_rate(8 * done / seconds) if seconds else "nothing"
        checked = "every byte correct" if not wrong else f"{wrong} bytes WRONG"
        return f"{'stopped after ' if done < nbytes else ''}{show_size(done)} at {rate}, {checked}"

    def _progress(self, job: str, state: JobState) -> None:
        if job in self._stops:
            self._feed.put(StateSection.JOBS, job, state)

    async def _all_reduce(self, words: tuple[str, ...], stop: asyncio.Event) -> str:
        """Run the performance test to its end, or until it is to stop; returns its last line."""
        process = await children.start(
            children.python("mrc_lab.perf", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        stopping = asyncio.create_task(stop.wait())
        output = asyncio.create_task(process.communicate())
        await asyncio.wait((stopping, output), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not output.done():
            process.terminate()
        printed, _ = await output
        if stop.is_set():
            return "stopped"
        lines = [line.strip() for line in printed.decode(errors="replace").splitlines() if line.strip()]
        last = (lines[-1] if lines else "it printed nothing")[:_LONGEST_LINE]
        return last.lstrip("# ") if process.returncode == 0 else f"failed: {last}"


def all_reduce_words(nbytes: int, fabric: str) -> tuple[str, ...]:
    """The command that an all-reduce from the page is."""
    return ("all_reduce_perf", "-b", str(nbytes), "-n", str(_ITERATIONS), "--fabric", fabric)
