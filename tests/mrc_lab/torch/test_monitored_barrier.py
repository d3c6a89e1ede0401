"""A monitored barrier lets all ranks go once all have come, and otherwise names those who have not."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

import torch
import torch.distributed as dist

from tests.mrc_lab.torch.ranks import Ranks

SHORT, LONG = timedelta(seconds=0.2), timedelta(seconds=20)


def call(
    ranks: Ranks, pool: ThreadPoolExecutor, *who: int, timeout: timedelta, every: bool = False
) -> list[Future[None]]:
    return [pool.submit(ranks.groups[rank].monitored_barrier, timeout, every) for rank in who]


def test_all_pass_when_all_have_come_and_messages_stay_apart() -> None:
    with Ranks(3) as ranks, ThreadPoolExecutor() as pool:
        got = torch.zeros(1)
        receive = ranks.groups[0].recv([got], 1, 0)
        for every in (False, True):
            for done in call(ranks, pool, 0, 1, 2, timeout=LONG, every=every):
                done.result()
        ranks.groups[1].send([torch.ones(1)], 0, 0).wait()
        assert receive.wait()
        assert got.item() == 1


def test_nobody_passes_before_the_last_has_come() -> None:
    with Ranks(3) as ranks, ThreadPoolExecutor() as pool:
        first = call(ranks, pool, 0, 1, timeout=LONG)
        ranks.groups[2].send([torch.ones(1)], 1, 0).wait()
        assert not any(done.done() for done in first)
        for done in first + call(ranks, pool, 2, timeout=LONG):
            done.result()


@pytest.mark.parametrize(("every", "named"), [(False, "Rank 1 failed"), (True, "Ranks 1, 3 failed")])
def test_rank_0_names_who_has_not_come_and_the_others_learn_it(every: bool, named: str) -> None:
    with Ranks(4) as ranks, ThreadPoolExecutor() as pool:
        (second,) = call(ranks, pool, 2, timeout=LONG)
        (first,) = call(ranks, pool, 0, timeout=SHORT, every=every)
        with pytest.raises(dist.DistBackendError, match=f"{named} to pass monitoredBarrier in 200 ms"):
            first.result()
        with pytest.raises(dist.DistBackendError, match=r"Rank 2 successfully reached .* rank 1 did not come"):
            second.result()


def test_the_next_barrier_is_not_passed_by_one_who_was_late_for_the_last() -> None:
    with Ranks(2) as ranks, ThreadPoolExecutor() as pool:
        (alone,) = call(ranks, pool, 0, timeout=SHORT)
        with pytest.raises(dist.DistBackendError, match="Rank 1 failed"):
            alone.result()
        (late,) = call(ranks, pool, 1, timeout=SHORT)
        with pytest.raises(dist.DistBackendError, match=r"Rank 1 successfully .* no answer within 0\.2 s"):
            late.result()
        (again,) = call(ranks, pool, 0, timeout=SHORT)
        with pytest.raises(dist.DistBackendError, match="Rank 1 failed"):
            again.result()
        for done in call(ranks, pool, 1, timeout=SHORT):
            with pytest.raises(dist.DistBackendError):
                done.result()
        for done in call(ranks, pool, 0, 1, timeout=LONG):
            done.result()


def test_no_time_at_all_is_a_timeout_of_rank_0() -> None:
    with Ranks(2) as ranks, pytest.raises(dist.DistBackendError, match="Rank 0 timed out in monitoredBarrier"):
        ranks.groups[0].monitored_barrier(timedelta(0))
