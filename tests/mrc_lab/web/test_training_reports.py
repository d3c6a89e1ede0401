"""Reports of training, as lines that another process writes."""

from __future__ import annotations

import asyncio
import os

import pytest

from mrc_lab.fabric.live_view import LiveViewProcess, TrainingState
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import FabricLayout, StateSection
from mrc_lab.web.training_reports import TrainingReports
from tests.waiting import until_async
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("lab", hosts=2, planes=1, t0=2, t1=2, rate_bps=10**9)
STATE = TrainingState(7, 40, 1.25, 180.0)


def test_reports_arrive_until_their_end() -> None:
    async def work() -> None:
        feed, ended = Feed(FabricLayout(FABRIC)), asyncio.Event()
        reading, writing = os.pipe()
        TrainingReports(feed, reading, ended.set).start()
        LiveViewProcess("", writing, -1).training("mrc", STATE)
        await until_async(lambda: feed.section(StateSection.TRAINING) == {"mrc": STATE}, "the report")
        assert not ended.is_set()
        os.close(writing)
        await ended.wait()
        os.close(reading)

    asyncio.run(work())


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'["mrc", 1, 2, "x", 3]', b'{"mrc": 1}', b"\xff", b"[" * 9999])
def test_line_that_is_no_report_is_left_out(line: bytes) -> None:
    feed = Feed(FabricLayout(FABRIC))
    TrainingReports(feed, -1, lambda: None).take(line)
    assert feed.section(StateSection.TRAINING) == {}


def test_demo_does_not_wait_for_a_page_that_reads_nothing() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    beside = LiveViewProcess("", writing, -1)
    for _ in range(5000):  # more than fits into a pipe
        beside.training("mrc", STATE)
    os.close(reading)
    beside.training("mrc", STATE)
    os.close(writing)


def test_demo_waits_until_the_page_is_open_and_no_longer_than_it_said() -> None:
    reading, writing = os.pipe()
    beside = LiveViewProcess("", -1, reading)
    assert not beside.wait_until_opened(0.001)
    os.write(writing, b"opened\n")
    assert beside.wait_until_opened(60)
    os.close(writing)
    os.read(reading, 100)
    assert beside.wait_until_opened(60), "a server that has ended is not waited for"
    os.close(reading)
