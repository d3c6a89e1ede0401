"""The demo from the command to the result folder.

Bring the fabric up, run the job over RoCE, then over MRC with the same links cut at the same steps, compare the weights
with training in one process, and write everything down. Whatever interrupts it, what is known by then is written.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from mrc_common import strict_json
from mrc_common.units import show_rate
from mrc_common.written_files import write_text
from mrc_host.verbs_types import QpType
from mrc_lab.demo.fabric_interface import World
from mrc_lab.demo.metrics import run_metrics
from mrc_lab.demo.plot import plot_step_times
from mrc_lab.demo.progress import Progress
from mrc_lab.demo.record import RunRecord
from mrc_lab.demo.result_folder import ResultFolder
from mrc_lab.demo.run import DemoRun
from mrc_lab.demo.settings import DemoSettings
from mrc_lab.demo.summary import DemoOutcome, print_summary, summarise
from mrc_lab.workloads.training.data import digits
from mrc_lab.workloads.training.job import WorkerJob
from mrc_lab.workloads.training.sgd import train_alone
from topologies.fabric import Fabric

PASSED, CHECK_FAILED, BROKEN = 0, 1, 3
TRANSPORTS = {"roce": QpType.RC, "mrc": QpType.MRC}


class BuiltWorld(World, Protocol):
    """A world that knows how long it took to come up."""

    @property
    def bring_up(self) -> Mapping[str, float]:
        """Seconds of the whole (``total_s``) and of each phase."""
        ...


WorldMaker = Callable[[Fabric, Path], AbstractContextManager[BuiltWorld]]


@dataclass(slots=True)
class Demo:
    """One demo. `make_world` brings up `fabric` (None: of the settings); `run` does the rest and returns the status.

    `make_world` is also given the result folder.
    """

    settings: DemoSettings
    console: Console
    make_world: WorldMaker
    fabric: Fabric | None = None
    onlooker: Callable[[RunRecord], None] | None = None
    records: dict[str, RunRecord] = field(default_factory=dict)
    bring_up: dict[str, float] = field(default_factory=dict)
    interrupted_by: int | None = None
    broken: bool = False

    def run(self) -> int:
        """0 if all checks passed, 1 if one failed, 3 if a process of the fabric crashed, 128 + signal if interrupted.

        Results are written in any case.

        Raises what bringing the fabric up raises; then there are no results.
        """
        fabric = self.fabric or self.settings.fabric()
        folder = ResultFolder(self.settings.results)
        passed = False
        try:
            with self.make_world(fabric, folder.path) as world:
                self.bring_up = dict(world.bring_up)
                self._print_fabric()
                asyncio.run(self._runs(world, folder.path))
        except KeyboardInterrupt:
            self.interrupted_by = signal.SIGINT
        finally:
            if self.records:
                passed = self._write(fabric, folder)
            else:
                folder.discard()
        if self.interrupted_by is not None:
            return 128 + self.interrupted_by
        if self.broken:
            return BROKEN
        return PASSED if passed else CHECK_FAILED

    def _print_fabric(self) -> None:
        s = self.settings
        self.console.print(
            f"{s.planes} planes x ({s.t0} T0 + {s.t1} T1), {s.hosts} hosts, {show_rate(s.rate_bps)} a link:"
            f" up, programmed and verified in {self.bring_up['total_s']:.2f} s",
            highlight=False,
            soft_wrap=True,
        )

    async def _runs(self, world: World, folder: Path) -> None:
        """Both runs, with the world's own data; ends early on SIGINT or SIGTERM."""
        task = asyncio.current_task()
        assert task is not None
        data = world.scratch / "data.npz"
        links: list[str] = []
        with _signals(lambda number: self._interrupt(number, task)):
            try:
                digits().save(data)
                with Progress(self.console, self.onlooker) as progress:
                    for transport in TRANSPORTS:
                        links = await self._one_run(transport, world, data, folder, links, progress)
                        self.broken = bool(world.crashes())
                        if self.broken:
                            break
            except asyncio.CancelledError:
                if self.interrupted_by is None:
                    raise

    def _interrupt(self, number: int, task: asyncio.Task[Any]) -> None:
        if self.interrupted_by is None:
            self.interrupted_by = number
            task.cancel()

    async def _one_run(
        self, transport: str, world: World, data: Path, folder: Path, links: list[str], progress: Progress
    ) -> list[str]:
        """One run, with `links` cut (chosen by it where not given); returns the links that were cut."""
        weights = folder / f"weights-{transport}"
        weights.mkdir()
        job = WorkerJob(
            plan=self.settings.plan,
            world=self.settings.hosts,
            data=data,
            output=weights,
            qp_type=TRANSPORTS[transport],
            attributes=self.settings.attributes(transport),
        )
        faults = self.settings.faults(links)
        run = DemoRun(transport, world, job, faults, progress, logs=folder, timeout_s=self.settings.timeout_s)
        self.records[transport] = run.record
        record = await run.run()
        return [fault.link for fault in record.faults]

    # Results

    def _write(self, fabric: Fabric, folder: ResultFolder) -> bool:
        """Write the result folder and print the summary; returns whether all checks passed."""
        try:
            outcomes = self._outcomes(fabric, folder.path)
            interrupted = self.interrupted_by is not None
            summary = summarise(self.settings, self.bring_up, outcomes, interrupted=interrupted)
            write_text(folder.path / "summary.json", strict_json.dumps(strict_json.finite(summary), indent=2) + "\n")
            for record in self.records.values():
                record.write(folder.path)
            plot_step_times(list(self.records.values()), folder.path / "step_time.png")
            for log in folder.path.glob("*.log"):
                if not log.stat().st_size:
                    log.unlink()
        finally:
            folder.finish()
        print_summary(self.console, summary, outcomes)
        self.console.print(f"Results: {folder.path}", highlight=False, soft_wrap=True)
        return bool(summary["passed"])

    def _outcomes(self, fabric: Fabric, folder: Path) -> dict[str, DemoOutcome]:
        """Metrics of each run, its weights compared with those of training in one process."""
        alone = ordered = None
        if any(record.complete for record in self.records.values()):
            with threadpool_limits(1):
                data = digits()
                alone = train_alone(self.settings.plan, data)
                ordered = train_alone(self.settings.plan, data, shards=self.settings.hosts)
        outcomes = {}
        for transport, record in self.records.items():
            diff = same = None
            if record.complete and alone is not None and ordered is not None:
                trained = [np.load(path) for path in _weights(folder / f"weights-{transport}")]
                diff = max(float(np.abs(weights - alone).max()) for weights in trained)
                same = all(np.array_equal(weights, ordered) for weights in trained)
                np.save(folder / f"weights-{transport}.npy", trained[0])
            shutil.rmtree(folder / f"weights-{transport}")
            outcomes[transport] = DemoOutcome(record, run_metrics(record, fabric), diff, same)
        return outcomes


@contextmanager
def _signals(handler: Callable[[int], None]) -> Iterator[None]:
    """While in this context the running loop calls `handler` for signals that mean the end."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        loop.add_signal_handler(number, handler, number)
    try:
        yield
    finally:
        for number, previous in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, previous)


def _weights(folder: Path) -> list[Path]:
    """The files of all ranks' weights."""
    return sorted(folder.glob("weights-*.npy"))
