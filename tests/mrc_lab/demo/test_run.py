import asyncio
import time
from dataclasses import replace

import pytest

from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.demo.faults import FaultPlan
from mrc_lab.demo.run import DemoRun
from mrc_lab.workloads.training.data import digits
from mrc_lab.workloads.training.job import WorkerJob
from mrc_lab.workloads.training.sgd import TrainingPlan
from tests.mrc_lab.demo.records import FABRIC
from tests.mrc_lab.demo.world import FakeWorld
from tests.waiting import until_async
from topologies.emulation.process_watch import Crash
from topologies.fabric import LinkKind


class Watcher:
    def __init__(self):
        self.marks = []
        self.reports = 0

    def progress(self, record):
        self.reports += 1

    def mark(self, record, text):
        self.marks.append(text)


@pytest.fixture
def job(tmp_path):
    digits().save(tmp_path / "data.npz")
    return WorkerJob(
        plan=TrainingPlan(steps=30, hidden=(16,)),
        world=4,
        data=tmp_path / "data.npz",
        output=tmp_path,
        qp_type=QpType.RC,
        attributes=QpAttributes(),
        pattern_every=10,
        pattern_bytes=500,
        status_interval_s=0.02,
    )


def execute(run):
    return asyncio.run(asyncio.wait_for(run.run(), 60))


def test_a_run_without_faults_completes(tmp_path, job):
    watcher = Watcher()
    run = DemoRun("roce", FakeWorld(FABRIC, tmp_path), job, (), watcher, logs=tmp_path)
    record = execute(run)
    assert record.complete
    assert record.failures == []
    assert record.completed_steps == 30
    assert record.pattern_checked == 4 * 3 * 500 * 5  # before, after 10, 20 and 30 steps, at the end
    assert record.pattern_wrong == 0
    assert all(
        status["transfer"]["wrong_bytes"] == 0 < status["transfer"]["bytes"] for status in record.status.values()
    )
    assert watcher.reports > 4 * 30
    assert len(list(tmp_path.glob("weights-*.npy"))) == 4


def test_faults_follow_their_steps_on_the_busiest_links_and_are_repaired(tmp_path, job):
    world = FakeWorld(FABRIC, tmp_path)
    faults = (FaultPlan(LinkKind.T0_T1, 14, 0.3), FaultPlan(LinkKind.NIC_T0, 22, 0.2))
    record = execute(DemoRun("roce", world, job, faults, Watcher(), logs=tmp_path))
    first, second = (("t0-0:t1-1@p0"), ("h2@p1"))
    assert world.commands == [("link_down", first), ("link_up", first), ("link_down", second), ("link_up", second)]
    assert [f.link for f in record.faults] == [first, second]
    assert record.faults[0].step >= 14
    assert record.faults[1].step >= 22
    assert record.faults[0].link_up_ns - record.faults[0].link_down_ns >= 0.3e9
    assert record.complete


def test_a_link_comes_up_in_time_for_the_last_steps_and_before_the_next_cut(tmp_path, job):
    """However slow a machine's commands are, or quick its steps."""
    world = FakeWorld(FABRIC, tmp_path, step_seconds=0.01)
    faults = (FaultPlan(LinkKind.T0_T1, 14, 60, by_step=20), FaultPlan(LinkKind.NIC_T0, 20, 60, by_step=25))
    record = execute(DemoRun("mrc", world, replace(job, qp_type=QpType.MRC), faults, Watcher(), logs=tmp_path))
    assert record.complete
    assert [what for what, _ in world.commands] == ["link_down", "link_up", "link_down", "link_up"]
    assert all(cut.link_up_ns is not None for cut in record.faults)


def test_a_run_ends_only_when_the_link_that_is_coming_up_is_up(tmp_path, job):
    world = FakeWorld(FABRIC, tmp_path)
    link_up = world.link_up

    def slow_link_up(link):
        time.sleep(0.5)  # as on a busy machine, while the last steps are made
        return link_up(link)

    world.link_up = slow_link_up
    faults = (FaultPlan(LinkKind.T0_T1, 22, 60, by_step=25),)
    record = execute(DemoRun("mrc", world, replace(job, qp_type=QpType.MRC), faults, Watcher(), logs=tmp_path))
    assert record.complete
    assert record.faults[0].link_up_ns is not None
    assert [what for what, _ in world.commands] == ["link_down", "link_up"]


def test_given_links_are_taken_down_instead_of_the_busiest(tmp_path, job):
    world = FakeWorld(FABRIC, tmp_path)
    record = execute(
        DemoRun("roce", world, job, (FaultPlan(LinkKind.T0_T1, 2, 0.1, "t0-1:t1-3@p1"),), Watcher(), logs=tmp_path)
    )
    assert [f.link for f in record.faults] == ["t0-1:t1-3@p1"]


def test_a_failing_rank_ends_the_run_with_its_message(tmp_path, job):
    world = FakeWorld(FABRIC, tmp_path)
    world.fail_rank = 2
    record = execute(DemoRun("mrc", world, job, (), Watcher(), logs=tmp_path))
    assert not record.complete
    assert any("rank 2 ended with status 1: the dog ate the gradients" in why for why in record.failures)


def test_a_fabric_crash_ends_the_run_at_once_without_repairing_links(tmp_path, job):
    world = FakeWorld(FABRIC, tmp_path, step_seconds=0.02)
    crash = Crash("switches", 42, 0.0, "was killed by SIGKILL", "")
    real_link_down = world.link_down

    def link_down(link):
        world.dead = (crash,)
        return real_link_down(link)

    world.link_down = link_down
    record = execute(DemoRun("mrc", world, job, (FaultPlan(LinkKind.T0_T1, 10, 60),), Watcher(), logs=tmp_path))
    assert record.failures == [str(crash)], "not a timeout"
    assert [what for what, _ in world.commands] == ["link_down"]


def test_a_run_without_progress_is_aborted(tmp_path, job):
    world = FakeWorld(FABRIC, tmp_path)
    world.hang = True
    record = execute(DemoRun("mrc", world, job, (), Watcher(), logs=tmp_path, timeout_s=0.5))
    assert record.failures == ["no step was completed for 0.5 s"]
    assert not record.complete


def test_cancelling_brings_the_link_up_and_keeps_the_record(tmp_path, job):
    world = FakeWorld(FABRIC, tmp_path)

    async def main():
        run = DemoRun("roce", world, job, (FaultPlan(LinkKind.T0_T1, 12, 30.0),), Watcher(), logs=tmp_path)
        task = asyncio.ensure_future(run.run())
        await until_async(lambda: world.commands, "the first fault")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return run.record

    record = asyncio.run(asyncio.wait_for(main(), 60))
    assert [c[0] for c in world.commands] == ["link_down", "link_up"]
    assert record.interrupted
    assert record.completed_steps >= 12


def test_a_fault_that_cannot_be_injected_ends_the_run(tmp_path, job):
    world = FakeWorld(FABRIC, tmp_path)
    world.step_seconds = 0.05

    def refuse(link):
        raise RuntimeError("the controller is gone")

    world.link_down = refuse
    record = execute(
        DemoRun("mrc", world, job, (FaultPlan(LinkKind.T0_T1, 2, 1.0, "t0-0:t1-0@p0"),), Watcher(), logs=tmp_path)
    )
    assert record.failures == ["a fault could not be made: the controller is gone"]
