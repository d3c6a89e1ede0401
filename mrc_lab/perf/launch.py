"""Run a performance test on agents: one worker process a rank, and the table from what rank 0 reports.

The workers only need the agents' sockets, which are files, so they are started here and not inside the hosts; the
launcher may therefore itself be run anywhere on the machine, in a host too. It stops all workers as soon as one fails
and when it is interrupted itself; workers whose launcher is gone end by themselves. The socket where they meet is
removed as soon as all have come.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mrc_common import children, strict_json
from mrc_common.written_files import write_text
from mrc_host.verbs.remote.codec import from_json
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.find_fabric import find_fabric
from mrc_lab.perf import table
from mrc_lab.perf.hosts import AgentSocket, find_agents
from mrc_lab.perf.measure import Report, ResultRow
from mrc_lab.perf.options import Options, check_sizes
from mrc_lab.perf.plan import PerfPlan
from mrc_lab.terminal.console import console
from mrc_lab.terminal.progress import LateProgress
from mrc_lab.workloads.collectives.communicator import TransferCounters
from mrc_lab.workloads.collectives.rendezvous import RendezvousServer

_GRACE_S = 5.0  # for workers to end by themselves before they are killed
Echo = Callable[[str], None]


class Launch:
    """One run on `agents`, in rank order; `echo` takes the table line by line."""

    def __init__(self, plan: PerfPlan, step: str, agents: Sequence[AgentSocket], echo: Echo) -> None:
        self._plan = plan
        self._step = step
        self._agents = agents
        self._progress = LateProgress(plan.case, console(stderr=True))
        self._line = echo
        self._devices: dict[int, table.RankDevice] = {}
        self._rows: list[ResultRow] = []
        self._transfer: TransferCounters | None = None
        self._failures: list[str] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of the socket where ranks meet

    def _echo(self, line: str) -> None:
        self._progress.close()
        self._line(line)

    async def run(self) -> Report:
        """Measure and print; raises `ExperimentError` when a rank fails."""
        world = len(self._agents)
        check_sizes(self._plan, world)
        server = RendezvousServer(world, self._on_report)
        self._folder = tempfile.TemporaryDirectory(prefix="mrc-perf-")
        with self._folder as folder:
            meeting = Path(folder) / "meeting"
            await server.start(meeting)
            workers: list[asyncio.subprocess.Process] = []
            try:
                for rank in range(world):
                    worker = await self._start(rank, meeting)
                    workers.append(worker)
                statuses = await _all_or_first_failure(workers)
            finally:
                self._progress.close()
                await _stop(workers)
                await server.everybody_left()
                await server.close()
        if self._failures or any(statuses) or self._transfer is None:
            raise ExperimentError(self._failures[0] if self._failures else await self._last_words(workers, statuses))
        report = Report(tuple(self._rows), self._transfer)
        for line in table.ending(report, self._plan.case):
            self._echo(line)
        return report

    async def _start(self, rank: int, meeting: Path) -> asyncio.subprocess.Process:
        command = children.python(
            "mrc_lab.perf.worker", "--plan", self._plan.to_json(), "--rank", str(rank),
            "--world", str(len(self._agents)), "--agent", str(self._agents[rank].path), "--rendezvous", str(meeting),
        )  # fmt: skip
        return await children.start(command, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)

    def _on_report(self, rank: int, report: Mapping[str, Any]) -> None:
        if report["kind"] == "joined":
            self._devices[rank] = table.RankDevice(report["pid"], self._agents[rank].host, report["nic"])
            if len(self._devices) == len(self._agents):
                assert self._folder is not None
                self._folder.cleanup()  # nobody else comes, and a launcher that is killed would leave it
                devices = [self._devices[each] for each in range(len(self._agents))]
                for line in table.heading(self._plan, self._step, devices):
                    self._echo(line)
        elif report["kind"] == "row":
            self._rows.append(from_json(ResultRow, report["row"]))
            self._echo(table.line(self._rows[-1]))
        elif report["kind"] == "progress":
            self._progress.report(report["share"])
        elif report["kind"] == "done":
            self._transfer = TransferCounters(*report["transfer"])
        else:
            self._failures.append(f"Rank {rank} on {self._agents[rank].host} failed: {report['reason']}")

    async def _last_words(self, workers: Sequence[asyncio.subprocess.Process], statuses: Sequence[int]) -> str:
        """Why the first worker ended that failed without reporting it."""
        failed = [rank for rank, status in enumerate(statuses) if status]
        if not failed:
            return "The ranks ended without a result."
        rank = min(failed, key=lambda each: statuses[each])  # a signal comes before what it entails elsewhere
        stderr = workers[rank].stderr
        lines = (await stderr.read()).decode(errors="replace").splitlines() if stderr else []
        return f"Rank {rank} on {self._agents[rank].host} failed: {lines[-1] if lines else f'status {statuses[rank]}'}"


async def _all_or_first_failure(workers: Sequence[asyncio.subprocess.Process]) -> list[int]:
    """Exit statuses once all have ended, or soon after one has failed."""
    waiting = {asyncio.ensure_future(worker.wait()) for worker in workers}
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(task.result() for task in done):
                break
    finally:
        for task in waiting:
            task.cancel()
    return [worker.returncode or 0 for worker in workers]


async def _stop(workers: Sequence[asyncio.subprocess.Process]) -> None:
    """End those that run."""
    running = [worker for worker in workers if worker.returncode is None]
    for worker in running:
        with contextlib.suppress(ProcessLookupError):
            worker.terminate()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.gather(*(worker.wait() for worker in running)), _GRACE_S)
    for worker in running:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()


def launch(options: Options, echo: Echo) -> Report:
    """Find the agents, run, print with `echo`, write the output file; raises `ExperimentError`."""
    agents = find_agents(find_fabric(options.fabric), options.hosts)
    if options.plan.root >= len(agents):
        raise ExperimentError(f"There is no rank {options.plan.root} among {len(agents)}.", "Give a smaller root (-r).")
    report = asyncio.run(_interruptible(Launch(options.plan, options.step, agents, echo)))
    if options.output is not None:
        value = strict_json.finite(to_json(options.plan, report))
        write_text(options.output, strict_json.dumps(value, indent=2) + "\n")
    return report


def to_json(plan: PerfPlan, report: Report) -> dict[str, Any]:
    """The results as a JSON value: times in ns, bandwidths in byte/s."""
    return {
        "test": f"{plan.case}_perf",
        "plan": json.loads(plan.to_json()),
        "rows": [asdict(row) for row in report.rows],
        "wrong": report.wrong,
        "average_busbw": report.average_bus,
    }


async def _interruptible(run: Launch) -> Report:
    """Ctrl-C and SIGTERM end the run in order."""
    task = asyncio.ensure_future(run.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
