"""Reading BMv2 JSON: what is refused, and how well the message names it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from p4runtime_shim.codegen import generate
from p4runtime_shim.errors import InvalidProgram, SwitchError, Unsupported
from p4runtime_shim.program import load_program
from tests.fuzz.random_program import RandomProgram
from tests.p4runtime_shim import programs, test_unions, test_varbits, value_set_program
from tests.p4runtime_shim.builder import Builder, call, const, expression, field, send_to, wrapped

Change = Callable[[Builder], object]


def _union_header(builder: Builder) -> None:
    builder.data["header_union_types"].append({"name": "addr_t", "id": 0, "headers": []})
    builder.header("addr", "addr_t")


def _no_bits(builder: Builder) -> None:
    builder.header_type("empty_t", [("f", 8), ("nothing", 0)])


def _no_bits_of_parameter(builder: Builder) -> None:
    builder.action("a", [], [("nothing", 0)])


def _primitive(builder: Builder) -> None:
    builder.action("a", [call("frobnicate", line=12)])


def _extern_function(builder: Builder) -> None:
    builder.action("a", [call("extern_func", line=14)])


def _extern_function_in_parser(builder: Builder) -> None:
    builder.state("start", [{"op": "primitive", "parameters": [call("extern_func", line=15)]}])


def _extern(builder: Builder) -> None:
    builder.data["extern_instances"].append({"name": "x", "id": 0, "type": "Widget"})


def _extern_called(builder: Builder) -> None:
    _extern(builder)
    builder.action("a", [call("_Widget_turn", line=13)])


def _hash(builder: Builder) -> None:
    builder.data["calculations"].append({"name": "c", "id": 0, "algo": "md5", "input": []})


def _field_width(builder: Builder) -> None:
    builder.header_type("huge_t", [("f", 4096)])


def _operation(builder: Builder) -> None:
    tree = expression("???", const(1), const(2))
    builder.action("a", [call("assign", field("standard_metadata", "egress_spec"), wrapped(tree), line=40)])


def _endless_shift(builder: Builder) -> None:
    amount = field("standard_metadata", "packet_length")
    tree = expression(">", expression("<<", const(1), amount), const(2))
    parameter = wrapped(expression("b2d", None, tree))
    builder.action("a", [call("assign", field("standard_metadata", "egress_spec"), parameter, line=50)])


@pytest.mark.parametrize(
    ("change", "construct", "place"),
    [
        (_union_header, "header union 'addr' (", ("test.p4", 0)),
        (_no_bits, "field 'nothing' of 0 bits (bit<0>) in header type empty_t", ("test.p4", 0)),
        (_no_bits_of_parameter, "parameter 'nothing' of 0 bits in action a", ("test.p4", 0)),
        (_primitive, "custom extern 'frobnicate' in action a", ("test.p4", 12)),
        (_extern_function, "custom extern 'extern_func' in action a (test.p4:14)", ("test.p4", 14)),
        (_extern_function_in_parser, "custom extern 'extern_func' in parser state start", ("test.p4", 15)),
        (_extern, "extern 'Widget' in extern x", ("test.p4", 0)),
        (_extern_called, "extern 'Widget' (extern x), called in action a", ("test.p4", 13)),
        (_hash, "hash algorithm 'md5'", ("test.p4", 0)),
        (_field_width, "4096 bits", ("test.p4", 0)),
        (_operation, "operation '???'", ("test.p4", 40)),
        (_endless_shift, "shift left", ("test.p4", 50)),
    ],
)
def test_unsupported_constructs_are_reported_with_their_location(
    change: Change, construct: str, place: tuple[str, int]
) -> None:
    builder = Builder()
    change(builder)
    with pytest.raises(Unsupported) as caught:
        generate(load_program(builder.text()))
    assert construct in str(caught.value)
    assert (caught.value.file, caught.value.line) == place
    shown = f"({place[0]}:{place[1]})" if place[1] else "(test.p4; p4c gives no line for it)"
    assert shown in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "{}", '{"headers": 3}', '{"header_types": [3]}'])
def test_invalid_json_programs_are_refused(text: str) -> None:
    with pytest.raises((InvalidProgram, Unsupported)):
        load_program(text)


def test_newer_format_versions_are_refused() -> None:
    builder = Builder()
    builder.data["__meta__"]["version"] = [3, 0]
    with pytest.raises(InvalidProgram, match="version"):
        load_program(builder.text())


def _spoil(rng: random.Random, data: Any) -> None:
    """Change one random place of the JSON."""
    while True:
        if not isinstance(data, dict | list) or not data:
            return
        key = rng.choice(list(data)) if isinstance(data, dict) else rng.randrange(len(data))
        if isinstance(data[key], dict | list) and data[key] and rng.random() < 0.9:
            data = data[key]
            continue
        choice = rng.randrange(6)
        if choice == 0:
            del data[key]
        else:
            data[key] = [None, -1, "", [], {"type": "field", "value": ["a", "b"]}][choice - 1]
        return


@pytest.mark.second_ring
@pytest.mark.parametrize("name", [*programs.NAMES, "value sets", "varbits", "unions", "everything"])
def test_mutated_programs_load_or_give_a_clear_error(name: str) -> None:
    """No exception but ours comes out of the loader and the generator, whatever the JSON."""
    print("seed: name of the program")
    rng = random.Random(name)
    made = {
        "value sets": lambda: value_set_program.compiled().json,
        "varbits": lambda: test_varbits.compiled(13, 35),
        "unions": test_unions.parsing,
        "everything": lambda: RandomProgram(random.Random(1)).text,
    }
    original = made[name]() if name in made else programs.text(name)
    for _ in range(150):
        data = json.loads(original)
        for _ in range(rng.randint(1, 2)):
            _spoil(rng, data)
        try:
            generate(load_program(json.dumps(data)))
        except SwitchError as error:
            assert str(error)  # noqa: PT017


def test_names_are_those_the_control_plane_uses() -> None:
    program = load_program(programs.text("keys"))
    assert "MyIngress.ternary_t" in [table.name for table in program.tables]
    assert program.errors["StackOutOfBounds"] == 3


@pytest.mark.parametrize("name", [*programs.NAMES, "fabric"])
@pytest.mark.parametrize("empty", [{}, None])
def test_an_empty_object_is_an_empty_list(name: str, empty: object) -> None:
    """What BMv2's JSON library reads as nothing to iterate over: [], {} and null."""

    def replaced(data: object) -> object:
        if isinstance(data, dict):
            return {key: empty if value == [] else replaced(value) for key, value in data.items()}
        return [replaced(item) for item in data] if isinstance(data, list) else data

    text = programs.FABRIC.read_text() if name == "fabric" else programs.text(name)
    changed = json.dumps(replaced(json.loads(text)))
    assert generate(load_program(changed)) == generate(load_program(text))


def test_code_generation_is_deterministic() -> None:
    builder = Builder()
    builder.run(builder.action("a", [send_to(1)]))
    assert generate(load_program(builder.text())) == generate(load_program(builder.text()))
