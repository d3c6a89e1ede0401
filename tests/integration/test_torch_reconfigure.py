"""Ranks of a PyTorch program form new groups on a fabric, without a restart: survivors go on, and a process returns."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_host import verbs
from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration.names import own
from tests.integration.torch_job import Job
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install '.[torch]'"
    ),
]

RANKS = 4
# Every process that has joined knows the members by their handles; who comes later asks rank 0 over the store.
PROGRAM = """
import json, os, sys, time, torch, torch.distributed as dist
from mrc_lab.torch.options import GroupOptions, ReconfigureOptions

torch.set_num_threads(1)
rank, world, process = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "PROCESS"))
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=process == 0)
options = GroupOptions(enable_reconfigure=True)
dist.init_process_group("mrc", store=store, rank=rank, world_size=world, pg_options=options)
group = dist.distributed_c10d._get_default_group()
handle = group.get_reconfigure_handle()
store.set(f"handle/{process}", handle)
if process < world:
    uuid, handles = 0, [store.get(f"handle/{number}").decode() for number in range(world)]
else:
    store.set("comes", handle)
    uuid, handles = json.loads(store.get("invited"))

def reconfigure():
    group.reconfigure(ReconfigureOptions(uuid, handles)).wait()
    print("formed", uuid, dist.get_rank(), dist.get_world_size(), time.monotonic_ns(), flush=True)

reconfigure()
value, sums = torch.zeros(2), 0
while True:
    try:
        value[:] = torch.tensor([1.0, float(dist.get_rank() == 0 and uuid == 1 and store.check(["comes"]))])
        dist.all_reduce(value)
        assert value[0] == len(handles), (value, handles)
        sums += 1
        if process == 0:
            print("sum", sums, flush=True)
        if value[1]:  # rank 0 has seen somebody who comes
            uuid, handles = uuid + 1, [*handles, store.get("comes").decode()]
            if dist.get_rank() == 0:
                store.set("invited", json.dumps([uuid, handles]))
            reconfigure()
    except dist.DistBackendError as error:
        print("failed", time.monotonic_ns(), error, flush=True)
        lost = {loss.rank for loss in group.lost}
        uuid, handles = uuid + 1, [each for number, each in enumerate(handles) if number not in lost]
        reconfigure()
"""


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    name = own("reconf")
    try:
        with running(multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=RANKS, rate_bps=100_000_000)) as world:
            yield world
    finally:
        cleanup.clean(name, force=True)


def queue_pairs(world: EmulatedWorld, host: str) -> int:
    with verbs.open(world.emulation.socket(host)) as context:
        return context.hw_counters()["queue_pairs"]


@pytest.mark.timeout(180)
def test_survivors_go_on_without_a_killed_rank_and_another_process_takes_its_place(
    world: EmulatedWorld, tmp_path: Path
) -> None:
    job = Job(world, tmp_path, PROGRAM)
    try:
        job.go_on()
        job.processes[2].kill()
        for process in (0, 1, 3):
            until(lambda process=process: len(job.lines(process, "formed")) == 2, "the survivors to form a group")
            (failed,) = job.lines(process, "failed")
            assert "rank 2 (h3) is lost: its process has ended" in failed
        job.go_on()
        until(lambda: queue_pairs(world, "h1") == 5 * 2, "the queue pairs of the old group to be destroyed")
        assert queue_pairs(world, "h3") == 0
        comes = job.start(2)
        for process in (0, 1, 3, comes):
            until(lambda process=process: job.lines(process, "formed 2"), "the group to have four members again")
        assert job.lines(comes, "formed")[0].split()[1:4] == ["2", "3", "4"], "it is the last rank"
        job.go_on()
        assert len(job.lines(0, "failed")) == 1
        assert queue_pairs(world, "h1") == 5 * 3
    finally:
        job.end()
