"""A rank that is lost fails what is under way on every other one, at once and with its name, whoever waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

from mrc_lab.torch.options import GroupOptions
from mrc_lab.torch.process_group import MrcProcessGroup
from mrc_lab.workloads.liveness import LivenessSettings, LossReason
from tests.mrc_lab.torch.ranks import Ranks
from tests.waiting import until

MS = 1_000_000
WORLD = 4
NEVER_S = 1000  # a timeout that no test waits for


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    with Ranks(WORLD, timeout_s=NEVER_S, liveness=LivenessSettings(300 * MS, 10 * MS)) as made:
        made.each(lambda group, rank: group.barrier())
        yield made


def call(ranks: Ranks, function: Any) -> None:
    """On the NICs' loop."""

    async def run() -> None:
        function()

    ranks.thread.call(run())


def kill(ranks: Ranks, rank: int) -> None:
    call(ranks, ranks.network.devices[rank].kill)


def silence(ranks: Ranks, rank: int) -> None:
    ranks.network.silent.add(ranks.network.devices[rank].nic)


def survivors(ranks: Ranks, *lost: int) -> list[MrcProcessGroup]:
    return [group for rank, group in enumerate(ranks.groups) if rank not in lost]


def test_a_killed_rank_fails_collectives_and_messages_of_all_others_and_is_named(ranks: Ranks) -> None:
    works = [group.allreduce([torch.ones(3)]) for group in survivors(ranks, 2)]
    works += [ranks.groups[rank].recv([torch.zeros(1)], 2, 0) for rank in (0, 1, 3)]
    works.append(ranks.groups[0].recv([torch.zeros(1)], 1, 0))
    assert all(group.get_error() is ErrorType.SUCCESS for group in ranks.groups)
    kill(ranks, 2)
    for work in works:
        with pytest.raises(dist.DistBackendError, match=r"rank 2 \(h3\) is lost: its process has ended"):
            work.wait()
    for group in survivors(ranks, 2):
        assert group.get_error() is ErrorType.REMOTE_ERROR
        assert [(loss.rank, loss.host, loss.reason) for loss in group.lost] == [(2, "h3", LossReason.GONE)]
        for later in (group.barrier(), group.send([torch.ones(1)], (group.rank() + 1) % WORLD)):
            with pytest.raises(dist.DistBackendError, match=r"rank 2 \(h3\) is lost"):
                later.wait()


def test_an_idle_group_reports_the_loss_too(ranks: Ranks) -> None:
    kill(ranks, 0)
    for group in survivors(ranks, 0):
        until(lambda group=group: group.get_error() is ErrorType.REMOTE_ERROR, "the loss")
        assert group.lost[0].rank == 0


def test_a_silent_host_is_named_after_the_bound(ranks: Ranks) -> None:
    works = [group.barrier() for group in survivors(ranks, 1)]
    silence(ranks, 1)
    for work in works:
        with pytest.raises(dist.DistBackendError, match=r"rank 1 \(h2\) is lost: its NIC answers on no plane"):
            work.wait()


def test_two_ranks_lost_at_once_are_both_known(ranks: Ranks) -> None:
    works = [group.barrier() for group in survivors(ranks, 1, 3)]
    silence(ranks, 3)
    kill(ranks, 1)
    for work in works:
        with pytest.raises(dist.DistBackendError, match=r"rank 1 \(h2\) is lost"):
            work.wait()
    for group in survivors(ranks, 1, 3):
        until(lambda group=group: {loss.rank for loss in group.lost} == {1, 3}, "both losses")


def test_all_other_ranks_lost_leaves_one_with_an_error(ranks: Ranks) -> None:
    work = ranks.groups[3].barrier()
    for rank in range(3):
        kill(ranks, rank)
    with pytest.raises(dist.DistBackendError, match="is lost"):
        work.wait()
    until(lambda: {loss.rank for loss in ranks.groups[3].lost} == {0, 1, 2}, "all losses")


def test_a_rank_that_times_out_ends_the_operation_of_all_and_says_why(ranks: Ranks) -> None:
    works = [group.barrier() for group in ranks.groups[:2]]
    ranks.groups[3].set_timeout(timeout=torch.distributed.default_pg_timeout * 0)
    with pytest.raises(dist.DistBackendError, match="Timed out after 0 s"):
        ranks.groups[3].allreduce([torch.ones(1)]).wait()
    assert ranks.groups[3].get_error() is ErrorType.TIMEOUT
    for work in works:
        with pytest.raises(dist.DistBackendError, match=r"rank 3 \(h4\) has given up the group after an error"):
            work.wait()
    assert all(not group.lost for group in ranks.groups)


def test_a_rank_that_leaves_ends_only_what_it_has_not_done(ranks: Ranks) -> None:
    message = ranks.groups[1].recv([torch.zeros(1)], 2, 0)
    ranks.each(lambda group, rank: group.barrier())
    ranks.groups[0].shutdown()
    ranks.groups[2].send([torch.ones(1)], 1, 0).wait()
    assert message.wait()
    assert ranks.groups[1].get_error() is ErrorType.SUCCESS
    for group in survivors(ranks, 0):
        with pytest.raises(dist.DistBackendError, match=r"rank 0 \(h1\) has left the group"):
            group.barrier().wait()
        assert not group.lost


def test_a_rank_that_leaves_while_others_wait_for_it_ends_their_operation(ranks: Ranks) -> None:
    works = [group.barrier() for group in survivors(ranks, 0)]
    ranks.groups[0].abort()
    for work in works:
        with pytest.raises(dist.DistBackendError, match=r"rank 0 \(h1\) has left the group"):
            work.wait()


def test_ranks_that_have_all_done_everything_leave_in_any_order_without_errors() -> None:
    for order in ((0, 1, 2), (2, 1, 0)):
        with Ranks(3, timeout_s=NEVER_S, liveness=LivenessSettings()) as ranks:
            ranks.each(lambda group, rank: group.allreduce([torch.ones(5)]))
            for rank in order:
                ranks.groups[rank].shutdown()
            assert all(group.get_error() is ErrorType.SUCCESS and not group.lost for group in ranks.groups)


def test_a_rank_lost_while_others_join_fails_them_at_once() -> None:
    with Ranks(3, timeout_s=NEVER_S, liveness=LivenessSettings(100 * MS, 5 * MS)) as ranks:
        ranks.each(lambda group, rank: group.barrier())
        second = [ranks.group(rank, NEVER_S, "second") for rank in (0, 1)]
        second.append(ranks.group(2, NEVER_S, "second"))
        silence(ranks, 2)
        for group in second[:2]:
            with pytest.raises(dist.DistBackendError, match=r"rank 2 \(h3\) is lost"):
                group.barrier().wait()
        for group in second:
            group.abort()


def test_a_world_of_one_has_nobody_to_watch() -> None:
    with Ranks(1, liveness=LivenessSettings()) as ranks:
        ranks.each(lambda group, rank: group.barrier())
        assert (ranks.groups[0].lost, ranks.groups[0].get_error()) == ((), ErrorType.SUCCESS)


def test_without_liveness_nobody_is_watched() -> None:
    with Ranks(2, timeout_s=0.2) as ranks:
        ranks.each(lambda group, rank: group.barrier())
        silence(ranks, 1)
        with pytest.raises(dist.DistBackendError, match="Timed out"):
            ranks.groups[0].barrier().wait()


@pytest.mark.parametrize(
    ("given", "timeout", "interval"), [("800ms", 800, 60), ("2s", 2000, 60), ("100ms", 100, 20), ("10ms", 10, 2)]
)
def test_the_environment_says_how_long_a_peer_may_be_silent(
    monkeypatch: pytest.MonkeyPatch, given: str, timeout: int, interval: int
) -> None:
    monkeypatch.setenv("MRC_PEER_TIMEOUT", given)
    assert GroupOptions.from_environment().liveness == LivenessSettings(timeout * MS, interval * MS)


def test_the_environment_may_say_that_nobody_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GroupOptions.from_environment().liveness == LivenessSettings()
    monkeypatch.setenv("MRC_PEER_TIMEOUT", "none")
    assert GroupOptions.from_environment().liveness is None


@pytest.mark.parametrize("given", ["", "0", "0ms", "800", "soon", "2h", "9ms", "-1s"])
def test_a_peer_timeout_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("MRC_PEER_TIMEOUT", given)
    with pytest.raises(dist.DistBackendError, match=r"MRC_PEER_TIMEOUT is .* set it to a time such as 800ms"):
        GroupOptions.from_environment()
