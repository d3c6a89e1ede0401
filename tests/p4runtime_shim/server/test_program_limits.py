"""Programs and P4Infos that are too large are refused with a status and a message."""

from __future__ import annotations

import time
from typing import Any

import grpc
import grpc.aio
import pytest
from finsy.proto import p4i, p4t, rpc_code
from google.protobuf import text_format

from p4runtime_shim import limits
from p4runtime_shim.errors import InvalidProgram, Unsupported
from p4runtime_shim.program import load_program
from p4runtime_shim.server import p4data, p4info
from p4runtime_shim.server.rpc_errors import RpcError
from tests.p4runtime_shim.builder import Builder, call, const, field
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.world import (
    Client,
    World,
    failing,
    with_client,
)

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def looping(*names: str) -> str:
    """Tables of which each leads to the next, and the last to the first."""
    made = Builder()
    action = made.action("a", [call("no_op")])
    for name in names:
        made.table(name, [], [action], default=action, const=True)
    tables = made.data["pipelines"][0]["tables"]
    for table, following in zip(tables, [*names[1:], names[0]], strict=True):
        table["next_tables"] = {"a": following}
        table["base_default_next"] = following
    return made.text()


def with_constant(width: int) -> str:
    made = Builder()
    value = {"type": "hexstr", "value": "0x1", "bitwidth": width}
    made.data["calculations"] = [{"name": "c", "id": 0, "algo": "crc16", "input": [value]}]
    return made.text()


def deep(levels: int) -> str:
    made = Builder()
    value: Any = const(1)
    for _ in range(levels):
        value = {"type": "expression", "value": {"op": "+", "left": value, "right": const(1)}}
    made.action("a", [call("assign", field("standard_metadata", "egress_spec"), value)])
    return made.text()


def cells(**sizes: int) -> str:
    made = Builder()
    for name, size in sizes.items():
        made.data["counter_arrays"].append({"name": name, "id": 0, "is_direct": False, "size": size})
    return made.text()


def wide(headers: int) -> str:
    made = Builder()
    made.header_type("h_t", [(f"f{i}", 2048) for i in range(32)])
    for number in range(headers):
        made.header(f"h{number}", "h_t")
    return made.text()


def learning(fields: int) -> str:
    made = Builder()
    made.header_type("h_t", [(f"f{i}", 2048) for i in range(fields)])
    made.header("h", "h_t", metadata=True)
    elements = [field("h", f"f{i}") for i in range(fields)]
    made.data["learn_lists"] = [{"id": 1, "name": "d", "elements": elements}]
    return made.text()


def parsing(*, parameter: str = "0x1", lookahead: int = 0, shift: int = 1) -> str:
    """A parser that shifts, then looks ahead; and an action with a constant."""
    made = Builder()
    value = {"type": "hexstr", "value": parameter, "bitwidth": 16}
    made.action("a", [call("assign", field("standard_metadata", "egress_spec"), value)])
    key = [{"type": "lookahead", "value": [lookahead, 8]}]
    state = {"name": "start", "id": 0, "parser_ops": [{"op": "shift", "parameters": [shift]}]}
    transitions = [{"type": "default", "value": None, "mask": None, "next_state": None}]
    made.data["parsers"][0] |= {
        "init_state": "start",
        "parse_states": [{**state, "transition_key": key, "transitions": transitions}],
    }
    return made.text()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (looping("t"), "leads back to itself"),
        (looping("t", "u", "v"), "leads back to itself"),
        (with_constant(4 * 10**10), "40000000000 bits"),
        (deep(limits.MAX_EXPRESSION_DEPTH + 1), "nested too deeply"),
        (deep(330), "nested too deeply"),
        (cells(a=1 << 24, b=1), "counters, meters and registers"),
        (wide(9), "headers and metadata"),
        (learning(129), "digest of"),
        (parsing(parameter="0x" + "1" * limits.MAX_HEX_DIGITS), "digits; the most is"),
        (parsing(lookahead=limits.MAX_LOOKAHEAD_BITS + 1), "lookahead over"),
        (parsing(shift=limits.MAX_LOOKAHEAD_BITS // 8 + 1), "shift of"),
        ("[" * 100_000, "not JSON"),
        ('{"program": "\\ud800"}', "lone surrogate"),
    ],
    ids=[
        "loop",
        "longer-loop",
        "constant",
        "depth",
        "depth-in-python",
        "cells",
        "headers",
        "digest",
        "digits",
        "lookahead",
        "shift",
        "json",
        "surrogate",
    ],
)
def test_programs_that_are_too_large_are_refused_at_once(text: str, word: str) -> None:
    began = time.thread_time()
    with pytest.raises((InvalidProgram, Unsupported), match=word):
        load_program(text)
    assert time.thread_time() - began < 5


def test_programs_within_the_limits_are_accepted() -> None:
    for text in (
        with_constant(limits.MAX_VALUE_BITS),
        deep(limits.MAX_EXPRESSION_DEPTH - 2),
        cells(a=(1 << 24) - 1),
        wide(7),
        learning(100),
        parsing(parameter="0x" + "0" * (limits.MAX_HEX_DIGITS - 3) + "1"),
        parsing(lookahead=limits.MAX_LOOKAHEAD_BITS),
        parsing(shift=limits.MAX_LOOKAHEAD_BITS // 8),
    ):
        load_program(text)


def test_control_flow_that_rejoins_is_not_a_loop() -> None:
    """A diamond of conditions, 60 high: 2^60 ways through it."""
    made = Builder()
    last = "end"
    action = made.action("a", [call("no_op")])
    made.table("end", [], [action], default=action, const=True)
    conditions = made.data["pipelines"][0]["conditionals"]
    for number in range(60):
        true = {"type": "expression", "value": {"op": "==", "left": const(1), "right": const(1)}}
        for side in ("l", "r"):
            conditions.append(
                {"name": f"{side}{number}", "id": 0, "expression": true, "true_next": last, "false_next": last}
            )
        conditions.append(
            {"name": f"c{number}", "id": 0, "expression": true, "true_next": f"l{number}", "false_next": f"r{number}"}
        )
        last = f"c{number}"
    began = time.thread_time()
    load_program(made.text())
    assert time.thread_time() - began < 5


def struct_types(depth: int, members: int, leaf: str) -> p4t.P4TypeInfo:
    types = p4t.P4TypeInfo()
    for level in range(depth):
        inner = f'struct {{ name: "s{level + 1}" }}' if level + 1 < depth else leaf
        for number in range(members):
            item = types.structs[f"s{level}"].members.add(name=f"m{number}")
            item.type_spec.CopyFrom(text_format.Parse(inner, p4t.P4DataTypeSpec()))
    return types


@pytest.mark.parametrize("leaf", ["bitstring { bit { bitwidth: 8 } }", "tuple {}"])
def test_exponentially_nested_structs_are_refused_quickly(leaf: str) -> None:
    spec = text_format.Parse('struct { name: "s0" }', p4t.P4DataTypeSpec())
    began = time.thread_time()
    with pytest.raises(RpcError, match="more than 1024 members"):
        p4data.count_leaves(spec, struct_types(15, 8, leaf), "digest d")
    assert time.thread_time() - began < 5
    assert p4data.count_leaves(spec, struct_types(2, 30, "bool {}"), "digest d") == 900


def test_oversized_p4infos_are_refused() -> None:
    info = sample.p4info()
    info.pkg_info.doc.description = "x" * limits.MAX_P4INFO_BYTES
    with pytest.raises(RpcError, match="P4Info has") as caught:
        p4info.build(info)
    assert caught.value.code == rpc_code.INVALID_ARGUMENT
    info = sample.p4info()
    for number in range(10):
        info.controller_packet_metadata[0].metadata.add(id=100 + number, name=f"m{number}", bitwidth=2048)
    with pytest.raises(RpcError, match="bits; the maximum is 8192"):
        p4info.build(info)


@pytest.mark.parametrize("config", [b"[" * 100_000, b'{"a":' * 100_000, b"{}" + b" " * limits.MAX_PROGRAM_BYTES])
def test_json_of_any_depth_and_length_is_handled_or_refused(config: bytes) -> None:
    async def work(client: Client, made: World) -> None:
        error = await failing(client.set_config(p4i.P4Info(), config))
        assert error.code() == INVALID
        assert "Error(" not in (error.details() or "")

    with_client(work)
