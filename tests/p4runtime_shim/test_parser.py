"""Parsing and deparsing: random header layouts, stacks, lookahead, select, verify, checksums."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mrc_common.p4_match import Lpm
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.builder import Builder, call, const, expression, extract, field, send_to, wrapped

P = "MyIngress."


def one(switch: EmbeddedSwitch) -> tuple[int, bytes] | None:
    """The packet that came out."""
    for port in switch.ready():
        frame = switch.transmit(port, 0)
        if frame is not None:
            return port, frame
    return None


def random_layout(rng: random.Random) -> list[tuple[str, int]]:
    """Fields of odd widths that fill whole bytes."""
    widths = [
        rng.choice([1, 2, 3, 5, 7, 8, 9, 12, 16, 20, 24, 31, 32, 33, 48, 57, 64, 65, 72, 100, 128, 129, 200, 320])
        for _ in range(rng.randint(1, 12))
    ]
    pad = -sum(widths) % 8
    return [(f"f{i}", width) for i, width in enumerate([*widths, *([pad] if pad else [])])]


@pytest.mark.parametrize("seed", range(6))
def test_random_headers_survive_parsing_and_deparsing(seed: int) -> None:
    """Two headers of random layout; the second leaves with every field's lowest bit flipped, the first unchanged."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    builder = Builder()
    first, second = random_layout(rng), random_layout(rng)
    builder.header_type("one_t", first)
    builder.header_type("two_t", second)
    builder.header("one", "one_t")
    builder.header("two", "two_t")
    builder.state("start", [extract("one"), extract("two")])
    builder.emit("one", "two")
    flips = [
        call("assign", field("two", name), wrapped(expression("^", field("two", name), const(1)))) for name, _ in second
    ]
    builder.run(builder.action("flip", [*flips, send_to(1)]))
    sizes = [sum(width for _, width in layout) // 8 for layout in (first, second)]
    flip, bit = 0, 0
    for _, width in second:
        bit += width
        flip |= 1 << (sizes[1] * 8 - bit)
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=[0, 1], seed=0) as switch:
        for _ in range(60):
            frame = rng.randbytes(sizes[0] + sizes[1] + rng.randint(0, 40))
            switch.receive(0, frame, 0)
            changed = int.from_bytes(frame[sizes[0] : sum(sizes)], "big") ^ flip
            expected = frame[: sizes[0]] + changed.to_bytes(sizes[1], "big") + frame[sum(sizes) :]
            assert one(switch) == (1, expected)
        short = rng.randbytes(sum(sizes) - 1)  # the second header does not fit: it is payload
        switch.receive(0, short, 0)
        assert one(switch) == (1, short)


def test_deparsed_headers_may_outgrow_the_packet() -> None:
    """Many headers become valid in front of a small packet of the largest size."""
    builder = Builder()
    builder.header_type("big_t", [(f"f{i}", 64) for i in range(32)])
    names = [f"big{i}" for i in range(8)]
    for name in names:
        builder.header(name, "big_t")
    builder.emit(*names)
    add = [call("add_header", {"type": "header", "value": name}) for name in names]
    builder.run(builder.action("grow", [*add, send_to(1)]))
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=[0, 1], seed=0) as switch:
        switch.receive(0, b"abc", 0)
        assert one(switch) == (1, bytes(8 * 256) + b"abc")
        switch.receive(0, bytes(9000), 0)
        assert one(switch) is None  # 9000 + 2048 bytes are more than a frame may have
        assert switch.stats().drops["frame_size"] == 1


@pytest.fixture
def stacks() -> Iterator[EmbeddedSwitch]:
    with EmbeddedSwitch(programs.pipeline("stacks"), ports=range(12), seed=0) as made:
        yield made


def hops(*ports: int) -> bytes:
    items = [(0x8000 if i + 1 == len(ports) else 0) | port for i, port in enumerate(ports)]
    return b"".join(item.to_bytes(2, "big") for item in items)


def test_the_source_routing_program_pops_the_first_hop(stacks: EmbeddedSwitch) -> None:
    for ports in ((3, 4, 5, 6), (9,), (8, 1)):
        stacks.receive(0, b"\x01\x00" + hops(*ports) + b"rest", 0)
        expected = b"\x01\x00" + hops(*ports)[2:] + b"rest"
        assert one(stacks) == (ports[0], expected)


def test_too_many_hops_is_stack_out_of_bounds(stacks: EmbeddedSwitch) -> None:
    frame = b"\x01\x00" + hops(3, 4, 5, 6, 7) + b"rest"
    stacks.receive(0, frame, 0)
    assert one(stacks) == (5, frame)


def test_push_front_shifts_the_stack_and_drops_the_last_header(stacks: EmbeddedSwitch) -> None:
    stacks.control_plane.table(P + "self").set_default(ActionCall(P + "note", (77,)))
    records = [(10, 1), (20, 2), (30, 3)]
    for count in range(4):
        body = b"".join(d.to_bytes(2, "big") + q.to_bytes(4, "big") for d, q in records[:count])
        stacks.receive(0, bytes([2, count]) + body + b"rest", 0)
        kept = [(77, count), *records[:count]][:3]
        expected = b"".join(d.to_bytes(2, "big") + q.to_bytes(4, "big") for d, q in kept)
        assert one(stacks) == (2, bytes([2, count + 1]) + expected + b"rest")


def test_parser_errors_of_program_and_core_are_reported(stacks: EmbeddedSwitch) -> None:
    stacks.receive(0, bytes([2, 1]) + bytes(6), 0)
    assert one(stacks) == (6, bytes([2, 1]) + bytes(6))  # RecordLost
    stacks.receive(0, bytes([2, 1]) + bytes(5), 0)
    assert one(stacks) == (7, bytes([2, 1]) + bytes(5))  # PacketTooShort


def test_an_endless_parser_times_out() -> None:
    builder = Builder()
    builder.state("start", [], default="again")
    builder.state("again", [], default="start")
    report = call("assign", field("standard_metadata", "egress_spec"), field("standard_metadata", "parser_error"))
    builder.run(builder.action("report", [report]))
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=range(8), seed=0) as switch:
        switch.receive(0, b"x", 0)
        assert one(switch) == (5, b"x")  # ParserTimeout


@pytest.fixture
def calculator() -> Iterator[EmbeddedSwitch]:
    with EmbeddedSwitch(programs.pipeline("calculator"), ports=range(3), seed=0) as made:
        yield made


def calculate(switch: EmbeddedSwitch, code: int, a: int, b: int, prefix: bytes = b"") -> int | None:
    frame = b"P4" + prefix + bytes([code]) + a.to_bytes(4, "big") + b.to_bytes(4, "big") + bytes(8)
    switch.receive(0, frame, 0)
    out = one(switch)
    if out is None:
        return None
    return int.from_bytes(out[1][-8:], "big")


MAX = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("code", "a", "b", "result"),
    [
        (1, MAX, 2, 1),
        (2, 5, 9, 0),
        (2, 9, 5, 4),
        (3, MAX, MAX, MAX * MAX),
        (4, 0x7FFFFFFF, 1, 0x7FFFFFFF),
        (4, 0x80000000, MAX, 0x80000000),
        (4, MAX, 2, 1),
        (5, 0x80000000, 4, 0xF8000000),
        (5, 0x80000000, 31, MAX),
        (6, 0x12345678, 0xABCD, 0x123456ABCD345678),
        (7, MAX, 0, 1),
        (7, 0, MAX, 2),
        (10, 0x12345678, 0, 0x0A1),
        (11, 0x12345678, 0, 0x0000123456780000),
        (15, 1, 1, 0xDEAD),
    ],
)
def test_the_calculator_program_computes(calculator: EmbeddedSwitch, code: int, a: int, b: int, result: int) -> None:
    assert calculate(calculator, code, a, b) == result


def test_advance_skips_a_prefix(calculator: EmbeddedSwitch) -> None:
    assert calculate(calculator, 1, 2, 3, prefix=b"\x7fxyz") == 5


def test_truncated_and_unknown_requests_are_dropped(calculator: EmbeddedSwitch) -> None:
    for frame in (b"P", b"XY", b"P4", b"P4\x90", b"P4\x01\x00"):
        calculator.receive(0, frame, 0)
        assert one(calculator) is None
    assert calculator.stats().drops["ingress"] == 5


def test_log_messages_and_assertions_are_executed(calculator: EmbeddedSwitch) -> None:
    calculator.set_logging()
    assert calculate(calculator, 8, 7, MAX) == 0
    assert calculate(calculator, 9, 1, 2) == 0
    assert calculate(calculator, 9, 3, 3) is None
    assert calculator.stats().drops["assertion"] == 1
    lines = [line.text for line in calculator.take_log()]
    assert lines[0] == f"a = 7, b = {MAX}"
    assert "assert failed" in lines[1]
    assert "calculator.p4:" in lines[1]
    calculator.set_logging(messages=False)
    assert calculate(calculator, 8, 7, 8) == 0
    assert calculator.take_log() == []


def checksum(data: bytes) -> int:
    """RFC 1071."""
    data += bytes(len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(protocol: int, payload: bytes, ttl: int = 64, ihl: int = 5) -> bytes:
    head = bytearray(bytes.fromhex("4500000012344000000000000a0000010a000002"))
    head[0] = 0x40 | ihl
    head[2:4] = (20 + len(payload)).to_bytes(2, "big")
    head[8], head[9] = ttl, protocol
    head[10:12] = checksum(bytes(head)).to_bytes(2, "big")
    return bytes(range(12)) + b"\x08\x00" + bytes(head) + payload


@pytest.fixture
def router() -> Iterator[EmbeddedSwitch]:
    with EmbeddedSwitch(programs.pipeline("forward"), ports=range(4), seed=0) as made:
        made.control_plane.table(P + "route").insert(
            Entry((Lpm(0x0A000000, 24),), ActionCall(P + "forward", (2, 0x020304050607)))
        )
        yield made


def test_checksums_are_verified_and_updated(router: EmbeddedSwitch) -> None:
    rng = random.Random(0)
    for size in (0, 1, 2, 3, 100, 1001):
        data = rng.randbytes(size)
        segment = bytes.fromhex("1234005000000001000000025018ffff00000000") + data
        router.receive(1, ipv4(6, segment), 0)
        out = one(router)
        assert out is not None
        port, frame = out
        assert port == 2
        assert frame[:14] == bytes.fromhex("020304050607") + bytes(range(6)) + b"\x08\x00"
        assert frame[22] == 63
        assert checksum(frame[14:34]) == 0
        pseudo = frame[26:34] + bytes([0, 6]) + (20 + size).to_bytes(2, "big")
        assert checksum(pseudo + frame[34:]) == 0
        assert frame[54:] == data
    broken = bytearray(ipv4(17, b"data"))
    broken[20] ^= 1
    router.receive(1, bytes(broken), 0)
    assert one(router) is None


def test_invalid_headers_and_expired_ttls_are_dropped(router: EmbeddedSwitch) -> None:
    for frame in (ipv4(17, b"x", ihl=6), ipv4(17, b"x", ttl=1), ipv4(17, b"x", ttl=0), bytes(10), bytes(14)):
        router.receive(1, frame, 0)
        assert one(router) is None
    assert router.stats().drops["ingress"] == 5
