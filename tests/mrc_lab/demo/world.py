"""A world without a network: workers are coroutines over memory that is copied, cutting the right link stops them."""

import asyncio
import contextlib
import time

from mrc_host.verbs_types import PathEvent, PathReason, PathState, QpType
from mrc_lab.workloads.collectives.rendezvous import Rendezvous
from mrc_lab.workloads.training.job import WorkerJob
from mrc_lab.workloads.training.worker import Worker
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork
from topologies.addressing import entropy_value

STALLED_STEPS = 12


class FakeWorker:
    def __init__(self, coroutine):
        self.task = asyncio.ensure_future(coroutine)

    def poll(self):
        if not self.task.done():
            return None
        return 1 if self.task.cancelled() or self.task.exception() else 0

    def terminate(self):
        self.task.cancel()

    kill = terminate


class FakeWorld:
    """`busiest` are the links that carry traffic. RoCE stops while one is cut; MRC loses the path and has it back."""

    def __init__(
        self, fabric, scratch, busiest=("t0-0:t1-1@p0", "h2@p1"), seed=1, step_seconds=0.0, stalled_steps=STALLED_STEPS
    ):
        self.stalled_steps = stalled_steps  # for how many RoCE stalls with a link
        self.fabric = fabric
        self.scratch = scratch
        self.bring_up = {"total_s": 1.5, "ready_s": 1.0}
        self.busiest = busiest
        self.seed = seed
        self.commands = []
        self.network = FakeNetwork(seed)
        self.loop = None
        self.qp_type = None
        self.fail_rank = None
        self.hang = False
        self.dead = ()
        self.step_seconds = step_seconds

    def launch_worker(self, host, rank, job, rendezvous, log):
        if rank == 0:
            self.network = FakeNetwork(self.seed)
            self.network.stalled = self.hang
            self.loop = asyncio.get_running_loop()
        log.write_text("")
        return FakeWorker(self._work(WorkerJob.load(job), rank, self.network.device(rank), rendezvous, log))

    async def _work(self, job, rank, device, path, log):
        self.qp_type = job.qp_type
        rendezvous = await Rendezvous.connect(path, rank, job.world)
        try:
            if rank == self.fail_rank:
                log.write_text("first line\nthe dog ate the gradients\n")
                raise RuntimeError("the dog ate the gradients")
            worker = Worker(job, device, rendezvous)
            plain_step = worker._step  # private: a worker has no hook between its steps, nor should it

            async def slow_step(ring, step):
                await plain_step(ring, step)
                await asyncio.sleep(self.step_seconds)

            worker._step = slow_step
            await worker.run()
            await rendezvous.close()
        except BaseException:
            rendezvous.abandon()
            raise

    def link_bytes(self):
        return {name: self.network.placed_bytes * (5 - number) for number, name in enumerate(self.busiest)}

    def cpu_seconds(self):
        return time.process_time()

    def crashes(self):
        return self.dead

    def link_down(self, link):
        self.commands.append(("link_down", link))
        now = time.monotonic_ns()
        self.loop.call_soon_threadsafe(self._set, True, link, now)
        return now

    def link_up(self, link):
        """The link comes up; to RoCE only after the time of some steps, however busy the machine is."""
        self.commands.append(("link_up", link))
        if self.network.stalled:
            asyncio.run_coroutine_threadsafe(self._let_steps_pass(), self.loop).result()
        now = time.monotonic_ns()
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._set, False, link, now)
        return now

    async def _let_steps_pass(self):
        for _ in range(self.stalled_steps):
            await asyncio.sleep(self.step_seconds)

    def _set(self, down, link, now):
        """The NIC's event is of `now`, when the link changed, however late a busy machine gets here."""
        if self.qp_type is QpType.RC:
            self.network.stalled = down
            return
        # The path from h2 (rank 1) to its next neighbour that crosses the link.
        plane = int(link[-1])
        ev = entropy_value(plane, int(link.split("t1-")[1][0]) if ":" in link else 0)
        states = (PathState.GOOD, PathState.ASSUMED_BAD)
        reason = PathReason.LOSS if down else PathReason.PROBE
        qpn = 16 + 2  # second device's first queue pair, if ranks join in order
        for key, pair in self.network.pairs.items():
            if key[0] == self.network.devices[1].nic:
                qpn = pair.address.qpn
                break
        old, new = states if down else reversed(states)
        event = PathEvent(now, qpn, ev, plane, old, new, reason, now - 700_000 if down else None)
        self.network.devices[1].events.put_nowait(event)
