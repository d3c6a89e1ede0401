"""What users attach to a future runs on another thread than the loop's: it may wait, raise or destroy the group."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

import torch
import torch.distributed as dist

from mrc_lab.torch.callback_threads import CallbackThreads
from tests.mrc_lab.torch.ranks import Ranks
from tests.waiting import TIMEOUT_S

WORLD = 2


def futures(ranks: Ranks, value: float = 1.0) -> list[Any]:
    """Of a sum over all ranks."""
    return [group.allreduce([torch.full((3,), value)]).get_future() for group in ranks.groups]


@pytest.mark.parametrize("depth", [1, 6])
def test_a_callback_may_wait_for_another_collective(depth: int) -> None:
    """As PowerSGD's hook of DistributedDataParallel does; and a callback of that one for the next."""
    with Ranks(WORLD, timeout_s=TIMEOUT_S) as ranks:

        def again(group: Any, left: int, future: Any) -> Any:
            values = future.value()
            if left:
                return group.allreduce(values).get_future().then(lambda done: again(group, left - 1, done)).wait()
            return values

        ends = [
            group.allreduce([torch.ones(3)]).get_future().then(lambda done, group=group: again(group, depth, done))
            for group in ranks.groups
        ]
        for end in ends:
            assert end.wait()[0].tolist() == [WORLD ** (depth + 1.0)] * 3


def test_a_slow_callback_holds_up_no_other_operation() -> None:
    with Ranks(WORLD, timeout_s=TIMEOUT_S) as ranks:
        go_on, running = threading.Event(), threading.Semaphore(0)

        def slow(future: Any) -> str:
            running.release()
            assert go_on.wait(60)
            return threading.current_thread().name

        slow_ones = [future.then(slow) for _ in range(4) for future in futures(ranks)]
        for _ in slow_ones:
            assert running.acquire(timeout=60), "callbacks do not wait for one another"
        ranks.each(lambda group, rank: group.barrier())
        assert [future.wait()[0].tolist() for future in futures(ranks)] == [[2.0] * 3] * WORLD
        go_on.set()
        assert {future.wait() for future in slow_ones} <= {"mrc callback", threading.current_thread().name}


def test_a_callback_may_destroy_the_group() -> None:
    with Ranks(WORLD, timeout_s=TIMEOUT_S) as ranks:

        def destroy(future: Any) -> str:
            ranks.groups[0].shutdown()
            return "destroyed"

        assert futures(ranks)[0].then(destroy).wait() == "destroyed"
        with pytest.raises(dist.DistBackendError, match="destroyed"):
            ranks.groups[0].barrier()
        assert ranks.released == [0]


def test_an_error_in_a_callback_is_that_futures_alone() -> None:
    with Ranks(WORLD, timeout_s=TIMEOUT_S) as ranks:

        def fail(future: Any) -> None:
            raise ValueError("a mistake of the user's")

        for future in [each.then(fail) for each in futures(ranks)]:
            with pytest.raises(RuntimeError, match="mistake of the user"):
                future.wait()
        for future in futures(ranks):
            future.add_done_callback(fail)
        ranks.each(lambda group, rank: group.barrier())


def test_callbacks_get_the_error_of_an_operation_that_fails() -> None:
    with Ranks(WORLD, timeout_s=0.2) as ranks:
        seen = []
        future = ranks.groups[0].allreduce([torch.ones(2)]).get_future()  # rank 1 does not come
        with pytest.raises(RuntimeError, match="Timed out"):
            future.then(lambda done: seen.append(done.value())).wait()
        assert seen == []


def test_threads_are_as_many_as_calls_that_wait_and_end_when_idle() -> None:
    threads, go_on, running = CallbackThreads(), threading.Event(), threading.Semaphore(0)
    seen: set[threading.Thread] = set()

    def call() -> None:
        seen.add(threading.current_thread())
        running.release()
        go_on.wait(60)

    for _ in range(5):
        threads.run(call)
    for _ in range(5):
        assert running.acquire(timeout=60)
    assert len(seen) == 5
    go_on.set()
    for _ in range(20):
        threads.run(call)
        assert running.acquire(timeout=60)
    for thread in seen:
        thread.join(60)
        assert not thread.is_alive()


def test_a_call_that_raises_is_reported_and_its_thread_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: queue.SimpleQueue[Any] = queue.SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", reported.put)
    threads, ran = CallbackThreads(), threading.Event()

    def fail() -> None:
        raise ValueError("a mistake")

    threads.run(fail)
    report = reported.get(timeout=60)
    assert str(report.exc_value) == "a mistake"
    threads.run(ran.set)
    assert ran.wait(60)


def test_a_future_is_done_when_its_work_was_waited_for_even_if_its_callback_still_runs() -> None:
    """torchft takes the wrong callback of its chain for one that is not."""
    with Ranks(WORLD, timeout_s=TIMEOUT_S) as ranks:
        first, second = ranks.groups
        for _ in range(30):
            go_on = threading.Event()
            work = first.allreduce([torch.ones(3)])
            future = work.get_future()
            later = future.then(lambda _, go_on=go_on: go_on.wait(TIMEOUT_S))
            second.allreduce([torch.ones(3)])
            assert work.wait()
            assert future.done()
            assert not later.done()
            go_on.set()
            assert later.wait()
