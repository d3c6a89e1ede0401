"""JSON that every reader understands, in both directions; and who may read or write another."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from mrc_common import strict_json

ROOT = Path(__file__).parents[2]
ROOMS = ("controller", "mrc_common", "mrc_host", "mrc_lab", "p4runtime_shim", "p4src", "simulation", "topologies")

_OTHERWISE = {
    "mrc_common/declared/document.py": "YAML is allowed too, which has NaN; each value is checked",
    "mrc_common/strict_json.py": "the rule itself",
    "mrc_lab/perf/launch.py": "what it wrote itself",
    "mrc_lab/published/__init__.py": "installed with the project",
    "mrc_lab/reports/published_plots.py": "what it wrote itself, as a key",
    "p4src/__init__.py": "installed with the project",
    "p4runtime_shim/program/loader.py": "p4c's own, whose every number is checked to be an integer",
    "p4runtime_shim/server/pipeline_config.py": "the same",
}
"""Files that read JSON otherwise, and why."""

_WRITTEN_OTHERWISE = {
    "mrc_common/declared/document.py": "a number, as a word of YAML",
    "mrc_common/strict_json.py": "the rule itself",
    "mrc_host/tools/mrc_ping.py": "people read it: with spaces",
    "mrc_lab/planning/command.py": "the same",
    "mrc_lab/commands/listing.py": "the same",
    "mrc_lab/sweeps/table.py": "the same, and without NaN",
    "mrc_lab/experiments/files/schema.py": "a constant of the project",
    "mrc_lab/experiments/files/from_htsim.py": "texts, as words of YAML",
    "mrc_lab/web/recording.py": "names of modules",
    "mrc_lab/pytest_plugin/marker.py": "read as YAML, which has NaN; each value is checked",
    "mrc_lab/reports/published_plots.py": "a key",
    "p4runtime_shim/program/loader.py": "hashed, so its bytes have to stay",
}
"""Files that write JSON otherwise, and why."""


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "[-1e400]", "[" * 100_000, "{", ""])
def test_what_is_no_json_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        strict_json.loads(text)


def test_json_is_read_as_ever() -> None:
    text = '{"a": [1, 1.5, -0.0, 1e-400, 1e300, "\\ud800", null, true]}'
    assert strict_json.loads(text) == json.loads(text)
    assert strict_json.loads(text.encode()) == json.loads(text)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": {"b": float("-inf")}}])
def test_what_is_no_number_is_not_written(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        strict_json.dumps(value)
    assert json.loads(strict_json.dumps(strict_json.finite(value))) in (None, [None], {"a": {"b": None}})


def test_what_is_nested_too_deeply_is_not_written() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        strict_json.dumps(value)
    while value:
        (value,) = value  # type: ignore[assignment]


def test_every_reader_of_json_is_strict() -> None:
    """A new one uses mrc_common.strict_json, or is in the list above with a reason."""
    found = set()
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
            if {"json.loads", "json.load"} & {ast.unparse(function) for function in calls}:
                found.add(str(file.relative_to(ROOT)))
    assert found - set(_OTHERWISE) == set(), "these read JSON that is none"


def test_every_writer_of_json_is_strict() -> None:
    """The same for what is written."""
    found = set()
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
            if {"json.dumps", "json.dump"} & {ast.unparse(function) for function in calls}:
                found.add(str(file.relative_to(ROOT)))
    assert found == set(_WRITTEN_OTHERWISE), "these write what may be none, or are listed and do not"
