"""Lost ranks of a PyTorch job are named by all others within a second; what costs packets, paths or time loses none."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration.names import own
from tests.integration.torch_job import Job
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup
from topologies.faults.flap import Flap
from topologies.faults.loss import Loss
from topologies.faults.power_off import PowerOff

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install '.[torch]'"
    ),
]

RANKS = 4
# Rank 0 prints how far the sums are; every rank prints what ends them, and when its peers are all known to be lost.
PROGRAM = """
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("mrc")
group, value, number = dist.distributed_c10d._get_default_group(), torch.zeros(5000), 0
try:
    while True:
        dist.all_reduce(value)
        number += 1
        if dist.get_rank() == 0:
            print("sum", number, flush=True)
except dist.DistBackendError as error:
    print("failed", error, flush=True)
while len(group.lost) < int(sys.argv[1]):
    time.sleep(0.01)
print("lost", *(f"{loss.rank}:{loss.host}:{loss.reason.name}" for loss in group.lost), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    name = own("faults")
    try:
        with running(multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=RANKS, rate_bps=100_000_000)) as world:
            yield world
    finally:
        cleanup.clean(name, force=True)


@pytest.fixture
def job(world: EmulatedWorld, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    job = Job(world, tmp_path, PROGRAM, str(getattr(request, "param", 1)))
    try:
        job.go_on(3)
        yield job
    finally:
        job.end()


@pytest.mark.timeout(300)
def test_no_rank_is_lost_by_a_pause_a_dark_plane_loss_or_a_flapping_port(world: EmulatedWorld, job: Job) -> None:
    for _ in range(3):
        job.processes[1].send_signal(signal.SIGSTOP)
        time.sleep(1)  # the pause itself; nothing is waited for
        job.processes[1].send_signal(signal.SIGCONT)
        job.go_on()
    with world.controller() as controller:
        faults = (
            [PowerOff("t0-0@p1"), PowerOff("t0-1@p1")],
            [Loss("*", 0.01)],
            [Flap("h2@p0", down=200_000_000, up=300_000_000)],
            [Flap("h*@p1", down=100_000_000, up=200_000_000, random=True)],
        )
        for several in faults:
            records = [controller.inject(fault) for fault in several]
            began = time.monotonic()
            while time.monotonic() < began + 3:
                job.go_on(1)
            for record in records:
                controller.clear(record.id)
            job.go_on(5)
    assert not any(job.lines(number, "failed") for number in range(RANKS))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("job", [2], indirect=True)
def test_two_killed_ranks_one_of_them_with_the_store_are_named_by_the_others(job: Job) -> None:
    for number in (0, 3):
        job.processes[number].kill()
    for number in (1, 2):
        until(lambda number=number: job.lines(number, "lost"), "both losses to be known")
        assert set(job.lines(number, "lost")[0].split()[1:]) == {"0:h1:GONE", "3:h4:GONE"}
        (failed,) = job.lines(number, "failed")
        assert "is lost: its process has ended" in failed


@pytest.mark.timeout(120)
def test_a_host_without_links_is_named_by_the_others_and_names_itself(world: EmulatedWorld, job: Job) -> None:
    for plane in range(2):
        world.link_down(f"h3@p{plane}")
    try:
        for number in range(RANKS):
            until(lambda number=number: job.lines(number, "lost"), "the loss to be known")
            reason = "ISOLATED" if number == 2 else "SILENT"
            assert job.lines(number, "lost") == [f"lost 2:h3:{reason}"]
    finally:
        for plane in range(2):
            world.link_up(f"h3@p{plane}")


@pytest.mark.timeout(120)
def test_a_host_whose_agent_is_killed_is_named_by_all(world: EmulatedWorld, job: Job) -> None:
    world.emulation.children["h2"].process.send_signal(signal.SIGKILL)
    for number in (0, 2, 3):
        until(lambda number=number: job.lines(number, "lost"), "the loss to be known")
        assert job.lines(number, "lost")[0].startswith("lost 1:h2:")
    until(lambda: job.lines(1, "lost") == ["lost 1:h2:NO_AGENT"], "the rank to know that its NIC is gone")
    world.restart("h2")
