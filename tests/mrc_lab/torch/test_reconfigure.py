"""Groups are reconfigured as torch 2.14's contract says: survivors go on, others come, and every failure has an end."""

from __future__ import annotations

import random
import threading
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

from mrc_lab.torch import reconfiguration
from mrc_lab.torch.options import ReconfigureOptions
from mrc_lab.torch.reconfiguration import Membership, new_handle
from mrc_lab.torch.stages import Stage
from mrc_lab.workloads.liveness import monitor
from tests.mrc_lab.torch.processes import Process, Processes
from tests.mrc_lab.torch.ranks import Ranks
from tests.seeds import SEED
from tests.waiting import until

NEVER_S = 1e9  # half a lifetime
FAILS = pytest.mark.parametrize("how", ["kill", "stop"])


def failure(work: Any) -> str:
    with pytest.raises(dist.DistBackendError) as caught:
        work.wait()
    return str(caught.value)


def ended_badly(work: Any) -> bool:
    """Whether a work has failed, and not well ended; it must end."""
    until(work.is_completed, "the work to end")
    return not work.is_success()


def test_a_group_has_no_members_before_it_is_reconfigured() -> None:
    with Processes(3) as processes:
        group = processes.all[1].group
        assert group.supports_reconfigure
        assert (group.rank(), group.size()) == (1, 3)
        assert "call reconfigure" in failure(group.barrier())
        assert "call reconfigure" in failure(group.send([torch.ones(1)], 0))
        assert group.get_error() is ErrorType.SUCCESS
        processes.form(processes.all)


def test_survivors_go_on_without_a_killed_rank_in_the_middle_of_a_collective() -> None:
    with Processes(4, timeout_s=NEVER_S) as processes:
        a, b, c, d = processes.all
        processes.form([a, b, c, d])
        works = [each.group.allreduce([torch.ones(100)]) for each in (a, b, d)]
        processes.kill(c)
        assert all(r"rank 2 (h3) is lost" in failure(work) for work in works)
        processes.form([a, b, d])
        assert a.group.get_error() is ErrorType.SUCCESS
        assert a.group.lost == ()
        processes.kill(a)
        until(lambda: b.group.lost and d.group.lost, "the second loss")
        processes.form([d, b])
        processes.form([b])


def test_a_rank_returns_twice_and_new_ones_come() -> None:
    with Processes(3) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        for _ in range(2):
            processes.form([a, c])
            processes.form([a, b, c])
        processes.kill(b)
        until(lambda: a.group.lost, "the loss")
        again = processes.start()
        processes.form([c, again, a])


def test_a_silent_host_that_comes_back_returns_with_its_old_handle_and_address() -> None:
    with Processes(3, timeout_s=NEVER_S) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        processes.network.silent.add(b.device.nic)
        assert "rank 1 (h2) is lost: its NIC answers on no plane" in failure(a.group.barrier())
        until(lambda: c.group.lost, "the loss")
        processes.form([a, c])
        processes.network.silent.clear()  # what it sent is under way still
        processes.form([a, b, c])


def test_merge_split_and_single_groups() -> None:
    with Processes(4) as processes:
        a, b, c, d = processes.all
        for group in ([a, b], [c, d], [a, b, c, d], [d, a]):
            processes.form(group)
        for each in processes.all:
            processes.form([each])
        processes.form([b, d, c, a])


def test_messages_and_monitored_barriers_begin_anew() -> None:
    with Processes(3) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        threads = [threading.Thread(target=each.group.monitored_barrier) for each in (a, b, c)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        old = b.group.recv([torch.zeros(2)], 0, 7)
        new = processes.start()
        processes.form([a, b, new])
        assert "the group is being reconfigured" in failure(old)
        place = torch.zeros(2)
        work = new.group.recv([place], 0, 7)
        a.group.send([torch.ones(2)], 2, 7).wait()
        work.wait()
        assert place.tolist() == [1.0, 1.0]
        threads = [threading.Thread(target=each.group.monitored_barrier) for each in (a, b, new)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_nothing_of_the_old_group_is_left_on_the_nics() -> None:
    with Processes(3) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])

        before = [open_pairs(each) for each in (a, b)]
        processes.form([a, b])
        after = [open_pairs(each) for each in (a, b)]
        assert all(not old & new for old, new in zip(before, after, strict=True))
        assert [len(new) for new in after] == [1 + 2 + 2] * 2, "heartbeats, collectives, messages: of one peer"


def open_pairs(process: Process) -> set[int]:
    return {pair.qpn for domain in process.device.domains for pair in domain.pairs if not pair.closed}


def test_a_failed_group_is_given_back_in_full_if_that_is_cancelled() -> None:
    """As by the timeout, after another member has given up."""
    with Processes(3, timeout_s=NEVER_S) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        c.at, a.at = (Stage.COLLECTIVES_CARDS, "stop"), (Stage.LEAVE, "hold")
        works = processes.reconfigure([a, b, c])
        until(lambda: c.reached, "the stage")
        c.group.abort()
        until(lambda: a.reached, "the group to be given back")
        a.at = c.at = None
        aborting = threading.Thread(target=a.group.abort)
        aborting.start()
        until(lambda: a.group._reconfiguration._forming is None, "the second reason to end")
        processes.release(a)
        aborting.join()
        assert all(map(ended_badly, works))
        assert open_pairs(a) == set()
        processes.form([a, b, c])


async def unheard(*_: Any) -> None:
    """A goodbye that is lost on its way, as when a plane is dark."""


def test_a_member_that_has_closed_the_old_group_is_not_lost_if_its_goodbye_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has formed the new one before."""
    with Processes(3, timeout_s=NEVER_S) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        old = a.group._links
        a.at = (Stage.LEAVE, "hold")
        with monkeypatch.context() as patch:
            patch.setattr(monitor.PeerMonitor, "say_goodbye", unheard)
            works = processes.reconfigure([c, a, b])
            until(lambda: a.reached and works[0].is_completed() and works[2].is_completed(), "the others to be done")
            until(lambda: {loss.rank for loss in old.lost} == {1, 2}, "the old group to be seen gone")
        a.at = None
        processes.release(a)
        assert works[1].wait()
        processes.check([c, a, b])


def test_a_rank_that_returns_waits_for_members_whose_goodbye_it_has_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have gone on without it; to its NIC it looks as if they had ended. One that has is still noticed."""
    with Processes(4, timeout_s=NEVER_S) as processes:
        a, b, c, d = processes.all
        processes.form([a, b, c, d])
        processes.kill(d)
        until(lambda: a.group.lost and b.group.lost and c.group.lost, "the loss")
        with monkeypatch.context() as patch:
            patch.setattr(monitor.PeerMonitor, "say_goodbye", unheard)
            processes.form([a, b])
            until(lambda: {loss.rank for loss in c.group.lost} == {0, 1, 3}, "the old group to be seen gone")
        looked = CountingStore(c)
        options = ReconfigureOptions(1, [each.handle for each in (a, b, c)])
        works = [c.group.reconfigure(options)]
        until(lambda: looked.checks > 8, "it to look for them")
        assert not works[0].is_completed()
        works += [each.group.reconfigure(options) for each in (a, b)]
        assert all(work.wait() for work in works)
        processes.check([a, b, c])


class CountingStore:
    """In place of a process's store: counts how often it looks for keys."""

    def __init__(self, process: Process) -> None:
        store = process.group._reconfiguration._store
        self.checks = 0
        self._inner = store._store
        store._store = self

    def check(self, keys: list[str]) -> Any:
        self.checks += 1
        return self._inner.check(keys)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_an_excluded_rank_learns_that_the_others_have_left() -> None:
    with Processes(3, timeout_s=NEVER_S) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        work = c.group.barrier()
        processes.form([a, b])
        assert "has left the group" in failure(work)
        assert c.group.get_error() is ErrorType.REMOTE_ERROR


def test_members_that_call_with_other_lists_fail_at_once_and_may_try_again() -> None:
    with Processes(3, timeout_s=NEVER_S) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        works = [
            a.group.reconfigure(ReconfigureOptions(1, [a.handle, b.handle])),
            b.group.reconfigure(ReconfigureOptions(1, [a.handle, b.handle, c.handle])),
        ]
        for work in works:
            text = failure(work)
            assert "reconfigures with other members" in text or "has given up" in text
        assert "its reconfiguration failed" in failure(a.group.barrier())
        assert a.group.get_error() is ErrorType.COMM_ERROR
        processes.form([a, b, c])


def test_a_reconfiguration_that_only_some_call_ends_by_its_timeout_and_names_the_absent() -> None:
    with Processes(3) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        options = ReconfigureOptions(7, [each.handle for each in (a, b, c)], timedelta(seconds=0.3))
        works = [each.group.reconfigure(options) for each in (a, b)]
        texts = [failure(work) for work in works]
        assert any("Timed out after 0.3 s: no call from rank 2 (h3)" in text for text in texts)
        assert all("rank 2 (h3)" in text for text in texts)


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_timeout_of_nothing_ends_at_once(seconds: int) -> None:
    with Processes(2) as processes:
        for work in processes.reconfigure(processes.all, timeout_s=seconds):
            assert "Timed out" in failure(work) or "has given up" in failure(work)
        processes.form(processes.all)


def test_a_member_that_has_ended_before_fails_the_reconfiguration_at_once() -> None:
    with Processes(3, timeout_s=NEVER_S) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        processes.kill(b)
        until(lambda: a.group.lost and c.group.lost, "the loss")
        options = ReconfigureOptions(9, [each.handle for each in (a, b, c)])
        for work in [each.group.reconfigure(options) for each in (a, c)]:
            assert "rank 1 (h2) is lost: its process has ended" in failure(work)
        processes.form([a, c])


def test_without_the_store_a_reconfiguration_fails_and_says_so() -> None:
    with Processes(2, timeout_s=NEVER_S) as processes:
        processes.form(processes.all)

        class Gone:
            def __getattr__(self, name: str) -> Any:
                def fail(*_: Any) -> None:
                    raise dist.DistNetworkError("connection reset by peer")

                return fail

        for process in processes.all:
            process.group._reconfiguration._store._store = Gone()
        for work in processes.reconfigure(processes.all):
            assert "DistNetworkError: connection reset by peer" in failure(work)


def test_a_store_that_answers_nothing_does_not_outlast_the_timeout() -> None:
    with Processes(2) as processes:
        processes.form(processes.all)
        released = threading.Event()

        class Silent:
            def __getattr__(self, name: str) -> Any:
                return lambda *_: released.wait()

        for process in processes.all:
            process.group._reconfiguration._store._store = Silent()
        for work in processes.reconfigure(processes.all, timeout_s=0.2):
            assert "Timed out after 0.2 s" in failure(work)
        released.set()


def test_abort_fails_what_is_under_way_and_a_reconfiguration_recovers() -> None:
    with Processes(2, timeout_s=NEVER_S) as processes:
        a, b = processes.all
        processes.form([a, b])
        called = threading.Event()
        a.group.register_abort_hook(3, called.set)
        work = a.group.barrier()
        other = b.group.recv([torch.zeros(1)], 0, 0)
        a.group.abort()
        assert called.wait(10)
        failure(work)
        assert a.group.get_error() is ErrorType.SUCCESS
        assert "has left the group" in failure(b.group.barrier())
        failure(other)
        processes.form([a, b])


@pytest.mark.parametrize("end", ["abort", "shutdown"])
def test_abort_ends_a_reconfiguration_under_way_for_all(end: str) -> None:
    with Processes(3, timeout_s=NEVER_S) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        c.at = (Stage.MESSAGES_CARDS, "stop")
        works = processes.reconfigure([a, b, c])
        until(lambda: c.reached, "the stage")
        getattr(c.group, end)()
        assert "aborted" in failure(works[2])
        assert all("rank 2 (h3) has given up the group" in failure(work) for work in works[:2])
        c.at = None
        processes.form([a, b, c] if end == "abort" else [a, b])


def test_abort_hooks_are_called_when_a_rank_is_lost_unless_they_are_taken_back() -> None:
    with Processes(2, timeout_s=NEVER_S) as processes:
        a, b = processes.all
        processes.form([a, b])
        first, second = threading.Event(), threading.Event()
        a.group.register_abort_hook(0, first.set)
        a.group.register_abort_hook(1, second.set)
        a.group.unregister_abort_hook(0)
        a.group.unregister_abort_hook(5)
        processes.kill(b)
        assert second.wait(10)
        assert not first.is_set()


def test_what_cannot_be_reconfigured_is_refused_at_once() -> None:
    with Processes(2) as processes:
        a, b = processes.all
        cases = {
            "is not among those of the new members": [b.handle],
            "is there twice": [a.handle, a.handle],
            "is no handle of the backend mrc": [a.handle, "gloo:0"],
        }
        for text, handles in cases.items():
            with pytest.raises(dist.DistBackendError, match=text):
                a.group.reconfigure(ReconfigureOptions(1, handles))
        works = processes.reconfigure([a, b])
        with pytest.raises(dist.DistBackendError, match="is under way"):
            a.group.reconfigure(ReconfigureOptions(2, [a.handle]))
        for work in works:
            work.wait()
        with pytest.raises(RuntimeError, match="already used"):
            a.group.reconfigure(ReconfigureOptions(101, [a.handle]))
        processes.check([a, b])
    with pytest.raises(dist.DistBackendError, match="destroyed"):
        a.group.reconfigure(ReconfigureOptions(3, [a.handle]))


def test_an_ordinary_group_does_not_reconfigure() -> None:
    with Ranks(1) as ranks:
        (group,) = ranks.groups
        assert not group.supports_reconfigure
        with pytest.raises(dist.DistBackendError, match="enable_reconfigure"):
            group.get_reconfigure_handle()
        with pytest.raises(dist.DistBackendError, match="enable_reconfigure"):
            group.reconfigure(ReconfigureOptions(1, []))


def test_a_set_of_handles_gives_all_members_the_same_order() -> None:
    one, other = new_handle("h1"), new_handle("h2")
    assert Membership.of(1, {one, other}, one).handles == Membership.of(1, {other, one}, other).handles


def test_random_losses_at_random_stages_end_in_time_and_the_others_go_on() -> None:
    draw = random.Random(SEED)
    print("seed", SEED)
    for _ in range(30):
        how = draw.choice(("kill", "stop"))
        with Processes(draw.randrange(3, 6), timeout_s=NEVER_S if how == "kill" else 1.5) as processes:
            members = processes.all[:]
            processes.form(members)
            victims = draw.sample(members, draw.choice((1, 2)))
            for victim in victims:
                victim.at = (draw.choice(list(Stage)), how)
            called = draw.sample(members, len(members))
            if draw.random() < 0.2:
                works = [each.group.allreduce([torch.ones(1000)]) for each in called]
            else:
                works = processes.reconfigure(called)
            print([(victim.number, victim.at) for victim in victims])
            for process, work in zip(called, works, strict=True):
                if process not in victims:
                    ended_badly(work)
            for victim in victims:
                victim.at = None  # whatever has ended the operation before the victim's stage
            for process, work in zip(called, works, strict=True):
                if not process.reached:
                    ended_badly(work)
            others = [each for each in members if not each.reached]
            processes.form(draw.sample(others, len(others)))


JOINING = [stage for stage in Stage if "/" in stage.value]


@FAILS
@pytest.mark.parametrize("stage", JOINING, ids=lambda stage: stage.name.lower())
def test_a_newcomer_that_is_lost_while_it_joins_ends_the_others_in_time_and_they_go_on(
    stage: Stage, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No queue pair leads to it before it has connected: until then there is a bound of its own."""
    for module in (reconfiguration, monitor):
        monkeypatch.setattr(module, "CONNECT_S", 1.0)
    with Processes(2, timeout_s=NEVER_S if how == "kill" else 2.5) as processes:
        a, b = processes.all
        processes.form([a, b])
        comes = processes.start()
        comes.at = (stage, how)
        works = processes.reconfigure([a, comes, b])
        assert ended_badly(works[0])
        assert ended_badly(works[2])
        assert comes.reached
        processes.form([b, a])


def test_a_second_try_still_knows_who_was_lost_during_the_first() -> None:
    with Processes(3, timeout_s=NEVER_S) as processes:
        a, b, c = processes.all
        processes.form([a, b, c])
        everyone = [each.handle for each in (a, b, c)]
        works = [
            a.group.reconfigure(ReconfigureOptions(1, everyone)),
            b.group.reconfigure(ReconfigureOptions(1, everyone[:2])),
        ]
        assert all(ended_badly(work) for work in works)
        processes.kill(c)
        for work in [each.group.reconfigure(ReconfigureOptions(2, everyone)) for each in (a, b)]:
            assert "rank 2 (h3) is lost: its process has ended" in failure(work)
        processes.form([a, b])


@FAILS
@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name.lower())
def test_a_rank_that_is_lost_at_any_stage_ends_the_others_in_time_and_they_go_on(stage: Stage, how: str) -> None:
    """A killed rank is noticed even without a timeout worth the name; one that is stopped is alive, and costs one."""
    with Processes(4, timeout_s=NEVER_S if how == "kill" else 1.5) as processes:
        a, b, c, d = processes.all
        processes.form([a, b, c, d])
        victim, others = b, [a, c, d]
        victim.at = (stage, how)
        if stage is Stage.COLLECTIVE:
            works = [each.group.allreduce([torch.ones(1000)]) for each in (a, b, c, d)]
        else:
            works = processes.reconfigure([a, b, c, d])
        ended_well = [other for other in others if not ended_badly(works[other.number])]
        assert victim.reached
        assert not ended_well or stage is Stage.LEAVE, "only who has joined already may be lost without an error"
        for other in ended_well:
            assert ended_badly(other.group.barrier())
        processes.form(others)
