"""Completion queues that are too small, shared, or hardly read: everything completes, and nothing grows without end."""

from __future__ import annotations

import random

import pytest

from mrc_host.errors import ResourceExhaustedError
from mrc_host.verbs_types import (
    Completion,
    CompletionOpcode,
    CompletionStatus,
    QpAddress,
    QpAttributes,
    QpState,
    QpType,
)
from tests.mrc_host.nic_world import MS, End, World, connect


def address_of(end: End) -> QpAddress:
    """Where to connect to."""
    return end.nic.qp_address(end.qpn)


def finish(world: World, ends: list[End], expected: int, limit: int) -> None:
    """Poll up to `limit` entries of every queue each 100 us until so many completions are there altogether."""
    for _ in range(20_000):
        for end in ends:
            end.done += end.nic.poll_cq(end.cq, limit, world.now)
        if sum(len(end.done) for end in ends) >= expected:
            return
        world.run(MS // 10)
    raise AssertionError(f"{[len(end.done) for end in ends]} completions, not {expected} together")


@pytest.mark.parametrize("kind", list(QpType))
@pytest.mark.parametrize("capacity", [1, 2, 16])
@pytest.mark.parametrize("limit", [1, 16])
def test_two_ends_posting_until_their_queues_are_full_both_complete(kind: QpType, capacity: int, limit: int) -> None:
    world = World(2, 2, 4)
    ends = list(connect(world, size=1 << 12, kind=kind, capacity=capacity, far_capacity=capacity))
    rounds = 5
    for _ in range(rounds):
        before = sum(len(end.done) for end in ends)
        for end, other in (ends, reversed(ends)):
            for i in range(capacity):
                end.write(other, 64, imm=i)
            with pytest.raises(ResourceExhaustedError, match="completion queue"):
                end.write(other, 64, imm=0)
        finish(world, ends, before + 4 * capacity, limit)
    for end in ends:
        assert {entry.status for entry in end.done} == {CompletionStatus.SUCCESS}
        arrived = [entry.imm for entry in end.done if entry.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM]
        assert arrived == list(range(capacity)) * rounds
        assert end.nic.qp_state(end.qpn) is QpState.RTS


@pytest.mark.parametrize("seed", range(5))
def test_queue_pairs_sharing_completion_queues_all_complete(seed: int) -> None:
    rng = random.Random(seed)
    world = World(3, 2, 4, seed=seed)
    capacity = rng.randrange(1, 9)
    numbers = [(0, 1), (1, 2), (2, 0)] * 3
    first = {number: world.nics[number].create_cq(capacity) for number in range(3)}
    pairs = []
    for a, b in numbers:
        made = connect(world, a, b, size=1 << 12)
        for end in made:  # in place of the queue pair that `connect` made, one on the queue shared by all of this NIC
            end.nic.destroy_qp(end.qpn, world.now)
            end.cq = first[end.number]
            end.qpn = end.nic.create_qp(0, QpType.MRC, end.cq, end.cq, QpAttributes())
        one, two = made
        for end, other in ((one, two), (two, one)):
            end.nic.connect_qp(end.qpn, address_of(other), world.now)
        pairs += [(one, two), (two, one)]
    left = {id(one): 20 for one, _ in pairs}
    done: dict[int, list[Completion]] = {number: [] for number in range(3)}
    for _ in range(20_000):
        for one, two in pairs:
            while left[id(one)]:
                try:
                    one.write(two, rng.randrange(1, 4096), imm=left[id(one)])
                except ResourceExhaustedError:
                    break
                left[id(one)] -= 1
        for number, cq in first.items():
            done[number] += world.nics[number].poll_cq(cq, rng.randrange(1, 4), world.now)
        if sum(map(len, done.values())) == len(pairs) * 20 * 2:
            break
        world.run(MS // 10)
    assert not any(left.values()), f"seed {seed}"
    assert sum(map(len, done.values())) == len(pairs) * 20 * 2, f"seed {seed}"
    assert all(entry.status is CompletionStatus.SUCCESS for entries in done.values() for entry in entries)


@pytest.mark.parametrize("how", ["destroy", "reset", "error"])
def test_a_destroyed_queue_pair_returns_its_completion_slots(how: str) -> None:
    world = World(2, 2, 4)
    a, b = connect(world, size=1 << 12, capacity=4)
    world.faults.dead_planes = {0, 1}
    for _ in range(4):
        a.write(b, 64)
    with pytest.raises(ResourceExhaustedError):
        a.write(b, 64)
    if how == "destroy":
        a.nic.destroy_qp(a.qpn, world.now)
    else:
        a.nic.modify_qp(a.qpn, QpState.RESET if how == "reset" else QpState.ERROR, world.now)
    assert [entry.status for entry in a.poll()] == [CompletionStatus.FLUSHED] * 4
    again = a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
    a.qpn = again
    a.nic.connect_qp(again, address_of(b), world.now)
    for _ in range(4):
        a.write(b, 64)
    with pytest.raises(ResourceExhaustedError):
        a.write(b, 64)


def test_unsignaled_requests_of_a_failed_queue_pair_take_bounded_memory() -> None:
    world = World(2, 2, 4)
    a, b = connect(world, size=1 << 12, capacity=4)
    depth = world.nics[0].config.settings.transport.send_queue_depth
    a.nic.modify_qp(a.qpn, QpState.ERROR, world.now)
    for _ in range(depth):
        a.write(b, 64, signaled=False)
    with pytest.raises(ResourceExhaustedError, match="send queue"):
        a.write(b, 64, signaled=False)
    got = a.poll()
    assert [(entry.status, entry.signaled) for entry in got] == [(CompletionStatus.FLUSHED, False)] * depth
    a.write(b, 64, signaled=False)
    assert len(a.poll()) == 1


def test_unpolled_failures_prevent_creating_more_queue_pairs() -> None:
    world = World(2, 2, 4)
    a, b = connect(world, size=1 << 12, capacity=4)
    for left in reversed(range(64)):
        a.nic.modify_qp(a.qpn, QpState.ERROR, world.now)
        for _ in range(1024):
            a.write(b, 64, signaled=False)
        a.nic.destroy_qp(a.qpn, world.now)
        if left:
            a.qpn = a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
            a.nic.connect_qp(a.qpn, address_of(b), world.now)
    with pytest.raises(ResourceExhaustedError, match="poll it first"):
        a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
    assert len(a.poll()) == 1 << 16
    a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
