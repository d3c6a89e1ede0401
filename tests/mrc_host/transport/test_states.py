"""The life of a queue pair, step by step: what each needs, what it allows, and how to go back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mrc_host.errors import InvalidArgumentError, MrcError, StateError, UnknownDestinationError
from mrc_host.transport.states import TAKES
from mrc_host.verbs_types import CompletionStatus, QpAddress, QpAttributes, QpEvent, QpState, QpType
from tests.mrc_host.nic_world import MS, End, World, address, connect

STEPS: tuple[tuple[QpState, dict[str, Any]], ...] = (
    (QpState.INIT, {"ev_profile": 0}),
    (QpState.RTR, {"path_mtu": 1024, "mpr": 8, "max_wimm": 32, "receive_psn": 7}),
    (QpState.RTS, {"mpr_dest": 8, "max_wimm_dest": 32, "timeout": 12, "retry_count": 3, "send_psn": 9}),
)


def end(world: World, number: int, kind: QpType = QpType.MRC) -> End:
    nic = world.nics[number]
    buffer = bytearray(1 << 16)
    region = nic.register_memory(0, memoryview(buffer), 3)  # type: ignore[arg-type]
    cq = nic.create_cq(64)
    return End(world, number, nic.create_qp(0, kind, cq, cq, QpAttributes()), cq, buffer, region)


def step(one: End, to: QpState, other: End, **changes: Any) -> None:
    remote = other.nic.qp_address(other.qpn) if to is QpState.RTR else None
    if remote is not None and "receive_psn" in changes:
        remote = replace(remote, psn=None)
    one.nic.modify_qp(one.qpn, to, one.world.now, changes, remote=remote)


@pytest.mark.parametrize("kind", QpType)
def test_all_transitions_with_their_attributes_give_a_working_queue_pair(kind: QpType) -> None:
    world = World()
    one, two = end(world, 0, kind), end(world, 1, kind)
    for psns, a, b in ((("send_psn", "receive_psn"), one, two), (("receive_psn", "send_psn"), two, one)):
        assert a.nic.qp_state(a.qpn) is QpState.RESET
        for to, changes in STEPS:
            given = {k: v for k, v in changes.items() if k not in ("send_psn", "receive_psn")}
            wanted = {psns[0]: 500, psns[1]: 900}
            given.update({k: v for k, v in wanted.items() if k in TAKES[to]})
            step(a, to, b, **given)
            assert a.nic.qp_state(a.qpn) is to
    one.buffer[:5000] = b"x" * 5000
    one.write(two, 5000, imm=3)
    assert world.run(until=lambda: bool(one.poll()))
    assert one.done[0].status is CompletionStatus.SUCCESS
    assert two.buffer[:5000] == one.buffer[:5000]
    assert two.poll()[0].imm == 3


@pytest.mark.parametrize("kind", QpType)
def test_in_rtr_a_queue_pair_receives_but_does_not_send(kind: QpType) -> None:
    world = World()
    one, two = end(world, 0, kind), end(world, 1, kind)
    one.nic.connect_qp(one.qpn, two.nic.qp_address(two.qpn), world.now)
    step(two, QpState.INIT, one)
    step(two, QpState.RTR, one)
    with pytest.raises(StateError, match="RTR"):
        two.write(one, 10)
    one.buffer[:100] = bytes(range(100))
    one.write(two, 100, imm=1)
    assert world.run(1000 * MS, until=lambda: bool(one.poll()))
    assert one.done[0].status is CompletionStatus.SUCCESS
    assert two.buffer[:100] == bytes(range(100))
    step(two, QpState.RTS, one)
    wr_id = two.write(one, 100)
    assert world.run(1000 * MS, until=lambda: any(c.wr_id == wr_id for c in two.poll()))


@pytest.mark.parametrize("to", QpState)
@pytest.mark.parametrize("state", QpState)
def test_every_state_transition_is_allowed_or_refused(state: QpState, to: QpState) -> None:
    world = World()
    one, two = end(world, 0), end(world, 1)
    if state is QpState.ERROR:
        step(one, QpState.ERROR, two)
    else:
        for reached, _ in STEPS[: [QpState.RESET, QpState.INIT, QpState.RTR, QpState.RTS].index(state)]:
            step(one, reached, two)
    allowed = {
        (QpState.RESET, QpState.INIT), (QpState.INIT, QpState.RTR), (QpState.RTR, QpState.RTS),
    }  # fmt: skip
    if (state, to) in allowed or to in (QpState.RESET, QpState.ERROR):
        step(one, to, two)
        assert one.nic.qp_state(one.qpn) is to
    else:
        with pytest.raises(StateError, match=f"from {state.name} to {to.name}"):
            step(one, to, two)
        assert one.nic.qp_state(one.qpn) is state


def test_attributes_belong_to_their_transition_and_errors_change_nothing() -> None:
    world = World()
    one, two = end(world, 0), end(world, 1)
    step(one, QpState.INIT, two)
    here = two.nic.qp_address(two.qpn)
    attempts: list[tuple[type[MrcError], str, dict[str, Any], QpAddress | None]] = [
        (InvalidArgumentError, "not timeout", {"timeout": 12}, here),
        (InvalidArgumentError, "needs it", {}, None),
        (InvalidArgumentError, "mpr must be", {"mpr": 0}, here),
        (InvalidArgumentError, "path_mtu", {"path_mtu": 100}, here),
        (UnknownDestinationError, "destinations", {}, QpAddress(address(9), 1, 0)),
    ]
    for kind, words, changes, remote in attempts:
        with pytest.raises(kind, match=words):
            one.nic.modify_qp(one.qpn, QpState.RTR, world.now, changes, remote=remote)
        assert one.nic.qp_state(one.qpn) is QpState.INIT
    one.nic.modify_qp(one.qpn, QpState.RTR, world.now, remote=here)
    with pytest.raises(InvalidArgumentError, match="needs it"):
        one.nic.modify_qp(one.qpn, QpState.RTS, world.now, remote=here)
    with pytest.raises(InvalidArgumentError, match="no attributes, not mpr"):
        one.nic.modify_qp(one.qpn, QpState.ERROR, world.now, {"mpr": 3})


@pytest.mark.parametrize("kind", QpType)
@pytest.mark.parametrize("to", [QpState.ERROR, QpState.RESET])
def test_leaving_rts_completes_everything_once_and_a_reset_pair_works_again(kind: QpType, to: QpState) -> None:
    world = World()
    one, two = connect(world, kind=kind)
    for _ in range(5):
        one.write(two, 1 << 18)
    world.run(20_000)
    step(one, to, two)
    assert [c.status for c in one.poll()] == [CompletionStatus.FLUSHED] * 5
    assert [c.wr_id for c in one.done] == [1, 2, 3, 4, 5]
    events = [e for e in one.nic.async_events() if isinstance(e, QpEvent)]
    assert len(events) == (to is QpState.ERROR)
    world.run(500 * MS)
    assert not one.poll()
    for each in (one, two):
        step(each, QpState.RESET, each)
    world.run(1000 * MS)  # what was on the way is gone
    two.poll()
    for a, b in ((one, two), (two, one)):
        a.nic.connect_qp(a.qpn, b.nic.qp_address(b.qpn), world.now)
    one.done.clear()
    one.write(two, 1 << 18, imm=1)
    assert world.run(2000 * MS, until=lambda: bool(one.poll()))
    assert one.done[0].status is CompletionStatus.SUCCESS
    assert two.buffer[: 1 << 18] == one.buffer[: 1 << 18]


def test_posts_are_flushed_in_error_and_refused_before_rts() -> None:
    world = World()
    one, two = end(world, 0), end(world, 1)
    for to in (QpState.INIT, QpState.RTR):
        with pytest.raises(StateError):
            one.write(two, 10)
        step(one, to, two)
    step(one, QpState.ERROR, two)
    one.write(two, 10)
    assert [c.status for c in one.poll()] == [CompletionStatus.FLUSHED]
