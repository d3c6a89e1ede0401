"""A rank of the training job, a process on a host of the fabric.

It opens the host's NIC through the agent's socket, joins the ring, and trains. The only thing it shares with the
other ranks besides the ring is the rendezvous, where it also reports, as one JSON object each: ``joined``,
``pattern``, ``step``, ``status`` (counters and paths), ``path``, ``port`` and ``qp`` (events of the NIC), and
``done`` or ``failed``. Times are CLOCK_MONOTONIC nanoseconds, the same clock on all hosts of one machine. Started as
``python -m mrc_lab.workloads.training.worker --job FILE --rank R --agent SOCKET --rendezvous SOCKET``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import enum
import os
import signal
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.verbs import Context
from mrc_host.verbs_types import AsyncEvent, PathEvent, PathState, PortEvent, SlowPortEvent
from mrc_lab.errors import ExperimentError
from mrc_lab.workloads.collectives.rendezvous import Rendezvous
from mrc_lab.workloads.collectives.ring import Ring
from mrc_lab.workloads.collectives.verify import verify_pattern
from mrc_lab.workloads.training.data import Dataset
from mrc_lab.workloads.training.job import WorkerJob
from mrc_lab.workloads.training.sgd import Trainer

Clock = Callable[[], int]


class Worker:
    """A rank at work on `device`; `clock` gives nanoseconds."""

    def __init__(
        self, job: WorkerJob, device: Context, rendezvous: Rendezvous, clock: Clock = time.monotonic_ns
    ) -> None:
        self._job = job
        self._device = device
        self._rendezvous = rendezvous
        self._clock = clock
        self._trainer = Trainer(job.plan, Dataset.load(job.data))
        self._pattern_round = 0

    async def run(self) -> None:
        """Join, train to the end, leave the weights in the output folder."""
        settings = self._job.ring_settings(8 * self._trainer.vector_size)
        ring = await Ring.join(self._device, self._rendezvous, settings)
        to_next, to_previous = ring.pairs
        self._report("joined", to_next=to_next.qpn, to_previous=to_previous.qpn)
        watchers = [asyncio.ensure_future(watch) for watch in (self._watch_events(), self._watch_status(ring))]
        try:
            await self._train(ring)
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)

    async def _train(self, ring: Ring) -> None:
        await self._verify(ring)
        for step in range(self._job.plan.steps):
            await self._step(ring, step)
            if self._job.pattern_every and (step + 1) % self._job.pattern_every == 0:
                await self._verify(ring)
        await self._verify(ring)
        await ring.drain()
        await self._rendezvous.gather("finished", True)
        await self._finish(ring)

    async def _step(self, ring: Ring, step: int) -> None:
        begin = self._clock()
        vector = self._trainer.contribution(step, ring.rank, ring.world)
        computed = self._clock()
        await ring.all_reduce(vector)
        result = self._trainer.apply(vector)
        self._report(
            "step",
            step=step,
            begin_ns=begin,
            end_ns=self._clock(),
            compute_ns=computed - begin,
            loss=result.loss,
            accuracy=result.accuracy,
            crc=result.crc,
        )
        await asyncio.sleep(0)  # lets the watchers speak

    async def _verify(self, ring: Ring) -> None:
        outcome = await verify_pattern(ring, self._pattern_round, self._job.pattern_bytes)
        self._report("pattern", round=self._pattern_round, checked=outcome.checked, wrong=outcome.wrong)
        self._pattern_round += 1

    async def _finish(self, ring: Ring) -> None:
        weights = self._trainer.parameters
        np.save(self._job.output / f"weights-{ring.rank}.npy", weights)
        self._report_status(ring)
        score = self._trainer.held_out()
        self._report("done", weights_crc=zlib.crc32(weights.tobytes()), held_out_correct=score.correct)

    async def _watch_status(self, ring: Ring) -> None:
        while True:
            self._report_status(ring)
            await asyncio.sleep(self._job.status_interval_s)

    def _report_status(self, ring: Ring) -> None:
        counters: Counter[str] = Counter()
        for pair in ring.pairs:
            counters.update(dataclasses.asdict(pair.counters()))
        paths = ring.pairs[0].paths()
        in_use = sum(path.active and path.state in (PathState.GOOD, PathState.SKIP) for path in paths)
        self._report(
            "status",
            counters=dict(counters),
            transfer=dataclasses.asdict(ring.transfer),
            paths_in_use=in_use,
            paths=len(paths),
            time_ns=self._clock(),
        )

    async def _watch_events(self) -> None:
        while True:
            event = await self._device.next_event()
            self._report(_event_kind(event), **to_json(event))

    def _report(self, kind: str, **values: Any) -> None:
        self._rendezvous.report({"kind": kind, **values})


def _event_kind(event: AsyncEvent) -> str:
    if isinstance(event, PathEvent):
        return "path"
    if isinstance(event, SlowPortEvent):
        return "slow_port"
    return "port" if isinstance(event, PortEvent) else "qp"


def to_json(event: AsyncEvent) -> dict[str, Any]:
    """An event as a JSON object: enums by value, addresses in hexadecimal."""
    return {name: _plain(value) for name, value in dataclasses.asdict(event).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    return value.hex() if isinstance(value, bytes) else value


async def work(job: WorkerJob, rank: int, agent: Path, rendezvous_path: Path) -> None:
    """Open the NIC, meet the others, and do rank's part of the job."""
    rendezvous = await Rendezvous.connect(rendezvous_path, rank, job.world)
    try:
        with verbs.open(str(agent)) as device:
            await Worker(job, device, rendezvous).run()
    except BaseException as error:
        rendezvous.report({"kind": "failed", "reason": str(error) or type(error).__name__})
        await rendezvous.flush()
        rendezvous.abandon()
        raise
    await rendezvous.close()


async def _until_terminated(job: WorkerJob, rank: int, agent: Path, rendezvous: Path) -> None:
    task = asyncio.ensure_future(work(job, rank, agent, rendezvous))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def main() -> int:
    """Command line; returns 0 if the job was done, else 1 with a message on stderr."""
    parser = argparse.ArgumentParser(description="One rank of the training job.")
    parser.add_argument("--job", type=Path, required=True, help="the job's JSON file")
    parser.add_argument("--rank", type=int, required=True, help="number of this rank, from 0")
    parser.add_argument("--agent", type=Path, required=True, help="socket of the host's NIC agent")
    parser.add_argument("--rendezvous", type=Path, required=True, help="socket of the coordinator")
    parser.add_argument("--log", type=Path, help="file that takes what would go to the terminal")
    options = parser.parse_args()
    if options.log is not None:
        with options.log.open("ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides when to stop
    try:
        with threadpool_limits(1):  # one rank, one core; and the same bits wherever it runs
            job = WorkerJob.load(options.job)
            asyncio.run(_until_terminated(job, options.rank, options.agent, options.rendezvous))
    except (ExperimentError, MrcError, OSError, ValueError) as error:
        print(f"rank {options.rank}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
