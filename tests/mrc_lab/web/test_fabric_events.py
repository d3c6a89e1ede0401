"""Events and faults of a controller, as they come, also of one that is restarted."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.client import ControllerClient
from controller.server import Listening
from controller.values import MachineClock
from mrc_lab.web.fabric_events import FabricEvents
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import FabricLayout, FaultView, StateSection
from tests.controller.serving import running
from tests.waiting import until_async
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("lab", hosts=2, planes=1, t0=2, t1=2, rate_bps=10**9)
LINK = "t0-0:t1-1@p0"


@pytest.fixture
def socket() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mrc-web-") as folder:
        yield Path(folder) / "controller.sock"


def test_faults_of_others_are_shown_and_gone_when_they_are_cleared(socket: Path) -> None:
    async def work() -> None:
        feed = Feed(FabricLayout(FABRIC))
        events = FabricEvents(feed, lambda: ControllerClient(socket), asyncio.get_running_loop(), MachineClock.here())
        with ControllerClient(socket) as controller:
            await asyncio.to_thread(controller.link_down, LINK)  # before it listens
            events.start()
            await until_async(lambda: "f1" in feed.section(StateSection.FAULTS), "the fault that was there")
            fault = feed.section(StateSection.FAULTS)["f1"]
            assert isinstance(fault, FaultView)
            assert (fault.kind, fault.links, fault.state) == ("down", (LINK,), "active")
            await asyncio.to_thread(controller.clear, "f1")
            await until_async(lambda: not feed.section(StateSection.FAULTS), "the fault to be gone")
        events.stop()

    with running(FABRIC, Listening(socket)):
        asyncio.run(work())


def test_link_down_right_after_events_are_ready_is_published(socket: Path) -> None:
    async def work() -> None:
        feed = Feed(FabricLayout(FABRIC))
        events = FabricEvents(feed, lambda: ControllerClient(socket), asyncio.get_running_loop(), MachineClock.here())
        viewer = feed.join()
        events.start()
        await events.ready()
        with ControllerClient(socket) as controller:
            await asyncio.to_thread(controller.link_down, LINK)
        seen: list[str] = []

        def published() -> bool:
            seen.extend(viewer.records(0))
            return any('"fault added"' in record for record in seen)

        await until_async(published, "the event of the fault")
        events.stop()

    with running(FABRIC, Listening(socket)):
        asyncio.run(work())


def test_controller_that_does_not_run_keeps_nobody_waiting_for_its_events(socket: Path) -> None:
    async def work() -> None:
        feed = Feed(FabricLayout(FABRIC))
        loop = asyncio.get_running_loop()
        events = FabricEvents(feed, lambda: ControllerClient(socket, timeout_s=1), loop, MachineClock.here())
        events.start()
        await events.ready()
        assert "controller" in feed.section(StateSection.SWITCHES)
        events.stop()

    asyncio.run(work())


def test_controller_that_is_restarted_is_found_again(socket: Path) -> None:
    async def work() -> None:
        feed = Feed(FabricLayout(FABRIC))
        loop = asyncio.get_running_loop()
        events = FabricEvents(feed, lambda: ControllerClient(socket, timeout_s=1), loop, MachineClock.here())

        def known() -> bool:
            return "controller" in feed.section(StateSection.SWITCHES)

        first = running(FABRIC, Listening(socket))
        first.__enter__()
        events.start()
        with ControllerClient(socket) as controller:
            await asyncio.to_thread(controller.link_down, LINK)
        await until_async(lambda: bool(feed.section(StateSection.FAULTS)), "the fault")
        await asyncio.to_thread(first.__exit__, None, None, None)
        await until_async(known, "the controller to be missed")
        with running(FABRIC, Listening(socket)):
            await until_async(lambda: not known(), "the controller to be found")
            assert feed.section(StateSection.FAULTS) == {}
            events.stop()

    asyncio.run(work())
