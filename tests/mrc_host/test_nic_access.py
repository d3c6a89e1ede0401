"""A queue pair that grants no remote write takes none, whatever the region allows.

As in InfiniBand (Invalid Request NAK: a function that this queue pair does not support) and in Linux' software RoCE.
"""

from __future__ import annotations

import random

import pytest

from mrc_host.errors import InvalidArgumentError, StateError
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpState, QpType
from tests.mrc_host.nic_world import MS, End, World, connect
from tests.seeds import SEED

NO_WRITES = QpAttributes(remote_write=False)
REFUSED = CompletionStatus.REMOTE_INVALID_REQUEST_ERROR
pytestmark = pytest.mark.parametrize("kind", QpType)


def _finish(a: End, count: int) -> list[CompletionStatus]:
    """The statuses of all `count` writes."""
    assert a.world.run(1000 * MS, until=lambda: bool(a.poll()) and len(a.done) == count)
    return [c.status for c in a.done]


def _allow(end: End, allowed: bool) -> None:
    end.nic.modify_qp(end.qpn, QpState.RTS, end.world.now, {"remote_write": allowed})


@pytest.mark.parametrize("length", [0, 1, 4096, 20_000])
def test_a_write_to_a_queue_pair_that_takes_none_is_refused(kind: QpType, length: int) -> None:
    a, b = connect(World(), size=65536, kind=kind, attributes=NO_WRITES)
    a.write(b, length)
    a.write(b, length)
    assert _finish(a, 2) == [REFUSED, CompletionStatus.FLUSHED]
    assert "remote_write" in a.done[0].reason
    assert not any(b.buffer)
    assert (a.nic.qp_state(a.qpn), b.nic.qp_state(b.qpn)) == (QpState.ERROR, QpState.ERROR)
    assert not b.nic.query_qp(b.qpn).attributes.remote_write


def test_writes_can_be_allowed_and_forbidden_while_the_queue_pair_is_connected(kind: QpType) -> None:
    a, b = connect(World(), size=65536, kind=kind, attributes=NO_WRITES)
    _allow(b, True)
    a.write(b, 30_000)
    assert _finish(a, 1) == [CompletionStatus.SUCCESS]
    assert b.buffer[:30_000] == a.buffer[:30_000]
    _allow(b, False)
    before = bytes(b.buffer)
    a.write(b, 30_000, offset=32768)
    assert _finish(a, 2)[1] is REFUSED
    assert b.buffer == before


def test_a_message_that_began_while_it_was_allowed_is_taken_whole_and_the_next_is_not(kind: QpType) -> None:
    a, b = connect(World(), size=1 << 17, kind=kind)
    a.write(b, 1 << 17)
    assert a.world.run(until=lambda: b.nic.qp_counters(b.qpn).data_received >= 10)
    _allow(b, False)
    a.write(b, 100)
    assert _finish(a, 2) == [CompletionStatus.SUCCESS, REFUSED]
    assert b.buffer == a.buffer


def test_only_this_attribute_may_change_without_a_step_and_only_in_init_and_rts(kind: QpType) -> None:
    a, b = connect(World(), size=4096, kind=kind)
    for changes in ({}, {"timeout": 3}, {"timeout": 3, "remote_write": False}):
        with pytest.raises(StateError, match="only remote_write may change there"):
            b.nic.modify_qp(b.qpn, QpState.RTS, 0, changes)
    assert b.nic.query_qp(b.qpn).attributes.timeout == QpAttributes().timeout
    b.nic.modify_qp(b.qpn, QpState.ERROR, 0)
    with pytest.raises(InvalidArgumentError, match="takes no attributes"):
        b.nic.modify_qp(b.qpn, QpState.ERROR, 0, {"remote_write": False})
    b.nic.modify_qp(b.qpn, QpState.RESET, 0)
    with pytest.raises(InvalidArgumentError, match="takes no attributes"):
        b.nic.modify_qp(b.qpn, QpState.RESET, 0, {"remote_write": False})
    b.nic.modify_qp(b.qpn, QpState.INIT, 0)
    b.nic.modify_qp(b.qpn, QpState.INIT, 0, {"remote_write": False})
    b.nic.modify_qp(b.qpn, QpState.RTR, 0, remote=a.nic.qp_address(a.qpn))
    with pytest.raises(StateError):
        b.nic.modify_qp(b.qpn, QpState.RTR, 0, {"remote_write": True})
    assert not b.nic.query_qp(b.qpn).attributes.remote_write
    b.nic.modify_qp(b.qpn, QpState.RESET, 0)
    assert b.nic.query_qp(b.qpn).attributes.remote_write, "as it was created"


def test_what_is_refused_is_what_the_last_change_says(kind: QpType) -> None:
    """Random changes in all steps, of several lives: after them a write gets what the other end grants."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    for _ in range(20):
        world, created = World(), chance.random() < 0.5
        a, b = connect(world, size=65536, kind=kind, attributes=QpAttributes(remote_write=created))
        granted = created
        for _ in range(chance.randrange(3)):
            for end in (a, b):
                end.nic.modify_qp(end.qpn, QpState.RESET, world.now)
            remotes = {QpState.RTR: b.nic.qp_address(b.qpn)}, {QpState.RTR: a.nic.qp_address(a.qpn)}
            granted = created
            for state in (QpState.INIT, QpState.RTR, QpState.RTS):
                changes = {"remote_write": chance.random() < 0.5} if chance.random() < 0.5 else {}
                granted = changes.get("remote_write", granted)
                a.nic.modify_qp(a.qpn, state, world.now, remote=remotes[0].get(state))
                b.nic.modify_qp(b.qpn, state, world.now, changes, remote=remotes[1].get(state))
        if chance.random() < 0.5:
            granted = chance.random() < 0.5
            _allow(b, granted)
        assert b.nic.query_qp(b.qpn).attributes.remote_write == granted
        a.write(b, chance.randrange(20_000))
        assert _finish(a, 1) == [CompletionStatus.SUCCESS if granted else REFUSED]
