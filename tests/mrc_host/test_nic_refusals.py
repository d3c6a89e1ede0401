"""What a NIC refuses a peer, what it answers nobody, and which frames it drops."""

import pytest

from mrc_host.verbs_types import (
    Access,
    CompletionStatus,
    QpAttributes,
    QpEvent,
    QpState,
    QpType,
    WorkRequest,
    WrOpcode,
)
from tests.models.frames import sealed
from tests.mrc_host.nic_world import ALL_RIGHTS, MS, End, World, connect

KINDS = [QpType.MRC, QpType.RC]


# ---- what a peer may not do --------------------------------------------------------------------------------------


def refused(a: End, b: End, good_before: int, **write: int) -> None:
    """A forbidden write behind good ones: those complete, the memory stays, both ends say why."""
    world = a.world
    for i in range(good_before):
        a.write(b, 8192, offset=i * 8192)
    expected = bytes(a.buffer[: good_before * 8192]) + bytes(len(b.buffer) - good_before * 8192)
    bad = a.write(b, **write)  # type: ignore[arg-type]
    behind = a.write(b, 100)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()) and len(a.done) == good_before + 2)
    statuses = [c.status for c in a.done]
    assert statuses == [CompletionStatus.SUCCESS] * good_before + [
        CompletionStatus.REMOTE_ACCESS_ERROR,
        CompletionStatus.FLUSHED,
    ]
    assert [c.wr_id for c in a.done][-2:] == [bad, behind]
    assert "refused" in a.done[-2].reason
    assert bytes(b.buffer) == expected
    assert a.nic.qp_state(a.qpn) is QpState.ERROR
    assert b.nic.qp_state(b.qpn) is QpState.ERROR
    assert any(isinstance(e, QpEvent) and "refused" in e.reason for e in b.nic.async_events())


@pytest.mark.parametrize("good_before", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
class TestForbiddenWrites:
    def pair(self, kind: QpType, rights: Access = ALL_RIGHTS) -> tuple[End, End]:
        return connect(World(), size=65536, kind=kind, rights=rights)

    def test_a_wrong_rkey_is_refused(self, kind: QpType, good_before: int) -> None:
        a, b = self.pair(kind)
        refused(a, b, good_before, length=20000, rkey=b.region.rkey ^ 1)

    def test_an_lkey_is_refused_as_rkey(self, kind: QpType, good_before: int) -> None:
        a, b = self.pair(kind)
        refused(a, b, good_before, length=20000, rkey=b.region.lkey)

    def test_a_write_past_the_end_of_the_region_is_refused(self, kind: QpType, good_before: int) -> None:
        a, b = self.pair(kind)
        refused(a, b, good_before, length=40000, to_offset=65536 - 39999)

    def test_a_write_before_the_region_is_refused(self, kind: QpType, good_before: int) -> None:
        a, b = self.pair(kind)
        refused(a, b, good_before, length=40000, to_offset=-1)

    def test_a_write_wrapping_around_the_address_space_is_refused(self, kind: QpType, good_before: int) -> None:
        a, b = self.pair(kind)
        refused(a, b, good_before, length=40000, remote_address=(1 << 64) - 100)

    def test_a_region_of_another_protection_domain_is_refused(self, kind: QpType, good_before: int) -> None:
        a, b = self.pair(kind)
        other = b.nic.register_memory(1, memoryview(bytearray(65536)), ALL_RIGHTS)
        refused(a, b, good_before, length=20000, rkey=other.rkey, remote_address=other.address)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deregistered_region_is_refused(kind: QpType) -> None:
    a, b = connect(World(), size=65536, kind=kind)
    b.nic.deregister_memory(b.region.lkey)
    refused(a, b, 0, length=20000)


@pytest.mark.parametrize("kind", KINDS)
def test_a_region_without_remote_write_is_refused(kind: QpType) -> None:
    a, b = connect(World(), size=65536, kind=kind, rights=Access.LOCAL_WRITE)
    refused(a, b, 0, length=20000)


@pytest.mark.parametrize("kind", KINDS)
def test_packets_for_an_unknown_queue_pair_are_dropped_and_counted(kind: QpType) -> None:
    """An RC requester waits for its retries; one of MRC gets an answer, but not in a packet to its QPN."""
    world = World()
    a, b = connect(world, size=8192, kind=kind, attributes=QpAttributes(timeout=8, retry_count=3))
    b.nic.destroy_qp(b.qpn, world.now)
    world.run(100 * MS)
    world.record = True
    wr_id = a.write(b, 8192)
    assert world.run(60_000 * MS, until=lambda: bool(a.poll()))
    status = CompletionStatus.RETRY_EXCEEDED if kind is QpType.RC else CompletionStatus.REMOTE_OPERATION_ERROR
    assert [(c.wr_id, c.status) for c in a.done] == [(wr_id, status)]
    assert bytes(b.buffer) == bytes(8192)
    assert b.nic.nic_counters()["drop_unknown_qp"] > 0
    mine = a.qpn.to_bytes(3, "big")
    start = 102 if kind is QpType.MRC else 62
    assert not [1 for _t, n, _p, frame in world.sent if n == 1 and frame[start + 5 : start + 8] == mine]


@pytest.mark.parametrize("kind", KINDS)
def test_an_invalid_local_range_fails_in_posting_order(kind: QpType) -> None:
    world = World()
    a, b = connect(world, size=8192, kind=kind)
    good = a.write(b, 8192)
    bad = a.write(b, 100, offset=8100)
    behind = a.write(b, 100)
    assert world.run(100 * MS, until=lambda: bool(a.poll()) and len(a.done) == 3)
    assert [(c.wr_id, c.status) for c in a.done] == [
        (good, CompletionStatus.SUCCESS),
        (bad, CompletionStatus.LOCAL_PROTECTION_ERROR),
        (behind, CompletionStatus.FLUSHED),
    ]
    late = a.write(b, 10)
    assert [(c.wr_id, c.status) for c in a.poll()] == [(late, CompletionStatus.FLUSHED)]


def test_exceeding_the_advertised_write_with_imm_limit_is_an_operation_error() -> None:
    world = World()
    a, b = connect(world, size=8192)
    honest = QpAttributes(max_wimm=2, max_wimm_dest=2)
    cq = b.nic.create_cq(16)
    far = b.nic.create_qp(0, QpType.MRC, cq, cq, honest)
    near = a.nic.create_qp(0, QpType.MRC, a.cq, a.cq, QpAttributes(max_wimm_dest=100))
    a.nic.connect_qp(near, b.nic.qp_address(far), world.now)
    b.nic.connect_qp(far, a.nic.qp_address(near), world.now)
    lost = []

    def lose_first(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 0 and len(frame) > 150 and not lost:
            lost.append(1)
            return None
        return frame

    world.tap = lose_first
    a.qpn = near
    for i in range(8):
        a.write(b, 10, imm=i)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 8)
    assert CompletionStatus.REMOTE_OPERATION_ERROR in {c.status for c in a.done}


def test_write_with_imm_in_flight_is_limited_by_the_peer() -> None:
    world = World()
    a, b = connect(world, size=8192, attributes=QpAttributes(max_wimm=3, max_wimm_dest=3))
    world.record = True
    for i in range(50):
        a.write(b, 10, imm=i)
    assert world.run(1000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 50)
    assert all(c.status is CompletionStatus.SUCCESS for c in a.done)
    assert [c.imm for c in b.poll()] == list(range(50))


# ---- frames ------------------------------------------------------------------------------------------------------


def data_frame(world: World, a: End, b: End, length: int = 1000) -> tuple[int, bytes]:
    """Port and frame of one data packet as it would arrive at `b`."""
    caught: list[tuple[int, bytes]] = []
    a.write(b, length)
    for port in range(world.planes):
        frame = a.nic.transmit(port, world.now)
        while frame is not None and len(frame) < 200:
            frame = a.nic.transmit(port, world.now)
        if frame is not None:
            locator = bytes.fromhex("fc000000") + (0x6000 | port << 10 | 1).to_bytes(2, "big") + bytes(10)
            caught.append((port, bytes((2, 0, 0, 0, 1, port)) + frame[6:38] + locator + frame[54:]))
    return caught[0]


def test_drops_are_counted_by_reason() -> None:
    world = World()
    a, b = connect(world, size=8192)
    port, frame = data_frame(world, a, b)
    start = 102

    def count(changed: bytes, at: int = port) -> str:
        before = b.nic.nic_counters()
        b.nic.receive(at, changed, world.now)
        after = b.nic.nic_counters()
        assert after["rx_frames"] == before["rx_frames"] + 1
        names = [k for k in after if k.startswith("drop_") and after[k] != before[k]]
        return names[0] if names else "accepted"

    assert count(frame[:50]) == "drop_short"
    assert count(b"") == "drop_malformed"
    assert count(frame, 1 - port) == "drop_mac"
    assert count(frame[:200]) == "drop_length"
    assert count(frame[: start + 20] + b"\xee" + frame[start + 21 :]) == "drop_icrc"
    assert count(frame[:-1]) == "drop_length"
    assert count(frame[:54] + b"\x70" + frame[55:]) == "drop_ip_header"
    assert b.buffer == bytes(8192)
    assert count(frame + bytes(30)) == "accepted", "padding after the IP packet is no harm"
    assert b.buffer[:1000] == a.buffer[:1000]
    b.nic.port_changed(port, False, world.now)
    assert count(frame) == "drop_port_down"


def test_packets_of_another_partition_are_dropped_and_counted() -> None:
    """P_Keys match when their low 15 bits do and one of them is a full member's (IBTA, P_Key matching)."""
    world = World()
    a, b = connect(world, size=8192)
    port, frame = data_frame(world, a, b)
    inner, start = 54, 102

    def with_key(key: int) -> bytes:
        changed = frame[: start + 2] + key.to_bytes(2, "big") + frame[start + 4 :]
        return sealed(changed, inner, start)

    assert with_key(0xFFFF) == frame
    for number, key in enumerate((0x0000, 0x8000, 0x7FFE, 0xFFFE, 0x1234, 0x8001), 1):
        b.nic.receive(port, with_key(key), world.now)
        assert b.nic.nic_counters()["drop_pkey"] == number
    assert b.buffer == bytes(8192)
    assert b.nic.qp_counters(b.qpn).data_received == 0
    b.nic.receive(port, with_key(0x7FFF), world.now)  # a limited member, to a full one
    assert b.buffer[:1000] == a.buffer[:1000]
    assert b.nic.nic_counters()["drop_pkey"] == 6


def test_a_truncated_frame_of_a_known_flow_is_dropped() -> None:
    """The prefix is known, so only the length shows it."""
    world = World()
    a, b = connect(world, size=8192)
    port, frame = data_frame(world, a, b)
    b.nic.receive(port, frame, world.now)
    for size in range(102, len(frame)):
        b.nic.receive(port, frame[:size], world.now)
    counters = b.nic.nic_counters()
    assert counters["drop_length"] + counters["drop_malformed"] == len(frame) - 102
    assert counters["drop_internal_error"] == 0


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_received_frames_may_be_in_reused_buffers(make: type) -> None:
    world = World()
    a, b = connect(world, size=8192)
    port, frame = data_frame(world, a, b)
    store = bytearray(frame)
    b.nic.receive(port, make(store), world.now)
    store[:] = bytes(len(store))
    assert b.buffer[:1000] == a.buffer[:1000]


def test_packets_from_an_unknown_sender_are_not_answered() -> None:
    """A third NIC knows the QPN and sends well-formed packets; only the source address gives it away."""
    world = World(nics=3)
    _a, b = connect(world, 0, 1, size=8192)
    c_cq = world.nics[2].create_cq(8)
    stranger = world.nics[2].create_qp(0, QpType.MRC, c_cq, c_cq, QpAttributes(timeout=8, retry_count=2))
    world.nics[2].connect_qp(stranger, b.nic.qp_address(b.qpn), world.now)
    region = world.nics[2].register_memory(0, memoryview(bytearray(b"x" * 100)), ALL_RIGHTS)
    world.run(100 * MS)
    world.record = True
    world.nics[2].post_send(
        stranger,
        WorkRequest(1, WrOpcode.WRITE, region.address, region.lkey, 100, b.region.address, b.region.rkey),
        world.now,
    )
    world.run(1000 * MS)
    assert world.nics[2].poll_cq(c_cq, 1, world.now)[0].status is CompletionStatus.RETRY_EXCEEDED
    assert b.buffer == bytes(8192)
    assert b.nic.nic_counters()["drop_wrong_source"] > 0
    assert not [1 for _t, n, _p, _f in world.sent if n == 1]


def test_packets_of_the_other_transport_are_dropped() -> None:
    world = World()
    cqs = [n.create_cq(8) for n in world.nics]
    mrc = world.nics[0].create_qp(0, QpType.MRC, cqs[0], cqs[0], QpAttributes(timeout=8, retry_count=2))
    rc = world.nics[1].create_qp(0, QpType.RC, cqs[1], cqs[1], QpAttributes())
    region = world.nics[0].register_memory(0, memoryview(bytearray(100)), ALL_RIGHTS)
    world.nics[0].connect_qp(mrc, world.nics[1].qp_address(rc), world.now)
    world.nics[1].connect_qp(rc, world.nics[0].qp_address(mrc), world.now)
    world.nics[0].post_send(mrc, WorkRequest(1, WrOpcode.WRITE, region.address, region.lkey, 100, 0, 0), world.now)
    world.run(1000 * MS)
    assert world.nics[0].poll_cq(cqs[0], 1, world.now)[0].status is CompletionStatus.RETRY_EXCEEDED
    assert world.nics[1].nic_counters()["drop_wrong_transport"] > 0
