"""Actions of the page on a controller whose links and switches only remember."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.server import Listening
from mrc_lab.errors import ExperimentError
from mrc_lab.web.actions import MAX_BYTES, MAX_WORDS, Actions, Outcome
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import FabricLayout
from tests.controller.serving import Running, running
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError

FABRIC = multi_plane_clos("lab", hosts=4, planes=2, t0=2, t1=4, rate_bps=10**9)
LINK = "t0-0:t1-1@p0"


class Jobs:
    """Remembers which transfers were started and stopped."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., str]:
        def method(*words: Any) -> str:
            self.asked.append((name, *words))
            return "job1"

        return method


class World:
    """The actions, with what is behind them."""

    def __init__(self, controller: Running, socket: Path) -> None:
        self.controller = controller
        self.socket = socket
        self.jobs = Jobs()
        self.feed = Feed(FabricLayout(FABRIC))
        self.executor = ThreadPoolExecutor(1)
        jobs: Any = self.jobs
        self.actions = Actions(FABRIC, self.feed, lambda: ControllerClient(socket), jobs, self.executor)

    async def fault(self, *words: str) -> Outcome:
        return await self.actions.perform({"do": "fault", "words": list(words)})

    async def undo(self) -> Outcome:
        return await self.actions.perform({"do": "undo"})

    def down(self) -> set[str]:
        return self.controller.call(lambda: set(self.controller.links.down))

    def faults(self) -> list[str]:
        with ControllerClient(self.socket) as client:
            return [f"{record.fault.kind.word} {record.fault.values_text()}".strip() for record in client.faults()]


@pytest.fixture
def socket() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mrc-web-") as folder:
        yield Path(folder) / "controller.sock"


def run(socket: Path, work: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    with running(FABRIC, Listening(socket)) as controller:

        async def inside() -> None:
            await work(World(controller, socket))

        asyncio.run(inside())


def test_link_is_taken_down_and_brought_back_with_the_commands_that_do_the_same(socket: Path) -> None:
    async def work(world: World) -> None:
        outcome = await world.fault(LINK, "down")
        assert world.down() == {LINK}
        assert outcome == Outcome(f"fault f1: {LINK} down", f"sudo mrc fault add lab {LINK} down", f"{LINK} down")
        outcome = await world.fault(LINK, "up")
        assert world.down() == set()
        assert outcome.command == f"sudo mrc fault clear lab link {LINK}"

    run(socket, work)


def test_undo_takes_back_the_last_action_first(socket: Path) -> None:
    async def work(world: World) -> None:
        await world.fault(LINK, "down")
        await world.fault("t0-0:t1-2@p1", "loss", "5%")
        assert (await world.undo()).undo == f"{LINK} down"
        assert (world.down(), world.faults()) == ({LINK}, ["down"])
        await world.undo()
        assert world.down() == set()
        with pytest.raises(ExperimentError, match="nothing to undo"):
            await world.undo()

    run(socket, work)


def test_undo_of_bringing_a_link_back_makes_its_faults_again(socket: Path) -> None:
    async def work(world: World) -> None:
        await world.fault(LINK, "flap", "2s", "25%")
        await world.fault(LINK, "loss", "5%")
        before = world.faults()
        await world.fault(LINK, "up")
        assert world.faults() == []
        await world.undo()
        assert world.faults() == before

    run(socket, work)


def test_undo_of_clearing_all_faults_makes_them_again(socket: Path) -> None:
    async def work(world: World) -> None:
        await world.fault(LINK, "down")
        await world.fault("t1-0@p1", "blackhole")
        await world.fault("clear", "all")
        assert (world.down(), world.faults()) == (set(), [])
        await world.undo()
        assert (world.down(), sorted(world.faults())) == ({LINK}, ["blackhole", "down"])

    run(socket, work)


def test_undo_of_a_fault_that_is_over_changes_nothing(socket: Path) -> None:
    async def work(world: World) -> None:
        await world.fault(LINK, "down")
        with ControllerClient(socket) as client:
            client.clear_all()
        assert "over already" in (await world.undo()).text

    run(socket, work)


def test_undo_that_fails_can_be_tried_again(socket: Path) -> None:
    async def work(world: World) -> None:
        await world.fault(LINK, "down")
        world.actions._connect = lambda: ControllerClient(socket.with_name("gone.sock"), timeout_s=0.2)
        with pytest.raises(ControllerError):
            await world.undo()
        assert world.actions.undo_text == f"{LINK} down"

    run(socket, work)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"do": "exec"},
        {"do": ["fault"]},
        {"do": "fault"},
        {"do": "fault", "words": "all"},
        {"do": "fault", "words": []},
        {"do": "fault", "words": [7]},
        {"do": "fault", "words": [LINK, "down"] * MAX_WORDS},
        {"do": "fault", "words": [LINK, "do\nwn"]},
        {"do": "fault", "words": [LINK, "x" * 200]},
        {"do": "fault", "words": [LINK, "explode"]},
        {"do": "fault", "words": ["clear"]},
        {"do": "fault", "words": ["t9-9:t1-1@p0", "down"]},
        {"do": "fault", "words": ["clear", "f99"]},
        {"do": "write", "source": "h1", "destination": "h1", "bytes": 1},
        {"do": "write", "source": "h1", "destination": "h99", "bytes": 1},
        {"do": "write", "source": "h1", "destination": {"x": 1}, "bytes": 1},
        {"do": "write", "source": "h1", "destination": "h2", "bytes": MAX_BYTES + 1},
        {"do": "write", "source": "h1", "destination": "h2", "bytes": True},
        {"do": "write", "source": "h1", "destination": "h2", "bytes": "1M; rm"},
        {"do": "all_reduce", "bytes": -1},
        {"do": "undo"},
    ],
)
def test_wrong_requests_are_refused_and_do_nothing(socket: Path, request_: dict[str, Any]) -> None:
    async def work(world: World) -> None:
        with pytest.raises((ExperimentError, FabricError, ControllerError)) as raised:
            await world.actions.perform(request_)
        assert str(raised.value)
        assert (world.down(), world.faults(), world.jobs.asked) == (set(), [], [])

    run(socket, work)


def test_transfers_are_started_and_stopped_with_the_commands_that_do_the_same(socket: Path) -> None:
    async def work(world: World) -> None:
        write = await world.actions.perform({"do": "write", "source": "h1", "destination": "h3", "bytes": 64 << 20})
        reduce = await world.actions.perform({"do": "all_reduce", "bytes": 1 << 20})
        await world.actions.perform({"do": "stop", "job": "job1"})
        assert write.command == "sudo mrc shell lab -c 'write h1 h3 64M'"
        assert reduce.command == "sudo all_reduce_perf -b 1048576 -n 20 --fabric lab"
        assert world.jobs.asked == [("write", "h1", "h3", 64 << 20), ("all_reduce", 1 << 20), ("stop", "job1")]

    run(socket, work)


def test_words_with_spaces_are_quoted_in_the_command(socket: Path) -> None:
    async def work(world: World) -> None:
        outcome = await world.fault(LINK, "down", "owner", "me; reboot")
        assert outcome.command == f"sudo mrc fault add lab {LINK} down owner 'me; reboot'"

    run(socket, work)


def test_undo_goes_on_after_clearing_all_was_undone(socket: Path) -> None:
    async def work(world: World) -> None:
        await world.fault(LINK, "down")
        await world.fault("h1@p0", "loss", "10%")
        for _ in range(2):
            await world.fault("clear", "all")
            assert world.faults() == []
            await world.undo()
            assert len(world.faults()) == 2
        await world.undo()
        assert world.faults() == ["down"]
        assert "over already" not in (await world.undo()).text
        assert world.faults() == []
        assert world.down() == set()

    run(socket, work)


def test_a_fault_for_no_time_is_refused(socket: Path) -> None:
    async def work(world: World) -> None:
        for none in ("0s", "0ms"):
            with pytest.raises(ExperimentError, match="a fault 'for 0s' would be none"):
                await world.fault(LINK, "down", "for", none)
        assert world.faults() == []

    run(socket, work)
