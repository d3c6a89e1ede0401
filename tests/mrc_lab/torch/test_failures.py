"""What fails ends in a DistBackendError within the timeout, on every rank, and never in a hang."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

import torch
import torch.distributed as dist

from mrc_common import children
from mrc_host.verbs_types import QpAttributes
from mrc_lab.torch import nic
from mrc_lab.torch.options import GroupOptions
from mrc_lab.torch.store_exchange import StoreExchange
from tests.mrc_lab.torch.ranks import Ranks, options

SHORT = timedelta(seconds=0.2)


def test_an_operation_that_a_peer_never_calls_fails_after_its_timeout_and_so_does_what_follows() -> None:
    with Ranks(2) as ranks:
        ranks.each(lambda group, rank: group.barrier())
        alone = ranks.groups[0]
        work = alone.allreduce([torch.ones(3)], options(dist.AllreduceOptions, timeout=SHORT))
        future = work.get_future()
        with pytest.raises(
            dist.DistBackendError, match=r"all_reduce of rank 0 in group 'g' failed: Timed out after 0\.2 s"
        ):
            work.wait()
        with pytest.raises(RuntimeError, match="DistBackendError"):
            future.wait()
        assert (work.is_completed(), work.is_success()) == (True, False)
        assert isinstance(work.exception(), dist.DistBackendError)
        with pytest.raises(dist.DistBackendError, match=r"barrier .* Timed out after 0\.2 s"):
            alone.barrier().wait()


def test_a_failed_copy_into_a_tensor_fails_the_operation() -> None:
    with Ranks(2, timeout_s=0.5) as ranks:
        overlapping = torch.ones(1).expand(3)
        works = [
            group.allreduce([each]) for group, each in zip(ranks.groups, (overlapping, torch.ones(3)), strict=True)
        ]
        with pytest.raises(dist.DistBackendError, match=r"RuntimeError: .* single memory location"):
            works[0].wait()
        with pytest.raises(dist.DistBackendError, match="single memory location"):
            ranks.groups[0].barrier().wait()


def test_missing_ranks_are_named() -> None:
    with Ranks(1) as ranks:
        ranks.world = 3
        waiting = ranks.group(1, 0.2, "other")
        with pytest.raises(dist.DistBackendError, match="no word from rank 0, 2"):
            waiting.barrier().wait()
        waiting.abort()


def test_a_wait_with_a_timeout_gives_up_waiting_and_not_the_operation() -> None:
    with Ranks(2) as ranks:
        value, other = torch.ones(2), torch.ones(2)
        work = ranks.groups[0].allreduce([value])
        with pytest.raises(dist.DistBackendError, match=r"timed out after 0\.2 s; it goes on"):
            work.wait(SHORT)
        ranks.groups[1].allreduce([other]).wait()
        assert work.wait()
        assert value.tolist() == [2.0, 2.0]


def test_destroying_a_group_fails_pending_operations_and_releases_its_resources() -> None:
    with Ranks(2) as ranks:
        work = ranks.groups[0].recv([torch.zeros(1)], 1, 0)
        barrier = ranks.groups[0].barrier()
        ranks.groups[0].abort()
        for each in (work, barrier):
            with pytest.raises(dist.DistBackendError):
                each.wait()
        with pytest.raises(dist.DistBackendError, match="the group is destroyed"):
            ranks.groups[0].barrier()
        ranks.groups[0].shutdown()
        assert ranks.released == [0], "once"


def test_a_length_mismatch_fails_only_that_message() -> None:
    with Ranks(2) as ranks:
        wrong = ranks.groups[0].recv([torch.zeros(5)], 1, 1)
        ranks.groups[1].send([torch.zeros(4)], 0, 1).wait()
        with pytest.raises(dist.DistBackendError, match="sent 16 bytes with tag 1, but the receive has room for 20"):
            wrong.wait()
        place = torch.zeros(1)
        right = ranks.groups[0].recv([place], 1, 1)
        ranks.groups[1].send([torch.ones(1)], 0, 1).wait()
        assert right.wait()
        ranks.each(lambda group, rank: group.barrier())


def test_a_new_group_in_the_same_store_ignores_the_old_groups_keys() -> None:
    store = dist.HashStore()
    for _ in range(3):
        with Ranks(3, store=store) as ranks:
            outs = [torch.zeros(3) for _ in range(3)]
            ranks.each(lambda group, rank, outs=outs: group.all_gather_single(outs[rank], torch.tensor([float(rank)])))
            assert outs[2].tolist() == [0.0, 1.0, 2.0]
    left = [
        asyncio.run(StoreExchange(dist.PrefixStore("g/", store), 0, 3).missing(f"{one}/cards"))
        for one in ("collectives", "messages")
    ]
    assert left == [[0, 1, 2], [0, 1, 2]]


def test_many_threads_may_post_and_wait() -> None:
    with Ranks(2) as ranks:
        values = [torch.ones(10), torch.ones(10)]

        def repeat(rank: int) -> None:
            for _ in range(20):
                ranks.groups[rank].allreduce([values[rank]]).wait()

        threads = [threading.Thread(target=repeat, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert values[0].tolist() == [2.0**20] * 10


def test_without_a_nic_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MRC_AGENT", raising=False)
    with pytest.raises(dist.DistBackendError, match="start the program inside the host"):
        nic.acquire()
    monkeypatch.setenv("MRC_AGENT", "/nowhere/h1.sock")
    with pytest.raises(dist.DistBackendError, match=r"cannot open the NIC at /nowhere/h1\.sock"):
        nic.acquire()
    monkeypatch.setenv("MRC_QP_TYPE", "tcp")
    with pytest.raises(dist.DistBackendError, match="MRC_QP_TYPE is 'tcp': set it to mrc or rc"):
        GroupOptions.from_environment()


@pytest.mark.parametrize(("given", "retries"), [("0", 0), ("255", 255)])
def test_the_environment_says_how_often_queue_pairs_retry(
    monkeypatch: pytest.MonkeyPatch, given: str, retries: int
) -> None:
    assert GroupOptions.from_environment().streams.attributes.retry_count == QpAttributes().retry_count
    monkeypatch.setenv("MRC_RETRY_COUNT", given)
    assert GroupOptions.from_environment().streams.attributes.retry_count == retries


@pytest.mark.parametrize("given", ["256", "-1", "many", "", "²"])
def test_a_retry_count_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("MRC_RETRY_COUNT", given)
    with pytest.raises(dist.DistBackendError, match=r"MRC_RETRY_COUNT is .*: set it to a number up to 255"):
        GroupOptions.from_environment()


def test_torch_knows_the_backend_without_an_import_and_imports_nothing_of_ours_for_it() -> None:
    code = (
        "import sys, torch, torch.distributed as dist; print('mrc' in dist.Backend.backend_list, "
        "[name for name in sys.modules if name.startswith('mrc_') and name not in ('mrc_lab', 'mrc_lab.torch')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=children.environment()
    )
    if done.stdout.split()[0] == "False":
        pytest.skip("installed before it had this entry point: pip install -e .")
    assert done.stdout.strip() == "True []"
