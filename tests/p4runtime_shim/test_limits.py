"""What a packet may grow to, and how much one call of the engine may do."""

from __future__ import annotations

import ctypes as c
import json
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from p4runtime_shim.codegen import generate
from p4runtime_shim.entities import CloneSession, Replica
from p4runtime_shim.errors import Unsupported
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program import load_program
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.traffic_manager import PortDelay, QueueConfig
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.builder import Builder, call, const, expression, extract, field, header, send_to

RECIRCULATE = call("recirculate", const(1))
LOOPS: dict[str, Callable[[Builder], None]] = {}
Body = Callable[[Builder], None]


def loops(make: Body) -> Body:
    LOOPS[make.__name__] = make
    return make


def switch_of(make: Body, **queues: int) -> EmbeddedSwitch:
    builder = Builder()
    builder.data["field_lists"] = [{"id": 1, "name": "kept", "elements": []}]
    make(builder)
    return EmbeddedSwitch(Pipeline.load(builder.text()), ports=(1, 2), seed=1, queues=QueueConfig(**queues))


def drops(switch: EmbeddedSwitch) -> dict[str, int]:
    return {reason: count for reason, count in switch.stats().drops.items() if count}


# --- growth ---


def grows(builder: Builder, then: Any = RECIRCULATE, *, times: int = 8) -> None:
    """256 bytes are put in front of the packet in egress, `times` times, and then again at ingress: a clone."""
    builder.header_type("eth_t", [("dst", 48), ("src", 48), ("type", 16)])
    builder.header_type("big_t", [("all", 2048)])
    builder.header_type("m_t", [("passes", 32)])
    for name in ("eth", "big"):
        builder.header(name, f"{name}_t")
    builder.header("m", "m_t", metadata=True)
    builder.state("start", [extract("eth")])
    builder.emit("big", "eth")
    builder.data["register_arrays"] = [{"name": "count", "id": 0, "size": 1, "bitwidth": 32}]
    cell = {"type": "register_array", "value": "count"}
    passes = field("m", "passes")
    clone = call("clone_ingress_pkt_to_egress", const(5), const(1))
    builder.run(builder.action("in", [send_to(1), clone]))
    stop = call("_jump_if_zero", expression("<", passes, const(times)), const(6))
    read, add = call("register_read", passes, cell, const(0)), call("register_write", cell, const(0), passes)
    more = call("assign", passes, expression("+", passes, const(1)))
    builder.run(
        builder.action("out", [read, more, add, stop, call("add_header", header("big")), then]), pipeline="egress"
    )


@pytest.mark.parametrize("length", [64, 1500, 2048])
def test_a_packet_longer_than_a_frame_is_not_recirculated(length: int) -> None:
    with switch_of(lambda b: grows(b, times=50), max_frame=2048, buffer_packets=8) as switch:
        switch.control_plane.replication.session_set(5, CloneSession((Replica(2, 1),)))
        for now in range(20):
            switch.receive(1, bytes([now]) * length, now)
            for _ in range(100):
                if switch.transmit(1, now) is None and switch.transmit(2, now) is None:
                    break
        assert switch.stats().drops["frame_size"] > 0


@pytest.mark.parametrize(("length", "passes"), [(1792, 2), (1793, 1), (2048, 1)])
def test_a_packet_of_maximum_frame_length_is_recirculated(length: int, passes: int) -> None:
    with switch_of(lambda b: grows(b, times=50), max_frame=2048) as switch:
        switch.receive(1, bytes(length), 1)
        while switch.transmit(1, 1) is not None:
            pass
        assert switch.control_plane.externs.register_read("count", 0) == passes
        assert drops(switch)["frame_size"] == 1


# --- calculations and digests ---


def test_hashes_cover_long_inputs_and_the_payload() -> None:
    def make(builder: Builder) -> None:
        builder.header_type("m_t", [("wide", 2048), ("sum", 32)])
        builder.header_type("out_t", [("sum", 32)])
        builder.header("m", "m_t", metadata=True)
        builder.header("out", "out_t")
        builder.emit("out")
        inputs = [{"type": "field", "value": ["m", "wide"]}] * 64  # 16 KB
        builder.data["calculations"] = [
            {"name": "c", "id": 0, "algo": "crc32", "input": [*inputs, {"type": "payload"}]}
        ]
        hashed = call(
            "modify_field_with_hash_based_offset",
            field("m", "sum"),
            const(0),
            {"type": "calculation", "value": "c"},
            const(1 << 32),
        )
        out = [call("add_header", header("out")), call("assign", field("out", "sum"), field("m", "sum"))]
        builder.run(builder.action("a", [hashed, *out, send_to(1)]))

    payload = bytes(range(256)) * 35
    with switch_of(make, max_frame=9000) as switch:
        switch.receive(1, payload, 1)
        frame = switch.transmit(1, 1)
    assert frame == zlib.crc32(bytes(256 * 64) + payload).to_bytes(4, "big") + payload


def digest_of(words: int) -> Builder:
    builder = Builder()
    builder.header_type("m_t", [(f"f{number}", 64) for number in range(words)])
    builder.header("m", "m_t", metadata=True)
    elements = [{"type": "field", "value": ["m", f"f{number}"]} for number in range(words)]
    builder.data["learn_lists"] = [{"id": 1, "name": "digest", "elements": elements}]
    builder.run(builder.action("a", [call("generate_digest", const(1), const(1))]))
    return builder


def test_digests_up_to_the_maximum_length_are_accepted() -> None:
    with EmbeddedSwitch(Pipeline.load(digest_of(4096).text()), ports=(1,), seed=1) as switch:
        switch.receive(1, bytes(60), 1)
        assert [len(digest.values) for digest in switch.control_plane.take_digests()] == [4096]
    with pytest.raises(Unsupported, match="digest of 262208 bits"):
        Pipeline.load(digest_of(4097).text())


def test_a_digest_too_long_for_the_readers_buffer_is_dropped_and_later_ones_pass() -> None:
    with EmbeddedSwitch(Pipeline.load(digest_of(3).text()), ports=(1,), seed=1) as switch:
        switch.receive(1, bytes(60), 1)
        switch.receive(1, bytes(60), 2)
        which, when, values = c.c_uint32(), c.c_int64(), (c.c_uint64 * 2)()
        take = switch.native.library.sw_ctl_digest
        assert take(switch.handle, c.byref(which), c.byref(when), values, 2) == -1
        assert switch.digests_lost() == 2
        switch.receive(1, bytes(60), 3)
        assert [digest.time for digest in switch.control_plane.take_digests()] == [3]


# --- loops ---


@loops
def jump_back(builder: Builder) -> None:
    builder.run(builder.action("a", [call("no_op"), call("_jump", const(0))]))


@loops
def jump_back_in_egress(builder: Builder) -> None:
    builder.run(builder.action("s", [send_to(1)]))
    builder.run(builder.action("a", [call("_jump_if_zero", const(0), const(0))]), pipeline="egress")


@loops
def costly_rounds(builder: Builder) -> None:
    builder.header_type("m_t", [("a", 2048), ("b", 2048)])
    builder.header("m", "m_t", metadata=True)
    divided = expression(
        "/", expression("+", field("m", "a"), const(1 << 2000)), expression("+", field("m", "b"), const(3))
    )
    builder.run(builder.action("a", [call("assign", field("m", "a"), divided), call("_jump", const(0))]))


@loops
def resubmit_without_end(builder: Builder) -> None:
    builder.run(builder.action("a", [call("resubmit", const(1))]))


@loops
def recirculate_without_end(builder: Builder) -> None:
    builder.run(builder.action("s", [send_to(1)]))
    builder.run(builder.action("a", [RECIRCULATE]), pipeline="egress")


@loops
def copies_of_copies_towards_nowhere(builder: Builder) -> None:
    builder.run(builder.action("s", [call("assign", field("standard_metadata", "mcast_grp"), const(1))]))
    builder.run(builder.action("a", [RECIRCULATE]), pipeline="egress")


@pytest.mark.parametrize("name", LOOPS)
def test_an_endless_loop_is_cut_off_counted_and_logged_once(name: str) -> None:
    with switch_of(LOOPS[name]) as switch:
        switch.control_plane.replication.group_set(1, [Replica(77, number) for number in range(500)])
        switch.set_logging()
        for now in range(3):
            start = time.process_time()
            switch.receive(1, bytes(9000), now)
            assert switch.transmit(1, now) is None
            assert time.process_time() - start < 2  # tens of milliseconds
        assert switch.stats().drops["loop_limit"] >= 3
        assert [line.text.partition(":")[2][:24] for line in switch.take_log()] == [" it loops in the program"]
        switch.set_pipeline(switch.pipeline)
        switch.receive(1, bytes(9000), 9)
        switch.transmit(1, 9)
        assert switch.take_log() or name == "copies_of_copies_towards_nowhere", "logged again for another program"


def test_a_call_ends_while_packets_multiply_in_front_of_a_long_wire() -> None:
    def clones_to_its_own_port(builder: Builder) -> None:
        builder.run(builder.action("s", [send_to(1)]))
        clone = call("clone_egress_pkt_to_egress", const(1), const(1))
        builder.run(builder.action("a", [clone]), pipeline="egress")

    with switch_of(clones_to_its_own_port) as switch:
        copies = tuple(Replica(1, number) for number in range(512))
        switch.control_plane.replication.session_set(1, CloneSession(copies))
        switch.set_port_delay(1, PortDelay(leaving=10**9), 0)
        switch.receive(1, bytes(100), 0)
        switch.ready()
        sent = 0
        for _ in range(3):
            assert switch.transmit(1, 0) is None
            before, sent = sent, switch.stats().ports[1].tx_packets
            assert 0 < sent - before <= 1024, "a pass costs a thousandth of what a call may do"
            assert switch.ready() == [1], "it has more to send"


def test_an_endless_parser_loop_gives_a_parser_error() -> None:
    def make(builder: Builder) -> None:
        builder.state("start", [], default="more")
        builder.state("more", [], default="start")
        builder.header_type("out_t", [("error", 32)])
        builder.header("out", "out_t")
        builder.emit("out")
        error = call("assign", field("out", "error"), field("standard_metadata", "parser_error"))
        builder.run(builder.action("a", [call("add_header", header("out")), error, send_to(1)]))

    with switch_of(make) as switch:
        switch.receive(1, b"x", 1)
        assert switch.transmit(1, 1) == (5).to_bytes(4, "big") + b"x"  # error.ParserTimeout


def test_finite_loops_run_to_completion() -> None:
    def make(builder: Builder) -> None:
        builder.header_type("m_t", [("n", 32)])
        builder.header("out", "m_t")
        builder.emit("out")
        number = field("out", "n")
        more = call("assign", number, expression("+", number, const(1)))
        left = expression("==", number, const(5000))
        body = [call("add_header", header("out")), more, call("_jump_if_zero", wrapped_b2d(left), const(1)), send_to(1)]
        builder.run(builder.action("a", body))

    def wrapped_b2d(expr: Any) -> Any:
        return expression("b2d", None, expr)

    with switch_of(make) as switch:
        switch.receive(1, b"x", 1)
        assert switch.transmit(1, 1) == (5000).to_bytes(4, "big") + b"x"


def test_programs_without_loops_have_no_loop_check() -> None:
    assert "sw_spend" not in generate(load_program(programs.FABRIC.read_text())).code


# --- size ---


def stack_of(depth: int) -> Builder:
    builder = Builder()
    builder.header_type("h_t", [("a", 8)])
    builder.stack("st", "h_t", depth)
    return builder


def wide_header() -> Builder:
    builder = Builder()
    builder.header_type("h_t", [("a", 2048)])
    builder.header("h0", "h_t")
    return builder


def hashed(count: int) -> Builder:
    builder = wide_header()
    inputs = [{"type": "field", "value": ["h0", "a"]}] * count
    builder.data["calculations"] = [{"name": "c", "id": 0, "algo": "crc32", "input": inputs}]
    return builder


def keyed(count: int) -> Builder:
    builder = wide_header()
    action = builder.action("a", [call("no_op")])
    builder.table("t", [("exact", field("h0", "a"))] * count, [action], default=action)
    return builder


def sized(size: int) -> Builder:
    builder = Builder()
    action = builder.action("a", [call("no_op")])
    builder.table("t", [], [action], default=action, size=size)
    return builder


def long(count: int) -> Builder:
    builder = Builder()
    builder.header_type("m_t", [("a", 2048), ("b", 2048)])
    builder.header("m", "m_t", metadata=True)
    divided = expression("/", field("m", "a"), expression("+", field("m", "b"), const(3)))
    builder.run(builder.action("a", [call("assign", field("m", "a"), divided)] * count))
    return builder


@pytest.mark.parametrize(
    ("make", "most", "words"),
    [
        (stack_of, 1024, "elements of a header stack"),
        (hashed, 256, "bytes of input of a hash"),
        (keyed, 32, "words of 64 bits in a key"),
        (sized, (1 << 32) - 1, "size of a table"),
        (long, 17, "steps for one packet"),
    ],
)
def test_program_size_limits_are_enforced(make: Callable[[int], Builder], most: int, words: str) -> None:
    generate(load_program(make(most).text()))
    with pytest.raises(Unsupported, match=words):
        generate(load_program(make(most + 1).text()))


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_identifiers_must_fit_the_engine(number: int) -> None:
    for section in ("field_lists", "learn_lists"):
        builder = Builder()
        builder.data[section] = [{"id": number, "name": "x", "elements": []}]
        with pytest.raises(Unsupported, match="id of a field list"):
            generate(load_program(builder.text()))
    builder = Builder()
    builder.data["errors"].append(["Mine", number])
    with pytest.raises(Unsupported, match="number of an error"):
        generate(load_program(json.dumps(builder.data)))
