"""Chunks leave in order, when they are ready and there is room, whoever finds out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives.chunk_outbox import ChunkOutbox
from mrc_lab.workloads.collectives.pacing import PacingSettings


class FakeSender:
    """Has room for `room` chunks."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.sent: list[int] = []
        self.failure: Exception | None = None
        self.breaks = False
        self.on_free: Callable[[], None] | None = None

    def send_now(self, chunk: Any) -> bool:
        self.check()
        if self.breaks:
            raise TransferError("post_send failed")
        if self.room:
            self.room -= 1
            self.sent.append(int(chunk[0]))
            return True
        return False

    def when_free(self, call: Callable[[], None] | None) -> None:
        self.on_free = call

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def fail(self, failure: Exception) -> None:
        self.failure = failure

    def free(self, slots: int) -> None:
        self.room += slots
        call, self.on_free = self.on_free, None
        if call is not None:
            call()


def chunk(number: int) -> Any:
    return np.full(1000, number, np.uint8)


def outbox(room: int, pacing: Any = None) -> SimpleNamespace:
    failures: list[Exception] = []
    sender = FakeSender(room)
    return SimpleNamespace(box=ChunkOutbox(sender, pacing, failures.append), sender=sender, failures=failures)  # type: ignore[arg-type]


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(main(), 10)

    asyncio.run(bounded())


def test_chunks_are_sent_at_once_while_there_is_room_and_then_as_it_comes() -> None:
    async def main() -> None:
        one = outbox(room=2)
        for number in range(5):
            one.box.put(chunk(number))
        assert one.sender.sent == [0, 1]
        flushed = asyncio.ensure_future(one.box.flush())
        await asyncio.sleep(0)
        one.sender.free(2)
        assert one.sender.sent == [0, 1, 2, 3]
        one.box.put(chunk(5))
        await asyncio.sleep(0)
        assert not flushed.done()
        one.sender.free(9)
        await flushed
        assert one.sender.sent == [0, 1, 2, 3, 4, 5]

    run(main)


def test_a_paced_chunk_waits_for_its_time_and_for_those_before_it() -> None:
    async def main() -> None:
        pacing = PacingSettings(step=20_000_000).pacing()
        one, loop = outbox(room=9, pacing=pacing), asyncio.get_running_loop()
        began = loop.time()
        one.box.put(chunk(0))
        one.box.put(chunk(1))
        assert one.sender.sent == []
        await one.box.flush()
        assert one.sender.sent == [0, 1]
        assert loop.time() - began > 0.019

    run(main)


@pytest.mark.parametrize("late", [False, True], ids=["at once", "when there is room"])
def test_a_failure_to_send_ends_the_stream_and_is_reported(late: bool) -> None:
    async def main() -> None:
        one = outbox(room=0 if late else 1)
        if late:
            one.box.put(chunk(0))
            flushed = asyncio.ensure_future(one.box.flush())
            await asyncio.sleep(0)
        one.sender.breaks = True
        if late:
            one.sender.free(1)
        else:
            one.box.put(chunk(0))
            flushed = asyncio.ensure_future(one.box.flush())
        with pytest.raises(TransferError, match="post_send failed"):
            await flushed
        assert [str(failure) for failure in one.failures] == ["post_send failed"]
        one.box.put(chunk(1))
        assert one.sender.sent == []

    run(main)


def test_a_closed_outbox_sends_nothing_any_more() -> None:
    async def main() -> None:
        paced = outbox(room=9, pacing=PacingSettings(step=1_000_000).pacing())
        full = outbox(room=0)
        for one in (paced, full):
            one.box.put(chunk(0))
            one.box.close()
        full.sender.free(1)
        await asyncio.sleep(0.01)
        assert paced.sender.sent == full.sender.sent == []

    run(main)
