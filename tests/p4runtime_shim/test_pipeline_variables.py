"""Metadata that one pipeline alone uses: which these are, and that programs do the same as if they were in packets."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from p4runtime_shim.codegen import layout
from p4runtime_shim.codegen.pipeline_variables import pipeline_variables
from p4runtime_shim.codegen.translation_unit import generate
from p4runtime_shim.entities import Replica
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program import load_program
from p4runtime_shim.program.model.expressions import HeaderRef
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.builder import (
    Builder,
    Json,
    call,
    const,
    expression,
    extract,
    field,
    header,
    send_to,
    wrapped,
)

WIDTHS = {"a": 1, "b": 9, "c": 32, "d": 48, "e": 64, "f": 128, "g": 200}


def found(builder: Builder) -> dict[str, str]:
    """The pipelines that alone use fields of `m`, by field."""
    program = load_program(builder.text())
    names = {
        (number, place): f"{instance.name}.{item.name}"
        for number, instance in enumerate(program.headers)
        for place, item in enumerate(program.types[instance.type].fields)
    }
    return {names[position].removeprefix("m."): part for position, part in pipeline_variables(program).items()}


def program() -> Builder:
    builder = Builder()
    builder.header_type("m_t", list(WIDTHS.items()))
    builder.header("m", "m_t", metadata=True)
    builder.header_type("h_t", [*WIDTHS.items(), ("pad", 6)])
    builder.header("h", "h_t")
    builder.state("start", [extract("h")])
    builder.emit("h")
    return builder


def plus(target: str, name: str, other: Json) -> Json:
    """`target.name` = itself + other."""
    return call("assign", field(target, name), wrapped(expression("+", field(target, name), other)))


def test_fields_of_one_pipeline_are_its_variables() -> None:
    builder = program()
    builder.run(builder.action("first", [plus("m", "a", const(1)), plus("m", "c", field("m", "d")), send_to(1)]))
    builder.run(builder.action("last", [plus("m", "b", const(1)), plus("m", "c", const(1))]), pipeline="egress")
    assert found(builder) == {"a": "ingress", "b": "egress", "d": "ingress"}, "c is used by both"


def test_fields_used_elsewhere_stay_in_packets() -> None:
    builder = program()
    builder.data["parsers"][0]["parse_states"][0]["parser_ops"].append(
        {"op": "set", "parameters": [field("m", "a"), const(1)]}
    )
    builder.data["field_lists"].append({"id": 1, "name": "kept", "elements": [field("m", "b")]})
    builder.data["learn_lists"].append({"id": 1, "name": "learned", "elements": [field("m", "c")]})
    builder.action("never", [plus("m", "d", const(1))])
    ingress = [plus("m", name, const(1)) for name in WIDTHS]
    builder.run(builder.action("all", [*ingress, send_to(1)]))
    assert found(builder) == {"e": "ingress", "f": "ingress", "g": "ingress"}


@pytest.mark.parametrize("asked", ["value", "validity"])
def test_a_field_that_says_which_element_of_a_stack_is_meant_is_used(asked: str) -> None:
    builder = program()
    builder.stack("s", "h_t", 3)
    element = expression("dereference_header_stack", {"type": "header_stack", "value": "s"}, field("m", "b"))
    validity = expression("b2d", None, expression("valid", None, element))
    value = {"type": "expression", "value": {"op": "access_field", "left": element, "right": 2}}
    read = call("assign", field("h", "c"), wrapped(value if asked == "value" else validity))
    builder.run(builder.action("first", [plus("m", "b", const(1)), send_to(1)]))
    builder.run(builder.action("last", [read]), pipeline="egress")
    assert found(builder) == {}


def test_a_header_that_is_taken_as_a_whole_stays_in_packets() -> None:
    builder = program()
    builder.header("n", "m_t", metadata=True)
    builder.run(builder.action("all", [plus("m", "a", const(1)), plus("n", "a", const(1)), send_to(1)]))
    assert found(builder) == {"a": "ingress", "n.a": "ingress"}
    builder.run(builder.action("copy", [call("assign_header", header("m"), header("n"))]))
    assert found(builder) == {}


@pytest.mark.parametrize("name", programs.NAMES)
def test_standard_metadata_stay_in_packets(name: str) -> None:
    loaded = load_program(programs.text(name))
    refs = [(ref.header.header, ref.field) for ref in loaded.intrinsic.values() if isinstance(ref.header, HeaderRef)]
    assert refs
    assert not set(refs) & pipeline_variables(loaded).keys()


def statements(rng: random.Random, fields: list[str]) -> list[Json]:
    """Random assignments between fields of `m` and `h`, which read before they write, too."""
    made = []
    for _ in range(rng.randrange(4, 12)):
        target = field(rng.choice("hm"), rng.choice(fields))
        left, right = (field(rng.choice("hmm"), rng.choice(fields)) for _ in range(2))
        made.append(call("assign", target, wrapped(expression(rng.choice(["+", "^", "-"]), left, right))))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_programs_do_what_they_did_with_all_metadata_in_packets(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each packet is copied to three ports, and each copy passes egress."""
    print(f"seed: {seed}")
    rng = random.Random(seed)
    builder = program()
    groups = rng.sample(list(WIDTHS), 3), rng.sample(list(WIDTHS), 3)
    multicast = call("assign", field("standard_metadata", "mcast_grp"), const(1))
    builder.run(builder.action("first", [*statements(rng, groups[0]), multicast]))
    builder.run(builder.action("last", statements(rng, groups[1])), pipeline="egress")
    frames = [rng.randbytes(sum(WIDTHS.values()) // 8 + 1 + rng.randrange(20)) for _ in range(20)]
    mine = outcome(builder, frames)
    assert pipeline_variables(load_program(builder.text()))
    monkeypatch.setattr(layout, "pipeline_variables", lambda _program: {})
    assert mine == outcome(builder, frames)
    assert len(mine) == 3 * len(frames)


def outcome(builder: Builder, frames: list[bytes]) -> list[tuple[int, bytes]]:
    """What comes out of a switch with the program."""
    sent = []
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=range(4), seed=0) as switch:
        switch.control_plane.replication.group_set(1, [Replica(port, port) for port in (1, 2, 3)])
        for frame in frames:
            switch.receive(0, frame, 0)
            for port in (1, 2, 3):
                while (left := switch.transmit(port, 0)) is not None:
                    sent.append((port, left))
    return sent


def hashed(builder: Builder) -> Json:
    """A hash over fields of both pipelines, and a primitive that calculates it."""
    inputs = [field("m", "b"), field("m", "c")]
    builder.data["calculations"].append({"name": "hash", "id": 0, "algo": "crc16", "input": inputs})
    name = {"type": "calculation", "value": "hash"}
    return call("modify_field_with_hash_based_offset", field("h", "c"), const(0), name, const(256))


def unused_hash(builder: Builder) -> None:
    hashed(builder)


def hash_of_an_action_that_never_runs(builder: Builder) -> None:
    builder.action("never", [hashed(builder)])


def hash_of_the_parser(builder: Builder) -> None:
    operation = {"op": "primitive", "parameters": [hashed(builder)]}
    builder.data["parsers"][0]["parse_states"][0]["parser_ops"].append(operation)


def unused_selector(builder: Builder) -> None:
    selector = {"algo": "crc16", "input": [field("m", "b"), field("m", "c")]}
    profile = {"name": "p", "id": 0, "max_size": 4, "selector": selector}
    builder.data["pipelines"][0]["action_profiles"].append(profile)


@pytest.mark.parametrize(
    "add",
    [unused_hash, hash_of_an_action_that_never_runs, hash_of_the_parser, unused_selector],
    ids=lambda add: add.__name__,
)
def test_what_a_pipeline_never_runs_is_compiled_nevertheless(add: Callable[[Builder], None]) -> None:
    builder = program()
    builder.run(builder.action("first", [plus("m", "a", const(1)), plus("m", "b", const(1)), send_to(1)]))
    builder.run(builder.action("last", [plus("m", "c", const(1))]), pipeline="egress")
    add(builder)
    assert found(builder) == {"a": "ingress"}
    Pipeline.load(builder.text())


def test_the_time_to_compile_grows_with_the_number_of_headers() -> None:
    """Not with its square: a client may send programs with thousands."""

    def steps(count: int) -> int:
        builder = program()
        for number in range(count):
            builder.header(f"n{number}", builder.header_type(f"t{number}", [("f", 8)]), metadata=True)
        loaded = load_program(builder.text())
        done = 0

        def count_steps(frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal done
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            done += event == "opcode"
            return count_steps

        before = sys.gettrace()
        sys.settrace(count_steps)
        try:
            generate(loaded)
        finally:
            sys.settrace(before)
        return done

    assert steps(240) < 5 * steps(60)
