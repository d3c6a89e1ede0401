"""The NIC's commands, completion queues, ports, and how many queue pairs share it."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from mrc_host.config import TransportSettings
from mrc_host.errors import (
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    StateError,
    UnknownDestinationError,
)
from mrc_host.nic import Nic
from mrc_host.verbs_types import (
    Access,
    CompletionOpcode,
    CompletionStatus,
    PathState,
    PortEvent,
    QpAddress,
    QpAttributes,
    QpState,
    QpType,
    WorkRequest,
    WrOpcode,
)
from tests.mrc_host.nic_world import ALL_RIGHTS, MS, US, End, World, address, connect, make_config, path_events

KINDS = [QpType.MRC, QpType.RC]


def nic() -> Nic:
    return Nic(make_config(0, 2, 2, 4), seed=7)


# ---- commands ----------------------------------------------------------------------------------------------------


def test_numbers_and_keys_come_from_the_seed() -> None:
    def numbers(seed: int) -> tuple[int, ...]:
        one = Nic(make_config(0, 2, 2, 4), seed=seed)
        cq = one.create_cq(8)
        region = one.register_memory(0, memoryview(bytearray(10)), ALL_RIGHTS)
        qpns = [one.create_qp(0, QpType.MRC, cq, cq, QpAttributes()) for _ in range(3)]
        return (*qpns, region.rkey, region.lkey, region.address)

    assert numbers(1) == numbers(1)
    assert not set(numbers(1)) & set(numbers(2))


def test_commands_name_unknown_objects() -> None:
    one = nic()
    cq = one.create_cq(8)
    for call in (
        lambda: one.poll_cq(99, 16, 1),
        lambda: one.destroy_cq(99),
        lambda: one.deregister_memory(99),
        lambda: one.qp_state(99),
        lambda: one.destroy_qp(99, 0),
        lambda: one.create_qp(0, QpType.MRC, cq, 99, QpAttributes()),
        lambda: one.set_path_denied(address(1), 0xFFFF, True, 0),
        lambda: one.set_path_denied(address(9), 0, True, 0),
    ):
        with pytest.raises(NotFoundError):
            call()


@pytest.mark.parametrize(
    "bad",
    [
        {"path_mtu": 255},
        {"path_mtu": 4098},
        {"path_mtu": 4400},
        {"mpr": 0},
        {"mpr_dest": 256},
        {"max_wimm": 0},
        {"timeout": 25},
        {"timeout": 0},
        {"retry_count": 256},
        {"congestion_window": 0},
        {"active_paths": 0},
        {"send_psn": 1 << 24},
    ],
    ids=str,
)
def test_attributes_out_of_range_are_named(bad: dict[str, int]) -> None:
    one = nic()
    cq = one.create_cq(8)
    with pytest.raises(InvalidArgumentError, match=next(iter(bad))):
        one.create_qp(0, QpType.MRC, cq, cq, replace(QpAttributes(), **bad))


def test_a_queue_pair_passes_through_its_states() -> None:
    one = nic()
    cq = one.create_cq(8)
    qpn = one.create_qp(0, QpType.MRC, cq, cq, QpAttributes())
    region = one.register_memory(0, memoryview(bytearray(10)), ALL_RIGHTS)
    request = WorkRequest(1, WrOpcode.WRITE, region.address, region.lkey, 1, 0, 0)
    assert one.qp_state(qpn) is QpState.RESET
    assert one.qp_paths(qpn) == ()
    with pytest.raises(StateError):
        one.post_send(qpn, request, 1)
    with pytest.raises(UnknownDestinationError, match="destinations"):
        one.connect_qp(qpn, QpAddress(address(5), 1, 0), 1)
    one.connect_qp(qpn, QpAddress(address(1), 77, 0), 1)
    assert one.qp_state(qpn) is QpState.RTS
    with pytest.raises(StateError):
        one.connect_qp(qpn, QpAddress(address(1), 77, 0), 1)
    with pytest.raises(StateError):
        one.destroy_cq(cq)
    one.post_send(qpn, request, 2)
    one.destroy_qp(qpn, 3)
    (completion,) = one.poll_cq(cq, 16, 4)
    assert (completion.wr_id, completion.status) == (1, CompletionStatus.FLUSHED)
    one.destroy_cq(cq)
    for now in (4, 10_000 * MS):
        one.tick(now)
        assert one.transmit(0, now) is None
        assert one.transmit(1, now) is None


@pytest.mark.parametrize(
    "bad",
    [
        {"length": -1},
        {"length": 1 << 32},
        {"imm": 5},
        {"opcode": WrOpcode.WRITE_WITH_IMM},
        {"opcode": WrOpcode.WRITE_WITH_IMM, "imm": 1 << 32},
        {"rkey": 1 << 32},
        {"remote_address": -1},
    ],
    ids=str,
)
def test_invalid_requests_are_refused_when_posted(bad: dict[str, int]) -> None:
    world = World()
    a, b = connect(world, size=100)
    good = WorkRequest(1, WrOpcode.WRITE, a.region.address, a.region.lkey, 10, b.region.address, b.region.rkey)
    with pytest.raises(InvalidArgumentError):
        a.nic.post_send(a.qpn, replace(good, **bad), world.now)
    a.nic.post_send(a.qpn, good, world.now)
    assert world.run(10 * MS, until=lambda: bool(a.poll()))
    assert len(a.done) == 1


@pytest.mark.parametrize("kind", [QpType.MRC, QpType.RC])
def test_a_region_may_end_at_the_last_address(kind: QpType) -> None:
    """At an address of the owner's choice; what goes on beyond 2**64 does not come back at 0."""
    world = World()
    a, b = connect(world, size=20_000, kind=kind)
    buffer = bytearray(20_000)
    region = b.nic.register_memory(0, memoryview(buffer), ALL_RIGHTS, (1 << 64) - 20_000)
    low = bytearray(20_000)
    b.nic.register_memory(0, memoryview(low), ALL_RIGHTS, 0)
    a.write(b, 20_000, remote_address=region.address, rkey=region.rkey)
    assert world.run(100 * MS, until=a.idle)
    assert a.done[0].status is CompletionStatus.SUCCESS
    assert buffer == a.buffer
    a.write(b, 20_000, remote_address=region.address + 8192, rkey=region.rkey)
    assert world.run(1000 * MS, until=a.idle)
    assert a.done[1].status is not CompletionStatus.SUCCESS
    assert low == bytes(20_000)


def test_invalid_memory_registrations_are_refused() -> None:
    one = nic()
    with pytest.raises(InvalidArgumentError, match="writable"):
        one.register_memory(0, memoryview(b"abc"), Access.LOCAL_WRITE)
    with pytest.raises(InvalidArgumentError, match="contiguous"):
        one.register_memory(0, memoryview(bytearray(10))[::2], Access.LOCAL_WRITE)
    with pytest.raises(InvalidArgumentError, match="at least one byte"):
        one.register_memory(0, memoryview(bytearray()), Access.LOCAL_WRITE)
    with pytest.raises(InvalidArgumentError, match="LOCAL_WRITE"):
        one.register_memory(0, memoryview(bytearray(1)), Access.REMOTE_WRITE)
    regions = [one.register_memory(0, memoryview(bytearray(5000)), ALL_RIGHTS) for _ in range(5)]
    assert all(r.address % 4096 == 0 for r in regions)
    assert all(x.address + x.length + 4096 <= y.address for x, y in pairwise(regions))


def test_cq_ready_lists_each_queue_with_new_completions_once() -> None:
    world = World()
    a, b = connect(world, size=100)
    a.write(b, 10, imm=3)
    world.run(MS)
    assert a.nic.cq_ready() == {a.cq}
    assert a.nic.cq_ready() == set()
    assert b.nic.cq_ready() == {b.cq}


# ---- completion queues -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_receive_queue_throttles_the_sender_and_loses_nothing(kind: QpType) -> None:
    world = World()
    attributes = QpAttributes(timeout=8, retry_count=255)
    a, b = connect(world, size=8192, kind=kind, far_capacity=8, attributes=attributes)
    for number in range(40):
        a.write(b, 100, imm=number)
    received = []
    for _ in range(5):
        world.run(50 * MS)
        assert len(a.done) + len(a.poll()) <= len(received) + 16, "not acknowledged before there is room"
        got = b.nic.poll_cq(b.cq, 100, world.now)
        assert len(got) <= 8
        received += got
    world.run(50 * MS)
    a.poll()
    received += b.poll()
    assert [c.imm for c in received] == list(range(40))
    assert [c.status for c in a.done] == [CompletionStatus.SUCCESS] * 40


@pytest.mark.parametrize("kind", KINDS)
def test_every_signaled_request_has_a_reserved_completion_slot(kind: QpType) -> None:
    world = World()
    a, b = connect(world, size=8192, kind=kind, capacity=4)
    for _ in range(4):
        a.write(b, 100)
    with pytest.raises(ResourceExhaustedError, match="completion queue"):
        a.write(b, 100)
    world.run(10 * MS)
    with pytest.raises(ResourceExhaustedError, match="completion queue"):
        a.write(b, 100)
    assert len(a.poll()) == 4
    a.write(b, 100)
    world.run(10 * MS)
    assert len(a.poll()) == 1


def test_the_send_queue_depth_is_enforced() -> None:
    world = World()
    a, b = connect(world, size=8192)
    for _ in range(TransportSettings().send_queue_depth):
        a.write(b, 1, signaled=False)
    with pytest.raises(ResourceExhaustedError, match="send queue"):
        a.write(b, 1, signaled=False)
    world.run(100 * MS)
    a.write(b, 1)
    world.run(100 * MS)
    assert len(a.poll()) == 1


def test_unsignaled_requests_complete_silently_in_order() -> None:
    world = World()
    a, b = connect(world, size=8192)
    for i in range(30):
        a.write(b, 100, imm=i, signaled=i % 10 == 9)
    world.run(10 * MS)
    assert [c.wr_id for c in a.poll()] == [10, 20, 30]
    received = b.poll()
    assert [c.imm for c in received] == list(range(30))
    assert {c.opcode for c in received} == {CompletionOpcode.RECV_WRITE_WITH_IMM}


def test_a_write_with_imm_completes_only_after_everything_before_it() -> None:
    world = World()
    a, b = connect(world, size=1 << 20)
    held: list[bytes] = []

    def hold_first(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 0 and len(frame) > 1000 and not held:
            held.append(frame)
            return None
        return frame

    world.tap = hold_first
    a.write(b, 100_000)
    a.write(b, 10, offset=100_000, imm=1)
    for _ in range(100):
        world.run(10_000)
        received = b.poll()
        if received:
            assert b.buffer[:100_010] == a.buffer[:100_010], "everything before it is in memory"
            break
    assert [c.imm for c in b.done] == [1]


# ---- ports, paths, many queue pairs ------------------------------------------------------------------------------


def test_a_port_that_is_down_sends_no_frames() -> None:
    world = World()
    a, b = connect(world, size=1 << 20)
    a.write(b, 1 << 20)
    a.nic.port_changed(0, False, world.now)
    assert a.nic.transmit(0, world.now) is None
    assert a.nic.transmit(1, world.now) is not None
    a.nic.port_changed(0, False, world.now)
    events = [e for e in a.nic.async_events() if isinstance(e, PortEvent)]
    assert [(e.port, e.up, e.local) for e in events] == [(0, False, True)]


def test_work_posted_while_every_port_is_down_waits() -> None:
    world = World()
    a, b = connect(world, size=1000)
    world.run(100 * MS)
    for port in (0, 1):
        world.set_port(0, port, False)
    a.write(b, 1000)
    world.run(1000 * MS)
    assert not a.poll()
    world.set_port(0, 1, True)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    assert a.buffer == b.buffer


def test_denied_paths_carry_nothing_until_allowed() -> None:
    world = World(planes=2, uplinks=4)
    a, b = connect(world, size=1 << 20)
    denied = {0x000, 0x401, 0x402}
    for ev in denied:
        a.nic.set_path_denied(address(1), ev, True, world.now)
    states = {p.ev: p.state for p in a.nic.qp_paths(a.qpn)}
    assert {ev for ev, state in states.items() if state is PathState.DENIED} == denied
    world.record = True
    a.write(b, 1 << 20)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    used = {int.from_bytes(f[94:96], "big") for _t, n, _p, f in world.sent if n == 0 and len(f) > 1000}
    assert used == {p.ev for p in a.nic.qp_paths(a.qpn)} - denied
    later = a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
    a.nic.connect_qp(later, QpAddress(address(1), 99, 0), world.now)
    assert {p.ev for p in a.nic.qp_paths(later) if p.state is PathState.DENIED} == denied
    path_events(a.nic)
    for ev in denied:
        a.nic.set_path_denied(address(1), ev, False, world.now)
    assert {e.new for e in path_events(a.nic)} == {PathState.GOOD}
    world.sent.clear()
    a.write(b, 1 << 20)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()))
    used = {int.from_bytes(f[94:96], "big") for _t, n, _p, f in world.sent if n == 0 and len(f) > 1000}
    assert used == {p.ev for p in a.nic.qp_paths(a.qpn)}


def test_a_thousand_queue_pairs_share_the_ports_fairly() -> None:
    world = World(planes=2, uplinks=4)
    a, b = connect(world, size=8192)
    ends = [a]
    for _ in range(999):
        near = a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
        far = b.nic.create_qp(0, QpType.MRC, b.cq, b.cq, QpAttributes())
        a.nic.connect_qp(near, b.nic.qp_address(far), world.now)
        b.nic.connect_qp(far, a.nic.qp_address(near), world.now)
        ends.append(End(world, 0, near, a.cq, a.buffer, a.region))
    world.run(10 * MS)
    world.record = True
    for end in ends:
        end.write(b, 8192)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 1000)
    assert all(c.status is CompletionStatus.SUCCESS for c in a.done)
    data = [int.from_bytes(f[102 + 5 : 102 + 8], "big") for _t, n, _p, f in world.sent if n == 0 and len(f) > 1000]
    turns = Counter(data[:1000])
    assert set(turns.values()) == {2}, "one packet a port and round: nobody is served twice before everybody was once"


def test_queue_pairs_waiting_for_their_turn_do_not_probe() -> None:
    """Everything they sent was acknowledged, so there is nothing to ask; and probes would go before all data."""
    world = World(planes=2, uplinks=4, frame_time=10 * US)
    one_packet = QpAttributes(congestion_window=1)
    a, b = connect(world, size=32768, attributes=one_packet)
    ends = [a]
    for _ in range(99):  # a turn each takes 500 us, five times the shortest probe timeout
        near = a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, one_packet)
        far = b.nic.create_qp(0, QpType.MRC, b.cq, b.cq, one_packet)
        a.nic.connect_qp(near, b.nic.qp_address(far), world.now)
        b.nic.connect_qp(far, a.nic.qp_address(near), world.now)
        ends.append(End(world, 0, near, a.cq, a.buffer, a.region))
    for end in ends:
        end.write(b, 32768)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 100)
    assert all(c.status is CompletionStatus.SUCCESS for c in a.done)
    probes = sum(a.nic.qp_counters(end.qpn).probes_sent for end in ends)
    assert probes < 100, probes


def test_queue_pairs_with_packets_in_flight_do_not_probe_while_data_is_queued() -> None:
    """A SACK comes after eight packets, for which each of them needs eight turns: sixteen times its probe timeout."""
    world = World(planes=2, uplinks=4, frame_time=10 * US)
    a, b = connect(world, size=131072)
    ends = [a]
    for _ in range(49):  # a turn each takes 250 us
        near = a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
        far = b.nic.create_qp(0, QpType.MRC, b.cq, b.cq, QpAttributes())
        a.nic.connect_qp(near, b.nic.qp_address(far), world.now)
        b.nic.connect_qp(far, a.nic.qp_address(near), world.now)
        ends.append(End(world, 0, near, a.cq, a.buffer, a.region))
    for end in ends:
        end.write(b, 131072)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 50)
    assert all(c.status is CompletionStatus.SUCCESS for c in a.done)
    counters = [a.nic.qp_counters(end.qpn) for end in ends]
    assert sum(c.data_sent for c in counters) == 50 * 32
    assert sum(c.probes_sent for c in counters) < 50
    assert sum(c.acks_received for c in counters) <= 50 * (32 // 8 + 2)


def test_a_lost_last_packet_is_probed_for_while_others_send() -> None:
    """Who has nothing more to send does not wait for those who have."""
    world = World(planes=2, uplinks=4, frame_time=10 * US)
    a, b = connect(world, size=131072)
    a.write(b, 131072)
    world.run(1 * MS)
    near = a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes())
    far = b.nic.create_qp(0, QpType.MRC, b.cq, b.cq, QpAttributes())
    a.nic.connect_qp(near, b.nic.qp_address(far), world.now)
    b.nic.connect_qp(far, a.nic.qp_address(near), world.now)
    other = End(world, 0, near, a.cq, a.buffer, a.region)
    for _ in range(8):
        other.write(b, 131072)
    lost = []
    remote = b.qpn.to_bytes(3, "big")

    def lose_last(_nic: int, _port: int, _to: int, frame: bytes, _now: int) -> bytes | None:
        if frame[107:110] == remote and a.nic.qp_counters(a.qpn).data_sent == 2 * 32 and not lost:
            lost.append(world.now)
            return None
        return frame

    world.tap = lose_last
    a.write(b, 131072)
    assert world.run(100 * MS, until=lambda: bool(lost) and a.nic.qp_counters(a.qpn).probes_sent > 0)
    assert a.nic.qp_counters(near).data_sent < 8 * 32, "the other one still sends"
    assert world.run(1000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 10)
    assert a.nic.qp_counters(a.qpn).timeouts == 0
    assert all(c.status is CompletionStatus.SUCCESS for c in a.done)


def test_the_event_queue_is_bounded_and_lost_events_counted() -> None:
    one = nic()
    for i in range(10_000):
        one.port_changed(0, bool(i % 2), i)
    assert len(one.async_events()) == 4096
    assert one.nic_counters()["events_lost"] == 10_000 - 4096
