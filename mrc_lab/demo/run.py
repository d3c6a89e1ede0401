"""A run of the job over one transport: start a worker per host, make the faults, gather the reports, end it.

Everything happens in one asyncio loop; commands to the fabric, which block, go to a thread. A run ends when all workers
have, when one fails, when a process of the fabric crashes, or when no step completes for `timeout_s`. A link that is
still down is brought up again, unless the fabric is broken.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mrc_lab.demo.fabric_interface import WorkerProcess, World
from mrc_lab.demo.faults import FaultPlan, LinkCut, busiest_link
from mrc_lab.demo.record import RunRecord
from mrc_lab.demo.settings import PROBE_FROM, PROBE_STEPS
from mrc_lab.fabric.cpu_idle import sample_idle
from mrc_lab.workloads.collectives.rendezvous import RendezvousServer
from mrc_lab.workloads.training.job import WorkerJob

_POLL_S = 0.1
_GRACE_S = 5.0  # for a worker that was asked to end


class Audience(Protocol):
    """Who watches a run."""

    def progress(self, record: RunRecord) -> None:
        """Something was reported."""
        ...

    def mark(self, record: RunRecord, text: str) -> None:
        """Something happened that deserves a line of its own."""
        ...


class DemoRun:
    """One run; `record` is filled as it goes and is valid at any time.

    `logs` (a folder that exists) takes the workers' logs.
    """

    def __init__(
        self,
        transport: str,
        world: World,
        job: WorkerJob,
        faults: Sequence[FaultPlan],
        audience: Audience,
        *,
        logs: Path,
        timeout_s: float = 30.0,
    ) -> None:
        self._world = world
        self._job = job
        self._faults = faults
        self._audience = audience
        self._logs = logs
        self._timeout_s = timeout_s
        hosts = tuple(nic.name for nic in world.fabric.nics)
        self.record = RunRecord(transport, hosts, job.plan.steps, time.monotonic_ns())
        self._completed = -1  # last step that all ranks completed
        self._last_progress = time.monotonic()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._workers: dict[int, WorkerProcess] = {}
        self._lost: list[int] = []  # ranks that left without a word, first one first
        self._down_link: str | None = None

    async def run(self) -> RunRecord:
        """Run, and record the results. Cancelling ends the run early and marks it interrupted."""
        server = RendezvousServer(self._job.world, self._on_report, self._on_leave)
        cpu_before = self._world.cpu_seconds()
        side_tasks = [asyncio.ensure_future(sample_idle(self.record.cpu_idle.append))]
        try:
            rendezvous = self._world.scratch / f"{self.record.transport}.sock"
            await server.start(rendezvous)
            self._launch(rendezvous)
            faults = asyncio.ensure_future(self._make_faults())
            side_tasks.append(faults)
            await self._supervise(faults)
        except asyncio.CancelledError:
            self.record.interrupted = True
            raise
        finally:
            self.record.ended_ns = time.monotonic_ns()
            self.record.cpu_seconds = self._world.cpu_seconds() - cpu_before
            for task in side_tasks:
                task.cancel()
            await asyncio.gather(*side_tasks, return_exceptions=True)
            await self._end_workers()
            await server.close()
            if self._down_link is not None and not self._world.crashes():
                await asyncio.to_thread(self._world.link_up, self._down_link)
        return self.record

    def _launch(self, rendezvous: Path) -> None:
        job = self._world.scratch / f"{self.record.transport}-job.json"
        self._job.save(job)
        for rank, host in enumerate(self.record.hosts):
            self._workers[rank] = self._world.launch_worker(host, rank, job, rendezvous, self._log(rank))

    def _log(self, rank: int) -> Path:
        return self._logs / f"{self.record.transport}-worker-{rank}.log"

    async def _supervise(self, faults: asyncio.Future[None]) -> None:
        """Return when all workers ended well, or write down why the run failed."""
        while True:
            statuses = {rank: worker.poll() for rank, worker in self._workers.items()}
            for crash in self._world.crashes():
                self._fail(str(crash))
            if self.record.failures:
                return
            if all(status == 0 for status in statuses.values()):
                await asyncio.wait((faults,), timeout=self._timeout_s)  # a link that is just coming up
                return
            if any(status not in (None, 0) for status in statuses.values()):
                await self._blame()
                return
            if time.monotonic() - self._last_progress > self._timeout_s:
                self._fail(f"no step was completed for {self._timeout_s:g} s")
                return
            if faults.done() and faults.exception() is not None:
                self._fail(f"a fault could not be made: {faults.exception()}")
                return
            await asyncio.sleep(_POLL_S)

    async def _blame(self) -> None:
        """Name the rank that failed first: the others fail because of it."""
        failed = next(iter(self._lost), next(r for r, w in self._workers.items() if w.poll() not in (None, 0)))
        deadline = time.monotonic() + _GRACE_S
        while (status := self._workers[failed].poll()) is None and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_S)
        self._fail(f"rank {failed} ended with status {status}{self._last_words(failed)}")

    def _on_leave(self, rank: int, orderly: bool) -> None:
        if not orderly:
            self._lost.append(rank)

    def _fail(self, why: str) -> None:
        self.record.failures.append(why)
        self._audience.mark(self.record, why)

    def _last_words(self, rank: int) -> str:
        """Last line of a worker's log, which says why it ended."""
        log = self._log(rank)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return f": {lines[-1].removeprefix(f'rank {rank}: ')}" if lines else ""

    async def _end_workers(self) -> None:
        """Ask those that still run to end, then make them."""
        for worker in self._workers.values():
            if worker.poll() is None:
                worker.terminate()
        deadline = time.monotonic() + _GRACE_S
        while any(worker.poll() is None for worker in self._workers.values()) and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_S)
        for worker in self._workers.values():
            if worker.poll() is None:
                worker.kill()

    def _on_report(self, rank: int, report: Mapping[str, Any]) -> None:
        self.record.take(rank, report)
        if report["kind"] == "joined":
            self._last_progress = time.monotonic()
        if report["kind"] == "step":
            while len(self.record.steps.get(self._completed + 1, ())) == self._job.world:
                self._completed += 1
                self._last_progress = time.monotonic()
            self._wake()
        self._audience.progress(self.record)

    def _wake(self) -> None:
        due = [future for step, future in self._waiting if step <= self._completed and not future.done()]
        self._waiting = [(step, future) for step, future in self._waiting if step > self._completed]
        for future in due:
            future.set_result(None)

    async def _reached(self, step: int) -> None:
        """Wait until all ranks completed `step`."""
        if step > self._completed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((step, future))
            await future

    async def _make_faults(self) -> None:
        links = await self._choose_links()
        for fault, link in zip(self._faults, links, strict=True):
            await self._reached(fault.at_step)
            step = self._completed
            self._down_link = link
            link_down_ns = await asyncio.to_thread(self._world.link_down, link)
            record = LinkCut(fault.kind, link, step, link_down_ns)
            self.record.faults.append(record)
            self._audience.mark(self.record, f"{link} down after step {record.step}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reached(fault.by_step), fault.duration_s)
            record.link_up_ns = await asyncio.to_thread(self._world.link_up, link)
            self._down_link = None
            self._audience.mark(self.record, f"{link} up")

    async def _choose_links(self) -> list[str]:
        """The links to cut: those given, and for the rest the busiest of the first steps."""
        if all(fault.link is not None for fault in self._faults):
            return [fault.link for fault in self._faults if fault.link is not None]
        await self._reached(PROBE_FROM)
        before = await asyncio.to_thread(self._world.link_bytes)
        await self._reached(PROBE_FROM + PROBE_STEPS)
        after = await asyncio.to_thread(self._world.link_bytes)
        fabric = self._world.fabric
        return [fault.link or busiest_link(fabric, fault.kind, before, after) for fault in self._faults]
