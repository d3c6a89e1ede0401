"""A rank of a performance test, a process: ``python -m mrc_lab.perf.worker``.

It opens its host's NIC through the agent's socket, meets the others at the launcher's rendezvous, measures, and reports
there: rank 0 its lines and the result, any rank why it failed. It ends when the launcher or another rank is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError, RendezvousError
from mrc_lab.perf.measure import Report, ResultRow, run_rank
from mrc_lab.perf.plan import PerfPlan
from mrc_lab.workloads.collectives.rendezvous import Rendezvous

_PROGRESS_S = 0.5


async def work(plan: PerfPlan, rank: int, world: int, agent: str, meeting: Path) -> None:
    """Do `rank`'s part of `plan`."""
    rendezvous = await Rendezvous.connect(meeting, rank, world)
    try:
        await _measure(plan, rendezvous, agent)
    except BaseException as error:
        if not isinstance(error, RendezvousError):  # that one is the consequence of another rank's failure
            rendezvous.report({"kind": "failed", "reason": str(error) or type(error).__name__})
            await rendezvous.flush()
        rendezvous.abandon()
        raise
    await rendezvous.close()


async def _measure(plan: PerfPlan, rendezvous: Rendezvous, agent: str) -> None:
    def on_row(row: ResultRow) -> None:
        if rendezvous.rank == 0:
            rendezvous.report({"kind": "row", "row": asdict(row)})

    reported = time.monotonic()

    def on_progress(share: float) -> None:
        nonlocal reported
        if rendezvous.rank == 0 and time.monotonic() - reported > _PROGRESS_S:
            reported = time.monotonic()
            rendezvous.report({"kind": "progress", "share": share})

    with verbs.open(agent) as device:
        rendezvous.report({"kind": "joined", "pid": os.getpid(), "nic": device.name})
        measuring = asyncio.ensure_future(run_rank(device, rendezvous, plan, on_row=on_row, on_progress=on_progress))
        lost = asyncio.ensure_future(rendezvous.broken())
        try:
            await asyncio.wait((measuring, lost), return_when=asyncio.FIRST_COMPLETED)
            if not measuring.done():
                raise RendezvousError(lost.result())
            _report(rendezvous, measuring.result())
            await rendezvous.gather("finished", True)
        finally:
            for task in (measuring, lost):
                task.cancel()
            await asyncio.gather(measuring, lost, return_exceptions=True)


def _report(rendezvous: Rendezvous, report: Report) -> None:
    if rendezvous.rank == 0:
        transfer = report.transfer
        figures = [transfer.chunks, transfer.bytes, transfer.wrong_chunks, transfer.wrong_bytes]
        rendezvous.report({"kind": "done", "transfer": figures})


def main() -> int:
    """Command line; returns 0 if the rank's part was done, else 1 with a message on stderr."""
    parser = argparse.ArgumentParser(description="One rank of a performance test.")
    parser.add_argument("--plan", type=PerfPlan.from_json, required=True, help="the plan as JSON")
    parser.add_argument("--rank", type=int, required=True, help="number of this rank, from 0")
    parser.add_argument("--world", type=int, required=True, help="number of ranks")
    parser.add_argument("--agent", required=True, help="socket of the host's NIC agent")
    parser.add_argument("--rendezvous", type=Path, required=True, help="socket of the launcher")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides when to stop
    try:
        asyncio.run(work(options.plan, options.rank, options.world, options.agent, options.rendezvous))
    except (ExperimentError, MrcError, OSError, ValueError) as error:
        print(f"rank {options.rank}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
