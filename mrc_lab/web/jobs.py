"""Transfers started from the page: writes between two hosts, every byte verified, and all-reduces over all hosts.

Each is a process of its own, so that it can be stopped at any time and takes none of the server's. A few may run at
once; the feed shows each with how far it has come and, for a while, its result.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

from mrc_common import children
from mrc_common.units import show_rate, show_size
from mrc_lab.errors import ExperimentError
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import JobState, StateSection

MAX_JOBS = 8
_ITERATIONS = 20  # of an all-reduce
_KEPT_S = 60.0  # how long a result is shown
_LONGEST_LINE = 300  # characters of a process's output that are shown


class Jobs:
    """The transfers of one fabric; `socket` gives the path of a host's agent."""

    def __init__(self, feed: Feed, socket: Callable[[str], Path | str], fabric: str) -> None:
        self._feed = feed
        self._socket = socket
        self._fabric = fabric
        self._numbers = itertools.count(1)
        self._stops: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def write(self, source: str, destination: str, nbytes: int) -> str:
        """Begin to write from a host to another; returns the job's id. ExperimentError when too many run."""
        sockets = (str(self._socket(host)) for host in (source, destination))
        command = children.python("mrc_lab.web.write_worker", *sockets, str(nbytes))
        return self._begin(f"write {source} to {destination}, {show_size(nbytes)}", command, _WriteProgress(nbytes))

    def all_reduce(self, nbytes: int) -> str:
        """Begin an all-reduce of `nbytes` over all hosts; returns the job's id. ExperimentError when too many run."""
        command = children.python("mrc_lab.perf", *all_reduce_words(nbytes, self._fabric))
        return self._begin(f"all-reduce over all hosts, {show_size(nbytes)}", command, _LastLine())

    def stop(self, job: str) -> None:
        """Stop a job; ExperimentError if none of that id runs."""
        if job not in self._stops:
            raise ExperimentError("that transfer has ended already")
        self._stops[job].set()

    async def close(self) -> None:
        """Stop all jobs and wait for their ends."""
        for stop in self._stops.values():
            stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, text: str, command: tuple[str, ...], progress: _LastLine) -> str:
        if len(self._stops) >= MAX_JOBS:
            raise ExperimentError(f"{MAX_JOBS} transfers run already: stop one, or wait until it has ended")
        job = f"job{next(self._numbers)}"
        self._stops[job] = asyncio.Event()
        self._feed.put(StateSection.JOBS, job, JobState(text, True))
        task = asyncio.create_task(self._run(job, text, command, progress))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    async def _run(self, job: str, text: str, command: tuple[str, ...], progress: _LastLine) -> None:
        """Run a job to its end, or until it is to stop, and show its result."""
        stop = self._stops[job]
        try:
            process = await children.start(
                command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            following = asyncio.create_task(self._follow(job, text, process, progress))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((stopping, following), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not following.done():
                process.terminate()
            await following
            result = progress.result(await process.wait(), stopped=stop.is_set())
        except OSError as error:
            result = f"failed: {error}"
        finally:
            del self._stops[job]
        self._feed.put(StateSection.JOBS, job, JobState(text, False, result, 1.0))
        self._feed.event("transfer", job, f"{text}: {result}")
        asyncio.get_running_loop().call_later(_KEPT_S, self._feed.put, StateSection.JOBS, job, None)

    async def _follow(self, job: str, text: str, process: asyncio.subprocess.Process, progress: _LastLine) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            share = progress.take(line.decode(errors="replace").strip()[:_LONGEST_LINE])
            self._feed.put(StateSection.JOBS, job, JobState(text, True, share=share))


class _LastLine:
    """What a process prints, of which the last line is the result."""

    def __init__(self) -> None:
        self._last = ""

    def take(self, line: str) -> float | None:
        """One line; returns how much is done, None where it does not say."""
        self._last = line or self._last
        return None

    def result(self, status: int, *, stopped: bool) -> str:
        """The result in words, when the process has ended."""
        if stopped:
            return "stopped"
        last = self._last.lstrip("# ") or "it printed nothing"
        return last if status == 0 else f"failed: {last}"


class _WriteProgress(_LastLine):
    """The lines of ``mrc_lab.web.write_worker``."""

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self._nbytes = nbytes
        self._done, self._seconds, self._wrong = 0, 0.0, 0

    def take(self, line: str) -> float | None:
        """Bytes done, seconds, bytes wrong; or what went wrong."""
        words = line.split()
        if len(words) == 3 and words[0].isdecimal() and words[2].isdecimal():
            self._done, self._seconds, self._wrong = int(words[0]), float(words[1]), int(words[2])
        else:
            super().take(line)
        return round(self._done / self._nbytes, 3)

    def result(self, status: int, *, stopped: bool) -> str:
        """How much was written, how fast, and whether it arrived as it was sent."""
        rate = f" at {show_rate(8 * self._done / self._seconds)}" if self._seconds else ""
        checked = f"{self._wrong} bytes WRONG" if self._wrong else "every byte correct"
        done = f"{show_size(self._done)}{rate}, {checked}"
        if stopped:
            return f"stopped after {done}"
        return done if status == 0 else f"failed after {show_size(self._done)}: {self._last or 'it was killed'}"


def all_reduce_words(nbytes: int, fabric: str) -> tuple[str, ...]:
    """The command that an all-reduce from the page is."""
    return ("all_reduce_perf", "-b", str(nbytes), "-n", str(_ITERATIONS), "--fabric", fabric)
