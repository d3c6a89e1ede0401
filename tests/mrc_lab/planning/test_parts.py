"""Power and cost of parts, and files that change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.errors import FileError
from mrc_lab.planning.clos import Design, Request, design
from mrc_lab.planning.parts import Parts, load_parts

G = 10**9


def test_power_and_cost_are_sums_over_the_parts():
    found = design(Request(65_536, 800 * G, 512, 100 * G, 800 * G), 2, 8)
    assert isinstance(found, Design)
    parts = load_parts(None, ["switch.power=2", "switch.cost=10", "optic.power=1", "optic.cost=5"])
    assert parts.power(found) == 2 * 3072 + 262_144
    assert parts.cost(found) == 10 * 3072 + 5 * 262_144


def test_settings_override_the_file_and_the_file_the_defaults(tmp_path: Path):
    file = tmp_path / "parts.yaml"
    file.write_text("switch: {cost: 1}\noptic: {cost: 2}\n")
    parts = load_parts(file, ["optic.cost=3"])
    assert (parts.switch.cost, parts.optic.cost) == (1, 3)
    assert parts.switch.power == Parts().switch.power


@pytest.mark.parametrize(
    ("text", "settings", "problem"),
    [
        ("switch: {price: 1}", [], "line 1: switch.price: unknown key"),
        ("switch: {cost: cheap}", [], "switch.cost: must be a number"),
        ("switch: {cost: -1}", [], "is -1, but must be at least 0"),
        ("[]", [], "must be a mapping"),
        ("{}", ["switch.cost=1,2"], "give one value"),
        ("{}", ["switch.cost"], "write a key and its values"),
        ("{}", ["switch.cost.much=1"], "is not a key that can be set|must be a number|single value"),
    ],
)
def test_errors_are_reported(tmp_path: Path, text: str, settings: list[str], problem: str):
    file = tmp_path / "parts.yaml"
    file.write_text(text)
    with pytest.raises(FileError, match=problem):
        load_parts(file, settings)
