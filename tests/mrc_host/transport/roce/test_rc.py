"""The RoCE baseline: one path, one order, go-back-N; headers as scapy reads them."""

from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from mrc_host.transport.roce.path import path_hash
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpType
from mrc_host.wire import headers
from tests.models.frames import sealed
from tests.mrc_host.nic_world import MS, US, End, World, address, connect

START = 62


def pair(**attributes: int) -> tuple[World, End, End]:
    world = World(planes=2)
    world.record = True
    a, b = connect(world, size=1 << 18, kind=QpType.RC, attributes=QpAttributes(**attributes))
    return world, a, b


def data(world: World, number: int = 0) -> list[bytes]:
    return [f for _t, n, _p, f in world.sent if n == number and f[START] <= 0x0B]


def answers(world: World) -> list[tuple[int, int]]:
    """Syndrome and PSN of every ACK."""
    return [
        (f[START + 12], int.from_bytes(f[START + 9 : START + 12], "big"))
        for _t, n, _p, f in world.sent
        if n == 1 and f[START] == 0x11
    ]


def test_packets_are_plain_rocev2_with_iba_opcodes() -> None:
    world, a, b = pair(send_psn=10, receive_psn=10)
    a.write(b, 10_000, imm=5)
    a.write(b, 100, imm=6)
    a.write(b, 100)
    world.run(MS)
    packets = [Ether(f) for f in data(world)]
    assert [p[BTH].opcode for p in packets] == [0x06, 0x07, 0x09, 0x0B, 0x0A]
    assert [p[BTH].psn for p in packets] == [10, 11, 12, 13, 14]
    assert {(p[BTH].dqpn, p[UDP].dport, p[IPv6].nh) for p in packets} == {(b.qpn, 4791, 17)}
    for packet, raw_frame in zip(packets, data(world), strict=True):
        rebuilt = packet.copy()
        rebuilt[BTH].icrc = None
        assert bytes(rebuilt)[-4:] == raw_frame[-4:], "scapy computes the same ICRC"


def test_each_queue_pair_uses_one_port_and_source_port_and_they_differ() -> None:
    world, a, b = pair()
    a.write(b, 1 << 18)
    world.run(10 * MS)
    assert len({(p, f[54:56]) for _t, n, p, f in world.sent if n == 0 and f[20] == 17}) == 1
    hashes = [path_hash(address(0), q, address(1), 7) for q in range(2000)]
    assert len({h >> 16 & 0x3FFF for h in hashes}) > 1800
    assert 850 < sum(h % 2 for h in hashes) < 1150
    assert path_hash(address(0), 5, address(1), 7) == path_hash(address(1), 7, address(0), 5)


def test_a_lost_packet_resends_everything_after_it() -> None:
    world, a, b = pair(send_psn=0, receive_psn=0, congestion_window=16 * 4096)
    lost = []

    def lose(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 0 and len(frame) > 1000 and frame[START + 11] == 5 and not lost:
            lost.append(now)
            return None
        return frame

    world.tap = lose
    a.write(b, 32 * 4096)
    assert world.run(100 * MS, until=lambda: bool(a.poll()))
    assert b.buffer[: 32 * 4096] == a.buffer[: 32 * 4096]
    assert [s for s, _psn in answers(world)].count(headers.NAK_SEQUENCE) == 1, "one NAK a gap"
    assert (headers.NAK_SEQUENCE, 5) in answers(world)
    counters = a.nic.qp_counters(a.qpn)
    assert counters.lost == 1
    assert 8 <= counters.retransmitted <= 16
    assert counters.timeouts == 0
    assert b.nic.qp_counters(b.qpn).data_received == 32


def test_a_lost_tail_waits_for_the_ack_timeout() -> None:
    world, a, b = pair(timeout=10)
    lost = []

    def lose(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 0 and frame[START] == 0x0A and not lost:
            lost.append(now)
            return None
        return frame

    world.tap = lose
    start = world.now
    a.write(b, 100)
    assert world.run(100 * MS, until=lambda: bool(a.poll()))
    assert 1024 << 10 <= world.now - start < (1024 << 10) + 100 * US
    assert a.nic.qp_counters(a.qpn).timeouts == 1


def test_lost_acknowledgements_are_covered_by_later_or_requested_ones() -> None:
    world, a, b = pair(timeout=8)
    dropped = []

    def lose(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 1 and frame[START] == 0x11 and len(dropped) < 5:
            dropped.append(now)
            return None
        return frame

    world.tap = lose
    for n in range(3):
        a.write(b, 4096 * 5, imm=n)
    assert world.run(100 * MS, until=lambda: bool(a.poll()) and len(a.done) == 3)
    assert [c.imm for c in b.poll()] == [0, 1, 2]
    assert b.nic.qp_counters(b.qpn).data_received == 15
    assert all(c.status is CompletionStatus.SUCCESS for c in a.done)


def test_the_window_is_respected() -> None:
    world, a, b = pair(congestion_window=4 * 4096)
    world.tap = lambda nic, port, to, frame, now: None
    a.write(b, 1 << 18)
    world.run(MS)
    assert len(data(world)) == 4


def test_a_broken_sequence_of_opcodes_is_an_invalid_request() -> None:
    world, a, b = pair(send_psn=0, receive_psn=0)

    def corrupt(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 0 and frame[START] == 0x07:
            return sealed(frame[:START] + b"\x08" + frame[START + 1 :], 14, START)
        return frame

    world.tap = corrupt
    a.write(b, 3 * 4096)
    assert world.run(100 * MS, until=lambda: bool(a.poll()))
    assert a.done[0].status is CompletionStatus.REMOTE_INVALID_REQUEST_ERROR
    assert (headers.NAK_INVALID_REQUEST, 1) in answers(world)
    assert b.buffer[4096:] == bytes(len(b.buffer) - 4096)
