"""Parser errors have the numbers that the JSON gives them, in whatever order a program declares them."""

from __future__ import annotations

import random

import pytest

from p4runtime_shim.codegen import generate
from p4runtime_shim.errors import InvalidProgram
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program import load_program
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.builder import ERRORS, Builder, const, expression, extract, field, header, send_to, wrapped
from tests.p4runtime_shim.builder import call as primitive

MINE = "Mine"
CAUSES = ("NoError", "PacketTooShort", "StackOutOfBounds", "ParserTimeout", "ParserInvalidArgument", MINE)


def sent(switch: EmbeddedSwitch, frame: bytes) -> bytes | None:
    switch.receive(0, frame, 0)
    return switch.transmit(1, 0)


def test_a_programs_error_declared_before_those_of_core_is_not_taken_for_no_error() -> None:
    """What BMv2 does: a packet starts with NoError's number, and a header that was not extracted is not emitted."""
    with EmbeddedSwitch(programs.pipeline("error_first"), ports=[0, 1], seed=0) as switch:
        assert sent(switch, b"\0\1") == b"\xaa\1"
        assert sent(switch, b"\0\x09") == b"\xbb\x09"
        assert sent(switch, b"\0") == b"\0"


def numbered(errors: dict[str, int]) -> Builder:
    """A program that fails as the packet's first byte says (its place in CAUSES) and then sends the error's number."""
    b = Builder()
    b.data["errors"] = [[name, code] for name, code in errors.items()]
    b.header_type("cause_t", [("cause", 8), ("error", 32)])
    b.header("c", "cause_t")
    b.header_type("long_t", [("bits", 512)])
    b.header("long", "long_t")
    b.header_type("entry_t", [("x", 8)])
    b.stack("st", "entry_t", 1)
    following = [{"op": "extract", "parameters": [{"type": "stack", "value": "st"}]}]
    b.state(
        "start",
        [extract("c")],
        key=[field("c", "cause")],
        transitions=[(f"0x{place:02x}", None, name) for place, name in enumerate(CAUSES) if place],
    )
    b.state("PacketTooShort", [extract("long")])
    b.state("StackOutOfBounds", following * 2)
    b.state("ParserTimeout", [], default="ParserTimeout")
    odd = wrapped(expression("|", const(1), field("c", "cause")))
    b.state("ParserInvalidArgument", [{"op": "advance", "parameters": [odd]}])
    never = wrapped(expression("==", field("c", "cause"), const(0)))
    mine = const(errors.get(MINE, 0))
    b.state(MINE, [{"op": "verify", "parameters": [never, mine]}])
    report = primitive("assign", field("c", "error"), field("standard_metadata", "parser_error"))
    b.run(b.action("report", [primitive("add_header", header("c")), report, send_to(1)]))
    b.emit("c")
    return b


def completed(errors: dict[str, int]) -> dict[str, int]:
    """With the core errors that are missing, numbered as in BMv2: after the greatest number, in core.p4's order."""
    after = max(errors.values(), default=-1) + 1
    missing = [name for name in ERRORS if name not in errors]
    return errors | {name: after + place for place, name in enumerate(missing)}


@pytest.mark.parametrize("seed", range(4))
def test_errors_have_the_numbers_of_the_json(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    names = [*ERRORS, MINE, "Other"]
    rng.shuffle(names)
    kept = names[: rng.choice([len(names), rng.randrange(len(names))])]
    codes = rng.sample(range(len(kept)), len(kept)) if seed % 2 else rng.sample(range(1 << 20), len(kept))
    errors = dict(zip(kept, codes, strict=True))
    expected = completed(errors) | {MINE: errors.get(MINE, 0)}
    with EmbeddedSwitch(Pipeline.load(numbered(errors).text()), ports=[0, 1], seed=0) as switch:
        for place, cause in enumerate(CAUSES):
            out = sent(switch, bytes([place, 0, 0, 0, 0, 1, 2]))
            assert out is not None, cause
            assert int.from_bytes(out[1:5], "big") == expected[cause], cause


def test_packets_that_are_not_parsed_have_no_error() -> None:
    """BMv2's Parser::parse sets NoError and no checksum error, and returns if there is no first state."""
    b = Builder()
    b.data["errors"] = [["Mine", 0], ["NoError", 5]]
    b.header_type("seen_t", [("error", 32), ("checksum", 8)])
    b.header("c", "seen_t")
    b.data["calculations"].append({"name": "sum", "id": 0, "algo": "csum16", "input": [const(7) | {"bitwidth": 16}]})
    target = ["standard_metadata", "packet_length"]
    b.data["checksums"].append(
        {"name": "wrong", "id": 0, "target": target, "type": "generic", "calculation": "sum", "update": False}
    )
    report = [
        primitive("add_header", header("c")),
        primitive("assign", field("c", "error"), field("standard_metadata", "parser_error")),
        primitive("assign", field("c", "checksum"), field("standard_metadata", "checksum_error")),
    ]
    b.run(b.action("report", [*report, send_to(1)]))
    b.emit("c")
    with EmbeddedSwitch(Pipeline.load(b.text()), ports=[0, 1], seed=0) as switch:
        assert sent(switch, b"rest") == b"\0\0\0\5\0rest"
    b.state("start", [])
    with EmbeddedSwitch(Pipeline.load(b.text()), ports=[0, 1], seed=0) as switch:
        assert sent(switch, b"rest") == b"\0\0\0\5\1rest"


@pytest.mark.parametrize(
    "errors", [[["NoError", 0], ["NoError", 1]], [["NoError", 0], ["Mine", 0]], [["NoError", "0"]], [[["x"], 0]], [3]]
)
def test_contradictory_errors_are_refused(errors: list[object]) -> None:
    b = Builder()
    b.data["errors"] = errors
    with pytest.raises(InvalidProgram, match="error"):
        generate(load_program(b.text()))


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (300, 7)])
def test_keys_and_const_entries_are_the_numbers_of_the_json(numbers: tuple[int, int]) -> None:
    """An entry for a program's own error matches packets with it and no others, whatever its number is."""
    mine, no_error = numbers
    b = numbered({MINE: mine, "NoError": no_error})
    caught = b.action("caught", [send_to(2)])
    key = [("exact", field("standard_metadata", "parser_error"))]
    entry = {
        "match_key": [{"match_type": "exact", "key": f"0x{mine:08x}"}],
        "action_entry": {"action_id": caught, "action_data": []},
        "priority": 1,
    }
    b.table("errors", key, [caught], entries=[entry])
    with EmbeddedSwitch(Pipeline.load(b.text()), ports=[0, 1, 2], seed=0) as switch:
        for place, cause in enumerate(CAUSES):
            switch.receive(0, bytes([place, 0, 0, 0, 0, 1, 2]), 0)
            (port,) = switch.ready()
            assert port == (2 if cause == MINE else 1), cause
            assert switch.transmit(port, 0) is not None
