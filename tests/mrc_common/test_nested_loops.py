"""An event loop inside another: the outer one and its task are as they were, also after an error."""

from __future__ import annotations

import asyncio

import pytest

from mrc_common.nested_loops import outer_loop_suspended


async def inner() -> asyncio.Task[object] | None:
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
    return asyncio.current_task()


def test_another_loop_runs_while_a_task_waits():
    async def outer() -> list[str]:
        order: list[str] = []
        other = asyncio.create_task(_note(order))
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        with outer_loop_suspended():
            found = asyncio.run(inner())
            order.append("inner")
        assert found is not None
        assert found is not task
        assert asyncio.current_task() is task
        assert asyncio.get_running_loop() is loop
        await other
        return order

    assert asyncio.run(outer()) == ["inner", "outer"], "tasks of the outer loop wait meanwhile, and go on afterwards"


async def _note(order: list[str]) -> None:
    order.append("outer")


def test_an_error_inside_leaves_the_outer_loop_running():
    async def fail() -> None:
        raise ValueError("inside")

    async def outer() -> None:
        task = asyncio.current_task()
        with pytest.raises(ValueError, match="inside"), outer_loop_suspended():
            asyncio.run(fail())
        assert asyncio.current_task() is task
        await asyncio.sleep(0)

    asyncio.run(outer())


def test_a_callback_that_belongs_to_no_task_may_run_a_loop():
    loop, found = asyncio.new_event_loop(), []

    def callback() -> None:
        try:
            with outer_loop_suspended():
                found.append(asyncio.run(inner()))
            assert asyncio.get_running_loop() is loop
        finally:
            loop.stop()

    loop.call_soon(callback)
    loop.run_forever()
    loop.close()
    assert len(found) == 1


def test_without_a_loop_nothing_changes():
    with outer_loop_suspended():
        assert asyncio.run(inner()) is not None


def test_asyncio_still_has_what_is_relied_on():
    """Names that begin with an underline, of which a new Python may have no more."""
    assert asyncio._get_running_loop() is None
    asyncio._set_running_loop(None)
