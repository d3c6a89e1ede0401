"""The 18 programs whose p4c output is committed: the same P4Info, and BMv2's recorded outcomes."""

from __future__ import annotations

import json

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from p4runtime_shim.program.loader import load_program
from tests.p4compiler.compiled import SOURCES, compiled, pipeline
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.differential import embedded
from tests.p4runtime_shim.differential.scenarios import SCENARIOS
from tests.p4runtime_shim.differential.vectors import FOLDER, from_line


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_p4info_is_that_of_p4c(name: str) -> None:
    folder = programs.FABRIC.parent if name == "fabric" else programs.FOLDER
    committed = text_format.Parse((folder / f"{name}.p4info.txtpb").read_text(), p4i.P4Info())
    assert text_format.Parse(compiled(name).p4info, p4i.P4Info()) == committed


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_recorded_outcomes_of_bmv2_are_met(name: str) -> None:
    for number, line in enumerate((FOLDER / f"{name}.jsonl").read_text().splitlines()):
        vector, recorded = from_line(line)
        assert embedded.run(vector, pipeline(name))[0] == recorded, f"vector {number}"


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_tables_and_state_have_the_names_of_p4c(name: str) -> None:
    ours = load_program(compiled(name).json)
    theirs = load_program(programs.FABRIC.read_text() if name == "fabric" else programs.text(name))
    assert {item.name for item in ours.tables if item.keys} >= {item.name for item in theirs.tables if item.keys}
    for kind in ("counters", "meters", "registers", "profiles", "digests"):
        assert {item.name for item in getattr(theirs, kind)} <= {item.name for item in getattr(ours, kind)}, kind
    assert set(ours.errors) == set(theirs.errors)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_programs_have_no_warnings(name: str) -> None:
    assert [item.message for item in compiled(name).warnings] == []


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_arguments_are_as_bmv2_wants_them(name: str) -> None:
    """BMv2 takes an operation, and a field of stack.last, only inside of another expression (p4c: `to_wrap`)."""
    made = json.loads(compiled(name).json)
    arguments = [item for action in made["actions"] for part in action["primitives"] for item in part["parameters"]]
    for state in made["parsers"][0]["parse_states"]:
        arguments += [part["parameters"][1] for part in state["parser_ops"] if part["op"] == "set"]
    for item in arguments:
        assert item["type"] != "stack_field"
        assert item["type"] != "expression" or "op" not in item["value"]
