"""torchft's process group over MRC: whatever is called when, a call succeeds or raises, within its timeout."""

from __future__ import annotations

import importlib
import importlib.util
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.mrc_host.nics_in_memory import Hosts, nics_in_thread
from tests.waiting import until

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("torchft") is None:
    pytest.skip("PyTorch or torchft is not installed: pip install '.[torch,torchft]'", allow_module_level=True)

import torch
import torch.distributed as dist

from mrc_lab.torch import torchft
from tests.mrc_lab.torch.own_nic import OnNic

YEAR = timedelta(days=365)
MANY_S = 20.0  # far more than anything here may take


class Replicas:
    """Process groups of as many NICs, and a store for them."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        self.groups = [OnNic(path, timeout=timedelta(seconds=MANY_S)) for path in hosts.paths]
        self._threads = ThreadPoolExecutor(16)

    def configure(self, number: int, rank: int, world: int, prefix: str) -> Future[None]:
        """Begin."""
        address = f"localhost:{self.store.port}/{prefix}"
        return self._threads.submit(self.groups[number].configure, address, "replica", rank, world, 1)

    def form(self, numbers: Sequence[int], prefix: str) -> None:
        """Configure these, in the order of ranks, and wait."""
        begun = [self.configure(number, rank, len(numbers), prefix) for rank, number in enumerate(numbers)]
        for each in begun:
            each.result(MANY_S)

    def check(self, numbers: Sequence[int]) -> None:
        """The sum over all is right."""
        values = [torch.full((5,), 2.0**rank) for rank in range(len(numbers))]
        works = [self.groups[n].allreduce([v], dist.ReduceOp.SUM) for n, v in zip(numbers, values, strict=True)]
        for work in works:
            assert work.wait()
        for number, value in zip(numbers, values, strict=True):
            assert bool((value == 2 ** len(numbers) - 1).all())
            assert self.groups[number].size() == len(numbers)
            assert self.groups[number].errored() is None

    def close(self) -> None:
        for group in self.groups:
            group.abort()
        self._threads.shutdown()


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    with nics_in_thread(tmp_path, 3) as hosts:
        made = Replicas(hosts)
        yield made
        made.close()


def failed(begun: Future[None]) -> str:
    """What a call raised."""
    error = begun.exception(MANY_S)
    assert error is not None, "it should have failed"
    return str(error)


def test_each_quorum_has_a_group_of_its_own(replicas: Replicas) -> None:
    replicas.form([0, 1, 2], "1")
    replicas.check([0, 1, 2])
    pairs = len(replicas.hosts.queue_pairs())
    replicas.form([2, 0], "2")  # one has left, and ranks are others
    replicas.check([2, 0])
    assert len(replicas.hosts.queue_pairs()) == pairs // 2, "nothing is left of the old one"
    replicas.form([0], "3")
    replicas.check([0])
    replicas.form([0, 1, 2], "4")  # with one whose last group was the first
    replicas.check([0, 1, 2])


def test_a_prefix_that_was_used_is_good_again_as_after_a_restart_of_the_lighthouse(replicas: Replicas) -> None:
    for _ in range(3):
        replicas.form([0, 1], "1")
        replicas.check([0, 1])


def test_a_replica_that_leaves_is_an_error_until_the_next_configuration(replicas: Replicas) -> None:
    replicas.form([0, 1], "1")
    replicas.groups[1].abort()
    assert str(replicas.groups[1].errored()) == "the process group was aborted"
    with pytest.raises(AssertionError, match="process group not initialized"):
        replicas.groups[1].allreduce([torch.ones(1)], dist.ReduceOp.SUM)
    with pytest.raises(dist.DistBackendError, match=r"rank 1 \(h2\) has left the group"):
        replicas.groups[0].allreduce([torch.ones(1)], dist.ReduceOp.SUM).wait()
    assert "has left the group" in str(replicas.groups[0].errored())
    replicas.form([0, 1], "2")
    replicas.check([0, 1])


def test_what_was_shut_down_may_be_configured_again(replicas: Replicas) -> None:
    replicas.form([0, 1], "1")
    for number in (0, 1):
        replicas.groups[number].shutdown()
        replicas.groups[number].shutdown()
        assert replicas.groups[number].errored() is None
    replicas.form([1, 0], "2")
    replicas.check([1, 0])


def test_of_two_configurations_at_once_the_later_one_wins(replicas: Replicas) -> None:
    first = replicas.configure(0, 0, 2, "1")  # whose peer never comes
    until(lambda: replicas.groups[0]._pg is not None, "the first to wait")
    replicas.form([0, 1], "2")
    assert "barrier of rank 0" in failed(first)
    replicas.check([0, 1])


@pytest.mark.parametrize("turn", range(5))
def test_many_at_once_end_with_one_group_or_none(replicas: Replicas, turn: int) -> None:
    begun = [replicas.configure(0, 0, 1, f"{turn}/{number}") for number in range(4)]
    outcomes = [each.exception(MANY_S) for each in begun]
    assert outcomes.count(None) >= 1, outcomes
    for error in outcomes:
        assert error is None or isinstance(error, dist.DistBackendError), error
    replicas.check([0])


def test_abort_ends_a_configuration_and_another_one_is_good(replicas: Replicas) -> None:
    begun = replicas.configure(0, 0, 2, "1")
    until(lambda: replicas.groups[0]._pg is not None, "it to wait")
    replicas.groups[0].abort()
    assert "the group is destroyed" in failed(begun)
    assert str(replicas.groups[0].errored()) == "the process group was aborted"
    replicas.form([0, 1], "2")
    replicas.check([0, 1])


def test_abort_ends_a_configuration_that_has_not_reached_its_store_yet(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting, go_on = threading.Event(), threading.Event()
    connect = torchft.create_store_client

    def slowly(*arguments: Any, **options: Any) -> Any:
        meeting.set()
        assert go_on.wait(MANY_S)
        return connect(*arguments, **options)

    monkeypatch.setattr(torchft, "create_store_client", slowly)
    begun = replicas.configure(0, 0, 1, "1")
    assert meeting.wait(MANY_S)
    replicas.groups[0].abort()
    go_on.set()
    assert "was ended by another thread" in failed(begun)
    assert replicas.groups[0]._pg is None
    until(lambda: not replicas.hosts.queue_pairs(), "its queue pairs to be given back")


@pytest.mark.parametrize("timeout", [None, 5, timedelta(seconds=-1)])
def test_what_is_no_timeout_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match="is a timedelta from 0 on"):
        torchft.ProcessGroupMrc(timeout=timeout)
    with pytest.raises(ValueError, match="is a timedelta from 0 on"):
        torchft.ProcessGroupMrc().set_timeout(timeout)


def test_a_timeout_of_0_is_an_error_at_once(replicas: Replicas) -> None:
    replicas.groups[0].set_timeout(timedelta(0))
    assert failed(replicas.configure(0, 0, 2, "1"))
    assert replicas.groups[0].errored() is not None
    replicas.groups[0].set_timeout(timedelta(seconds=MANY_S))
    replicas.form([0, 1], "2")
    replicas.check([0, 1])


def test_with_a_timeout_of_a_year_a_replica_that_never_comes_is_named_in_bounded_time(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torchft, "LONGEST_CONFIGURE", timedelta(seconds=0.5))
    for number in (0, 1):
        replicas.groups[number].set_timeout(YEAR)
    assert "Timed out after 0.5 s: no word from rank 1" in failed(replicas.configure(0, 0, 2, "1"))
    monkeypatch.undo()
    replicas.form([0, 1], "2")
    replicas.check([0, 1])
    replicas.groups[1].abort()
    with pytest.raises(dist.DistBackendError, match="has left the group"):
        replicas.groups[0].allreduce([torch.ones(1)], dist.ReduceOp.SUM).wait()


def test_operations_have_the_timeout_that_was_set_last(replicas: Replicas) -> None:
    replicas.form([0, 1], "1")
    replicas.groups[0].set_timeout(timedelta(seconds=0.1))
    with pytest.raises(dist.DistBackendError, match=r"Timed out after 0\.1 s"):
        replicas.groups[0].allreduce([torch.ones(1)], dist.ReduceOp.SUM).wait()


@pytest.mark.parametrize("listens", [False, True], ids=["refuses", "silent"])
def test_a_store_that_is_gone_is_an_error_in_time(replicas: Replicas, listens: bool) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen(8)
        group = replicas.groups[0]
        group.set_timeout(timedelta(seconds=1))
        began = time.monotonic()
        with pytest.raises(RuntimeError):
            group.configure(f"127.0.0.1:{server.getsockname()[1]}/1", "replica", 0, 1)
        assert time.monotonic() - began < MANY_S
    assert group.errored() is not None
    group.set_timeout(timedelta(seconds=MANY_S))
    replicas.form([0], "2")
    replicas.check([0])


def test_without_a_nic_it_says_so(replicas: Replicas, tmp_path: Path) -> None:
    group = OnNic(tmp_path / "none.sock")
    with pytest.raises(dist.DistBackendError, match="cannot open the NIC"):
        group.configure(f"localhost:{replicas.store.port}/1", "replica", 0, 1)
    assert "cannot open the NIC" in str(group.errored())


def test_ddp_goes_on_after_an_all_reduce_that_failed() -> None:
    gradients = torch.ones(3)
    manager = SimpleNamespace(allreduce=lambda tensor: SimpleNamespace(wait=lambda: False))
    hook = torchft.DistributedDataParallel._comm_hook
    assert hook(manager, SimpleNamespace(buffer=lambda: gradients)).wait() is gradients


def test_without_torchft_it_names_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchft", None)
    monkeypatch.delitem(sys.modules, "mrc_lab.torch.torchft")
    with pytest.raises(ModuleNotFoundError, match=r"mrc_lab.torch.torchft needs torchft.*docs/training-faults.md"):
        importlib.import_module("mrc_lab.torch.torchft")
