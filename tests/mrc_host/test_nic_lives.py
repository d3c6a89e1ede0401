"""Queue pairs that are reset, destroyed or restarted while packets of their earlier life are still on their way.

Whatever comes late, a write that completes with SUCCESS is in memory, and nothing else has changed there.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from mrc_host.config import TransportSettings
from mrc_host.errors import InvalidArgumentError, MrcError, StateError, UnknownDestinationError
from mrc_host.nic import Nic
from mrc_host.verbs_types import CompletionStatus, EvMode, EvProfile, QpAddress, QpAttributes, QpState, QpType
from mrc_host.wire import opcodes
from mrc_host.wire.psn import MASK
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.nic_world import MS, US, End, World, address, connect, make_config

Frame = tuple[int, int, bytes]  # NIC that sent it, port, frame
SLOT = 512


def reset(*ends: End) -> None:
    for end in ends:
        end.nic.modify_qp(end.qpn, QpState.RESET, end.world.now)
        end.poll()
        end.done.clear()


def join(one: End, two: End) -> None:
    for near, far in ((one, two), (two, one)):
        near.nic.connect_qp(near.qpn, far.nic.qp_address(far.qpn), near.world.now)


def recorded(world: World) -> list[Frame]:
    """Every frame from now on, as it leaves."""
    frames: list[Frame] = []

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes:
        frames.append((nic, port, frame))
        return frame

    world.tap = tap
    return frames


def fill(one: End, seed: int) -> None:
    one.buffer[:] = random.Random(seed).randbytes(len(one.buffer))


def arrived(one: End, two: End, slot: int) -> bool:
    there = slice(slot * SLOT, (slot + 1) * SLOT)
    return one.buffer[there] == two.buffer[there]


@pytest.mark.parametrize("kind", QpType)
@pytest.mark.parametrize("seed", range(8))
def test_late_packets_change_nothing_in_the_next_connection(kind: QpType, seed: int) -> None:
    rng = random.Random(seed)
    world = World(2, 2, 4, seed=seed)
    a, b = connect(world, size=1 << 17, kind=kind)
    old = recorded(world)
    for life in range(4):
        fill(a, seed * 10 + life)
        b.buffer[:] = bytes(len(b.buffer))
        world.tap = None
        late = rng.sample(old, min(len(old), 60))
        used = rng.sample(range(256), 40)
        for number, slot in enumerate(used):
            a.write(b, SLOT, offset=slot * SLOT, imm=number if number % 3 == 0 else None)
            for nic, port, frame in late[number::40]:
                world.at(world.now + rng.randrange(300 * US), lambda n=nic, p=port, f=frame: world.carry(n, p, f))
            if rng.random() < 0.5:
                world.run(rng.randrange(1, 50 * US))
        assert world.run(20_000 * MS, until=lambda: len(a.poll()) >= 0 and len(a.done) == 40), seed
        world.run(5 * MS)
        assert {c.status for c in a.done} == {CompletionStatus.SUCCESS}
        assert all(arrived(a, b, slot) for slot in used)
        untouched = set(range(256)) - set(used)
        assert not any(any(b.buffer[slot * SLOT : (slot + 1) * SLOT]) for slot in untouched), (seed, life)
        b.poll()
        assert len(b.done) == 14
        old = recorded(world)
        a.write(b, SLOT * 40)
        b.write(a, 100, offset=1 << 16)
        world.run(5 * MS)
        a.poll()
        reset(a, b)
        join(a, b)


@pytest.mark.parametrize("kind", QpType)
def test_late_responses_complete_nothing(kind: QpType) -> None:
    world = World(2, 2, 4)
    a, b = connect(world, kind=kind)
    frames = recorded(world)
    a.write(b, SLOT)
    world.run(50 * MS)
    answers = [frame for frame in frames if frame[0] == 1]
    assert answers
    reset(a, b)
    join(a, b)
    world.tap = lambda nic, port, to, frame, now: None if nic == 0 else frame  # nothing of this life arrives
    a.write(b, SLOT, offset=8192)
    for nic, port, frame in answers * 3:
        world.run(20 * US)
        world.carry(nic, port, frame)
    world.run(100 * MS)
    assert not a.poll()
    world.tap = None
    assert world.run(20_000 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.SUCCESS
    assert arrived(a, b, 16)


def test_a_packet_of_an_earlier_connection_is_dropped_and_counted() -> None:
    world = World(2, 2, 4)
    a, b = connect(world)
    frames = recorded(world)
    a.write(b, SLOT)
    world.run(50 * MS)
    reset(a, b)
    join(a, b)
    world.run(50 * MS)
    before = [dict(end.nic.nic_counters()) for end in (a, b)]
    for nic, port, frame in [f for f in frames if f[2][SRV6_PREFIX] < opcodes.ENDPOINT_REQUEST or f[0] == 1]:
        world.carry(nic, port, frame)
    world.run(5 * MS)
    dropped = [end.nic.nic_counters()["drop_other_life"] - before[end.number]["drop_other_life"] for end in (a, b)]
    assert dropped[1] == 1
    assert dropped[0] >= 2  # SACK and transport ACK


@pytest.mark.parametrize("kind", QpType)
def test_one_end_alone_cannot_reconnect_to_a_peer_it_has_received_from(kind: QpType) -> None:
    world = World(2, 2, 4)
    a, b = connect(world, kind=kind)
    for _ in range(10):
        b.write(a, SLOT)
    world.run(50 * MS)
    there = b.nic.qp_address(b.qpn)
    reset(a)
    for wait in (0, 10_000 * MS):
        world.run(wait)
        with pytest.raises(StateError, match=r"receive_psn .* RESET there too"):
            a.nic.connect_qp(a.qpn, there, world.now)
        assert a.nic.qp_state(a.qpn) is QpState.RESET
    reset(b)
    join(a, b)
    a.write(b, SLOT)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))


@pytest.mark.parametrize("kind", QpType)
@pytest.mark.parametrize("count", [1, 100])
def test_sending_after_the_peer_reset_alone_ends_in_an_error(kind: QpType, count: int) -> None:
    world = World(2, 2, 4)
    a, b = connect(world, kind=kind, attributes=QpAttributes(timeout=8, retry_count=5))
    for number in range(count):
        a.write(b, SLOT, offset=number * SLOT)
    world.run(50 * MS)
    reset(a)
    b.buffer[:] = bytes(len(b.buffer))
    a.nic.connect_qp(a.qpn, b.nic.qp_address(b.qpn), world.now)
    for number in range(2 * count):
        a.write(b, SLOT, offset=(500 + number) * SLOT)
    assert world.run(3000 * MS, until=lambda: a.nic.qp_state(a.qpn) is QpState.ERROR)
    world.run(50 * MS)
    a.poll()
    assert CompletionStatus.SUCCESS not in {c.status for c in a.done}
    assert not any(b.buffer)
    if kind is QpType.MRC:
        assert "Reset both ends" in a.done[0].reason


def test_reconnecting_one_end_alone_fails_within_a_few_round_trips() -> None:
    world = World(2, 2, 4)
    a, b = connect(world)
    a.write(b, SLOT)
    world.run(50 * MS)
    reset(a)
    a.nic.connect_qp(a.qpn, b.nic.qp_address(b.qpn), world.now)
    start = world.now
    a.write(b, SLOT)
    assert world.run(3000 * MS, until=lambda: a.nic.qp_state(a.qpn) is QpState.ERROR)
    assert world.now - start < 5 * MS  # not after 32 retries of 16.8 ms and more


def test_a_queue_pair_fails_when_its_peer_forgot_acknowledged_packets() -> None:
    """The peer is another make: it lets a new life begin where the old one did."""
    world = World(2, 2, 4)
    a, b = connect(world)
    a.write(b, SLOT)
    world.run(50 * MS)
    a.poll()
    first = a.nic.qp_address(a.qpn)
    new = world.nics[1] = Nic(make_config(1, 2, 2, 4), seed=5)
    cq = new.create_cq(10)
    qpn = new.create_qp(0, QpType.MRC, cq, cq, QpAttributes())
    while qpn != b.qpn:  # the same number, by force
        # numbers are drawn at random, so that no public way gives the same one again
        new._context.rng = random.Random(0)
        new._qps._shift = b.qpn - 16 - random.Random(0).randrange((1 << 24) - 16)
        qpn = new.create_qp(0, QpType.MRC, cq, cq, QpAttributes())
    region = new.register_memory(0, memoryview(bytearray(1 << 16)), b.region and 3)  # type: ignore[arg-type]
    new.connect_qp(qpn, first, world.now)
    world.run(50 * MS)
    a.write(b, SLOT, remote_address=region.address, rkey=region.rkey)
    assert world.run(3000 * MS, until=lambda: a.nic.qp_state(a.qpn) is QpState.ERROR)
    assert "Reset both ends" in a.poll()[0].reason


@pytest.mark.parametrize("kind", QpType)
def test_application_chosen_psns_cannot_be_reused(kind: QpType) -> None:
    world = World(2, 2, 4)
    zero = QpAttributes(send_psn=0, receive_psn=0)
    a, b = connect(world, kind=kind, attributes=zero)
    a.write(b, SLOT)
    assert world.run(50 * MS, until=lambda: bool(a.poll()))
    reset(a, b)

    def step(end: End, far: End, expected: int, first: int) -> None:
        remote, now = QpAddress(address(far.number), far.qpn), world.now
        end.nic.modify_qp(end.qpn, QpState.INIT, now)
        try:
            end.nic.modify_qp(end.qpn, QpState.RTR, now, {"receive_psn": expected}, remote=remote)
            end.nic.modify_qp(end.qpn, QpState.RTS, now, {"send_psn": first})
        except MrcError:
            end.nic.modify_qp(end.qpn, QpState.RESET, now)
            raise

    used, new = "the PSNs 0 to 0 of", 1 << 20
    for expected, first, end, far, refused in (
        (new, 0, a, b, f"send_psn 0 is too close to {used}"),
        (0, new, b, a, f"receive_psn 0 is too close to {used}"),
        (0, new, a, b, "receive_psn 0 is too close to PSN 0, the first of"),  # nothing has arrived, but it may
        (40_000, new, a, b, "receive_psn 40000 is too close to PSN 0, the first of"),
        (2 * new, MASK - 100_000, a, b, f"send_psn {MASK - 100_000} is too close to {used}"),
    ):
        with pytest.raises(StateError, match=refused):
            step(end, far, expected, first)
    step(a, b, 3 * new, new)
    step(b, a, new, 3 * new)
    a.write(b, SLOT)
    assert world.run(50 * MS, until=lambda: bool(a.poll()))


@pytest.mark.parametrize("kind", QpType)
@pytest.mark.parametrize("given", ["at creation", "in a step"])
def test_first_psns_given_for_one_life_say_nothing_of_the_next(kind: QpType, given: str) -> None:
    """Both ends are reset while the first packet is slow: it arrives in a life in which nobody has posted anything."""
    world = World(2, 2, 4)
    chosen = {"send_psn": 7, "receive_psn": 7}
    a, b = connect(world, kind=kind, attributes=QpAttributes(**chosen) if given == "at creation" else None)
    if given == "in a step":
        reset(a, b)
        for near, far in ((a, b), (b, a)):
            remote = QpAddress(address(far.number), far.qpn)
            near.nic.modify_qp(near.qpn, QpState.INIT, world.now)
            near.nic.modify_qp(near.qpn, QpState.RTR, world.now, {"receive_psn": 7}, remote=remote)
            near.nic.modify_qp(near.qpn, QpState.RTS, world.now, {"send_psn": 7})
    slow: list[Frame] = []

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        slow.append((nic, port, frame))
        return None

    world.tap = tap
    a.write(b, SLOT, imm=0xDEAD)
    world.run(5 * US)
    assert slow
    reset(a, b)
    join(a, b)
    assert b.nic.query_qp(b.qpn).attributes.receive_psn == a.nic.qp_address(a.qpn).psn
    world.tap = None
    for nic, port, frame in slow:
        world.carry(nic, port, frame)
    world.run(MS)
    assert b.poll() == []
    assert not any(b.buffer)
    a.write(b, SLOT, imm=0xBEEF)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert [c.imm for c in b.poll()] == [0xBEEF]
    assert a.done[0].status is CompletionStatus.SUCCESS


@pytest.mark.parametrize("kind", QpType)
def test_a_first_psn_that_contradicts_the_peers_endpoint_is_refused_and_nothing_changes(kind: QpType) -> None:
    world = World(2, 2, 4)
    a, b = connect(world, kind=kind)
    reset(a, b)
    there = b.nic.qp_address(b.qpn)
    assert there.psn is not None
    wrong = there.psn ^ 1
    a.nic.post_recv(a.qpn, (5,), world.now)
    nic, qpn, before = a.nic, a.qpn, a.nic.query_qp(a.qpn)
    nic.modify_qp(qpn, QpState.INIT, world.now, {"num_send_peers": 3})
    in_init = nic.query_qp(qpn)
    with pytest.raises(
        InvalidArgumentError, match=rf"receive_psn {wrong} contradicts .* first PSN is {there.psn}; conn"
    ):
        nic.modify_qp(qpn, QpState.RTR, world.now, {"receive_psn": wrong, "mpr": 3}, remote=there)
    assert nic.query_qp(qpn) == in_init
    nic.modify_qp(qpn, QpState.RTR, world.now, {"receive_psn": there.psn}, remote=there)
    nic.modify_qp(qpn, QpState.RESET, world.now)
    assert nic.query_qp(qpn) == replace(before, receives=0)
    created = nic.create_qp(0, kind, a.cq, a.cq, QpAttributes(receive_psn=wrong, timeout=9))
    before = nic.query_qp(created)
    with pytest.raises(InvalidArgumentError, match="contradicts"):
        nic.connect_qp(created, there, world.now)
    assert nic.query_qp(created) == before
    nic.connect_qp(created, replace(there, psn=None), world.now)  # nothing was told that could contradict
    assert nic.query_qp(created).attributes.receive_psn == wrong


def test_a_refused_connection_keeps_receives_and_attributes_and_counts_as_no_life() -> None:
    """It is refused at its last step, when it could already receive."""
    world = World(2, 2, 4)
    a, b = connect(world)
    a.write(b, SLOT)
    world.run(50 * MS)
    used = a.nic.query_qp(a.qpn).attributes.send_psn
    reset(a, b)
    nic, qpn, there = a.nic, a.qpn, b.nic.qp_address(b.qpn)
    nic.post_recv(qpn, (5, 6), world.now)
    nic.modify_qp(qpn, QpState.INIT, world.now, {"num_send_peers": 3})
    profile = nic.control.create_ev_profile(EvProfile(EvMode.EXPLICIT, evs=(0x3FF,)))  # leads nowhere
    for state, changes in ((QpState.INIT, {"num_send_peers": 3}), (QpState.INIT, {"ev_profile": profile})):
        nic.modify_qp(qpn, QpState.RESET, world.now)
        a.poll()
        nic.post_recv(qpn, (5, 6), world.now)
        nic.modify_qp(qpn, state, world.now, changes)
        before = nic.query_qp(qpn)
        if "ev_profile" in changes:
            with pytest.raises(InvalidArgumentError, match="0x3ff"):
                nic.connect_qp(qpn, there, world.now)
        else:
            with pytest.raises(UnknownDestinationError):
                nic.connect_qp(qpn, replace(there, address=address(9)), world.now)
        assert nic.query_qp(qpn) == before
        assert a.poll() == []
    nic.modify_qp(qpn, QpState.RESET, world.now)
    assert nic.query_qp(qpn).attributes == replace(QpAttributes(), send_psn=nic.qp_address(qpn).psn)
    assert nic.qp_address(qpn).psn != used
    join(a, b)  # the first PSNs of the refused connections are not those of an earlier life
    a.write(b, SLOT)
    assert world.run(1000 * MS, until=lambda: any(c.status is CompletionStatus.SUCCESS for c in a.poll()))


@pytest.mark.parametrize("kind", QpType)
def test_packets_of_a_life_that_ended_before_any_had_arrived_reach_no_other(kind: QpType) -> None:
    """They are on their way when the receiver is reset, and the sender makes a new queue pair with the same PSN."""
    world = World(2, 2, 4)
    zero = QpAttributes(send_psn=0, receive_psn=0)
    a, b = connect(world, kind=kind, attributes=zero)
    a.write(b, SLOT)
    world.run(5 * US)
    assert b.nic.qp_counters(b.qpn).data_received == 0
    a.nic.destroy_qp(a.qpn, world.now)
    b.nic.modify_qp(b.qpn, QpState.RESET, world.now)
    new = a.nic.create_qp(0, kind, a.cq, a.cq, zero)
    b.nic.modify_qp(b.qpn, QpState.INIT, world.now)

    def receive_from(first: int) -> None:
        remote = QpAddress(address(0), new)
        b.nic.modify_qp(b.qpn, QpState.RTR, world.now, {"receive_psn": first}, remote=remote)

    for first in (0, 60_000, MASK - 60_000):
        with pytest.raises(StateError, match=f"receive_psn {first} is too close to PSN 0, the first of an earlier"):
            receive_from(first)
    receive_from(1 << 20)
    world.run(50 * MS)
    assert b.nic.nic_counters()["drop_other_life"] > 0
    assert bytes(b.buffer) == bytes(len(b.buffer))


def test_reconnecting_without_the_peers_first_psn_is_refused() -> None:
    world = World(2, 2, 4)
    nic = world.nics[0]
    cq = nic.create_cq(10)
    qpn = nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes())
    with pytest.raises(InvalidArgumentError, match="pass its endpoint as it gives it, or set receive_psn"):
        nic.connect_qp(qpn, QpAddress(address(1), 77), world.now)
    with pytest.raises(InvalidArgumentError, match="24 bits"):
        nic.connect_qp(qpn, QpAddress(address(1), 77, 1 << 24), world.now)
    assert nic.qp_state(qpn) is QpState.RESET


def test_only_a_queue_pair_that_sent_packets_gets_new_psns_on_reset() -> None:
    world = World(2, 2, 4)
    a, b = connect(world)
    idle, used = b.nic.qp_address(b.qpn), a.nic.qp_address(a.qpn)
    a.write(b, SLOT)
    world.run(50 * MS)
    reset(a, b)
    assert b.nic.qp_address(b.qpn) == idle
    assert a.nic.qp_address(a.qpn) != used


def test_the_nic_chooses_the_psn_again_that_a_life_without_packets_was_given() -> None:
    """The peer expected it, and refuses for a while what is close to it, as the NIC's first choice might be."""
    world = World(2, 2, 4)
    a, b = connect(world, attributes=QpAttributes(send_psn=7, receive_psn=7))
    reset(a, b)
    assert (a.nic.qp_address(a.qpn).psn, b.nic.qp_address(b.qpn).psn) == (7, 7)
    join(a, b)
    a.write(b, SLOT)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.SUCCESS


def test_a_destroyed_qpn_is_not_reused_for_a_packet_lifetime() -> None:
    lifetime = 10 * MS
    nic = Nic(make_config(0, 2, 2, 4, TransportSettings(packet_lifetime=lifetime)), seed=1)
    cq = nic.create_cq(10)

    def again() -> int:
        nic._context.rng = random.Random(3)  # draws the same number first
        return nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes())

    qpn = again()
    nic.destroy_qp(qpn, 1 * MS)
    other = again()
    assert other != qpn
    nic.destroy_qp(other, 20 * MS)  # other commands set the time too
    assert again() == qpn


@pytest.mark.parametrize("incarnation", [2, 3])
def test_a_restarted_nic_reuses_neither_qpns_nor_psns(incarnation: int) -> None:
    def numbers(**how: Any) -> set[tuple[int, int | None]]:
        nic = Nic(make_config(0, 2, 2, 4), seed=1, **how)
        cq = nic.create_cq(10)
        made = [nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes()) for _ in range(50)]
        return {(qpn, nic.qp_address(qpn).psn) for qpn in made}

    first, second = numbers(incarnation=1), numbers(incarnation=incarnation)
    assert not {q for q, _ in first} & {q for q, _ in second}
    assert not {p for _, p in first} & {p for _, p in second}
    assert first == numbers(incarnation=1)
    assert numbers() == numbers()


@pytest.mark.parametrize("kind", QpType)
def test_a_reconnected_queue_pair_does_not_inherit_timers(kind: QpType) -> None:
    world = World(2, 2, 4)
    a, b = connect(world, kind=kind)
    world.faults.dead_planes = {0, 1}
    a.write(b, SLOT)
    world.run(8_000 * MS)  # by now it backs off for a long time
    world.faults.dead_planes = set()
    reset(a, b)
    assert (due := a.nic.wakeup()) is None or due > world.now
    join(a, b)
    lost: list[bytes] = []

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 0 and not lost and len(frame) > SLOT:
            lost.append(frame)
            return None
        return frame

    world.tap = tap
    start = world.now
    a.write(b, SLOT)
    assert world.run(20_000 * MS, until=lambda: bool(a.poll()))
    assert lost
    assert world.now - start < 30 * MS  # one ACK timeout of 16.8 ms at most


@pytest.mark.parametrize("kind", [QpType.MRC, QpType.RC])
def test_flushing_a_queue_pair_before_its_reset_is_no_event(kind: QpType) -> None:
    world = World()
    one, two = connect(world, kind=kind)
    one.nic.async_events()
    one.write(two, 8)
    one.nic.flush_qp(one.qpn, world.now)
    one.write(two, 16)
    one.poll()
    assert [entry.status for entry in one.done] == [CompletionStatus.FLUSHED] * 2
    assert list(one.nic.async_events()) == []
    one.nic.modify_qp(one.qpn, QpState.RESET, world.now)
    assert list(one.nic.async_events()) == []
