"""What was published: the numbers that can come out otherwise, as data.

`numbers.yaml` declares each of them once and says by what rule it was chosen; :func:`load` reads it. A group's numbers
share a figure, an experiment file, a unit and a certainty; one entry of it is a single number, a number for each
message size, or one for each flow, the slowest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

NUMBERS = Path(__file__).parent / "numbers.yaml"
_UNITS = {
    "Gb/s": ("rate", 1e9),
    "us": ("time", 1e3),
    "s": ("time", 1e9),
    "share": ("share", 1.0),
    "count": ("count", 1.0),
}


@dataclass(frozen=True, slots=True)
class Number:
    """A published number. `value` is in b/s, ns, a share or a count, as `unit` says (rate, time, share, count).

    `bound`: ``at_most`` or ``at_least`` where the publication gives a bound, empty for a value. `certainty`: C for
    text, D for digitised. `file`: the experiment file that measures it. `compared`: what of ours is like it.
    """

    id: str
    figure: str
    file: str
    what: str
    value: float
    unit: str
    certainty: str
    bound: str
    compared: str


@dataclass(frozen=True, slots=True)
class Check:
    """Something published that cannot come out otherwise, or not in a run of ours: shown, and not counted."""

    figure: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Left:
    """A number that has left the list, and why."""

    id: str
    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    """The whole list."""

    numbers: Mapping[str, Number]
    checks: tuple[Check, ...]
    left: tuple[Left, ...]


@cache
def load() -> Published:
    """The list of the package. ValueError when an id is given twice or a unit is unknown."""
    return read(NUMBERS.read_text(encoding="utf-8"))


def read(text: str) -> Published:
    """A list in YAML as ``numbers.yaml`` has it; ValueError when an id is given twice or a unit is unknown."""
    document = yaml.safe_load(text)
    numbers: dict[str, Number] = {}
    for number in (number for group in document["groups"] for number in _of_group(group)):
        if number.id in numbers:
            raise ValueError(f"{number.id} is given twice")
        numbers[number.id] = number
    checks = tuple(Check(**check) for check in document["checks"])
    return Published(numbers, checks, tuple(Left(**one) for one in document["left"]))


def _of_group(group: Mapping[str, Any]) -> Iterator[Number]:
    for entry in group["numbers"]:
        unit = entry.get("unit", group["unit"])
        if unit not in _UNITS:
            raise ValueError(f"{entry['id']}: {unit} is no unit; known are {', '.join(_UNITS)}")
        kind, scale = _UNITS[unit]
        for suffix, what, value in _spread(entry):
            yield Number(
                id=entry["id"] + suffix,
                figure=group["figure"],
                file=group["file"],
                what=what,
                value=value * scale,
                unit=kind,
                certainty=entry.get("certainty", group["certainty"]),
                bound=entry.get("bound", ""),
                compared=" ".join(group["compared"].split()),
            )


def _spread(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """What follows the id, what it is, and the value: of a single number, of each size, or of each flow."""
    what = entry["what"]
    if "sizes" in entry:
        for size, value in zip(entry["sizes"], entry["values"], strict=True):
            yield f"@{size}", f"{what}, {size}B", float(value)
    elif "flows" in entry:
        for place, value in enumerate(entry["flows"], 1):
            yield f"#{place}", f"{what}, {place} of {len(entry['flows'])} from the slowest", float(value)
    else:
        yield "", what, float(entry["value"])
