"""Transfers of the page as processes: how far they are, how they end, and that they can be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.web import jobs as jobs_module
from mrc_lab.web.feed import Feed
from mrc_lab.web.jobs import MAX_JOBS, Jobs
from mrc_lab.web.records import FabricLayout, JobState, StateSection
from tests.waiting import until_async
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("lab", hosts=2, planes=1, t0=2, t1=2, rate_bps=10**9)


class World:
    """Jobs whose processes are a script."""

    def __init__(self) -> None:
        self.feed = Feed(FabricLayout(FABRIC))
        self.jobs = Jobs(self.feed, lambda host: f"/run/{host}.sock", "lab")

    def state(self, job: str) -> JobState:
        state = self.feed.section(StateSection.JOBS)[job]
        assert isinstance(state, JobState)
        return state

    async def ended(self, job: str) -> JobState:
        await until_async(lambda: not self.state(job).running, "the job to end")
        return self.state(job)


def run(monkeypatch: pytest.MonkeyPatch, script: str, work: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    monkeypatch.setattr(jobs_module.children, "python", lambda *words: ("sh", "-c", script, *words))

    async def inside() -> None:
        world = World()
        try:
            await work(world)
        finally:
            await world.jobs.close()

    asyncio.run(inside())


def test_write_reports_its_rate_and_that_every_byte_was_right(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        state = await world.ended(world.jobs.write("h1", "h2", 4 << 20))
        assert state.result == "4 MiB at 16.78 Mb/s, every byte correct"

    run(monkeypatch, "echo 2097152 1.0 0; echo 4194304 2.0 0", work)


def test_wrong_bytes_are_not_called_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        assert "3 bytes WRONG" in (await world.ended(world.jobs.write("h1", "h2", 1 << 20))).result

    run(monkeypatch, "echo 1048576 1.0 3", work)


def test_write_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        state = await world.ended(world.jobs.write("h1", "h2", 4 << 20))
        assert state.result == "failed after 2 MiB: No agent answers."

    run(monkeypatch, "echo 2097152 1.0 0; echo No agent answers.; exit 1", work)


def test_write_that_makes_no_progress_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        job = world.jobs.write("h1", "h2", 4 << 20)
        await until_async(lambda: world.state(job).share == 0.5, "half of it")
        world.jobs.stop(job)
        assert (await world.ended(job)).result == "stopped after 2 MiB at 16.78 Mb/s, every byte correct"
        with pytest.raises(ExperimentError, match="ended already"):
            world.jobs.stop(job)

    run(monkeypatch, "echo 2097152 1.0 0; exec sleep 1000", work)


def test_all_reduce_shows_the_last_line_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        assert (await world.ended(world.jobs.all_reduce(1 << 20))).result == "Avg bus bandwidth : 0.02"

    run(monkeypatch, "echo table; echo '# Avg bus bandwidth : 0.02'; echo", work)


def test_too_many_transfers_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        jobs = [world.jobs.write("h1", "h2", 1 << 20) for _ in range(MAX_JOBS)]
        with pytest.raises(ExperimentError, match="stop one"):
            world.jobs.all_reduce(1)
        world.jobs.stop(jobs[0])
        await world.ended(jobs[0])
        world.jobs.all_reduce(1)

    run(monkeypatch, "exec sleep 1000", work)
