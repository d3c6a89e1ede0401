"""Posted receives: which completion each gives its number to, and what becomes of those left over."""

import pytest

from mrc_host.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from mrc_host.verbs_types import MAX_RECEIVES, CompletionStatus, QpAttributes, QpState, QpType
from tests.mrc_host.nic_world import MS, End, World, connect

KINDS = [QpType.MRC, QpType.RC]


def numbers(end: End) -> list[tuple[int, CompletionStatus]]:
    return [(entry.wr_id, entry.status) for entry in end.poll()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_with_immediate_consumes_the_oldest_receive_if_any(kind: QpType) -> None:
    world = World()
    a, b = connect(world, size=1 << 16, kind=kind)
    b.nic.post_recv(b.qpn, (11, 12), b.world.now)
    a.write(b, 20_000, imm=0)
    a.write(b, 10)  # takes none
    a.write(b, 0, imm=1)
    a.write(b, 10, imm=2)
    assert world.run(1000 * MS, until=a.idle)
    assert [(entry.wr_id, entry.imm) for entry in b.poll()] == [(11, 0), (12, 1), (0, 2)]
    b.nic.post_recv(b.qpn, (13,), b.world.now)
    a.write(b, 10, imm=3)
    assert world.run(1000 * MS, until=a.idle)
    assert numbers(b) == [(13, CompletionStatus.SUCCESS)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["error", "reset", "destroy"])
def test_remaining_receives_are_flushed_in_order(kind: QpType, end: str) -> None:
    _a, b = connect(World(), size=100, kind=kind)
    b.nic.post_recv(b.qpn, (1, 2), b.world.now)
    if end == "destroy":
        b.nic.destroy_qp(b.qpn, b.world.now)
    else:
        b.nic.modify_qp(b.qpn, QpState.ERROR if end == "error" else QpState.RESET, b.world.now)
    assert numbers(b) == [(1, CompletionStatus.FLUSHED), (2, CompletionStatus.FLUSHED)]
    if end == "error":
        b.nic.post_recv(b.qpn, (3,), b.world.now)
        assert numbers(b) == [(3, CompletionStatus.FLUSHED)]
        b.nic.destroy_qp(b.qpn, b.world.now)
    assert numbers(b) == []


def test_flushed_unpolled_receives_count_towards_the_limit() -> None:
    _a, b = connect(World(), size=100)
    b.nic.post_recv(b.qpn, tuple(range(MAX_RECEIVES)), b.world.now)
    with pytest.raises(ResourceExhaustedError, match="4096 receives"):
        b.nic.post_recv(b.qpn, (1,), b.world.now)
    b.nic.modify_qp(b.qpn, QpState.ERROR, b.world.now)
    with pytest.raises(ResourceExhaustedError, match="4096 receives"):
        b.nic.post_recv(b.qpn, (1,), b.world.now)
    assert len(b.nic.poll_cq(b.cq, 10, b.world.now)) == 10
    b.nic.post_recv(b.qpn, (1,) * 10, b.world.now)
    assert len(b.poll()) == MAX_RECEIVES


def test_flushed_receives_take_no_completion_slot_of_requests() -> None:
    a, _b = connect(World(), size=100)
    a.nic.post_recv(a.qpn, tuple(range(MAX_RECEIVES)), a.world.now)
    a.nic.modify_qp(a.qpn, QpState.ERROR, a.world.now)
    a.write(_b, 10, signaled=False)  # flushed too, not refused
    assert len(a.poll()) == MAX_RECEIVES + 1


def test_flushed_receives_cannot_grow_a_completion_queue_without_bound() -> None:
    a, _b = connect(World(), size=100)
    for _ in range(16):
        qpn = a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
        a.nic.post_recv(qpn, tuple(range(MAX_RECEIVES)), a.world.now)
        a.nic.destroy_qp(qpn, a.world.now)
    with pytest.raises(ResourceExhaustedError, match="full of failures"):
        a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
    a.nic.poll_cq(a.cq, 1, a.world.now)
    a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())


def test_values_out_of_range_are_refused_and_nothing_is_posted() -> None:
    _a, b = connect(World(), size=100)
    for wrong in (-1, 1 << 64):
        with pytest.raises(InvalidArgumentError, match="64-bit"):
            b.nic.post_recv(b.qpn, (1, wrong), b.world.now)
    with pytest.raises(NotFoundError):
        b.nic.post_recv(b.qpn ^ 1, (1,), b.world.now)
    b.nic.destroy_qp(b.qpn, b.world.now)
    assert b.poll() == []
