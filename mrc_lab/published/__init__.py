"""Published results: the numbers that can come out otherwise, and digitised curves, as data.

`numbers.yaml` declares each number once and says by what rule it was chosen; `curves.json` has curves to draw over
ours. A group's numbers share a figure, an experiment file, a unit and a certainty. One entry of it is a single number,
a number for each message size, or one for each flow, the slowest first: experiment files name the entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from mrc_common.units import parse_size

NUMBERS = Path(__file__).parent / "numbers.yaml"
CURVES = Path(__file__).parent / "curves.json"
SOURCE = "arXiv 2605.04333"
_UNITS = {
    "Pb/s": ("rate", 1e15),
    "Gb/s": ("rate", 1e9),
    "us": ("time", 1e3),
    "s": ("time", 1e9),
    "share": ("share", 1.0),
    "count": ("count", 1.0),
    "1/s": ("count", 1.0),
}
_KEYS = {"id", "what", "value", "sizes", "values", "flows", "unit", "bound", "certainty"}
_TIMES = {"s": 10**9, "min": 60 * 10**9}


@dataclass(frozen=True, slots=True)
class Number:
    """A published number. `value` is in b/s, ns, a share or a count, as `unit` says (rate, time, share, count).

    `bound`: ``at_most`` or ``at_least`` where the publication gives a bound, empty for a value. `certainty`: C for
    text, D for digitised. `file`: the experiment file that measures it. `compared`: what of ours is like it. `size`
    (bytes) where it is one of several sizes, `place` (from 1, the slowest) where it is one of several flows.
    """

    id: str
    figure: str
    what: str
    value: float
    unit: str
    certainty: str
    bound: str = ""
    file: str = ""
    compared: str = ""
    size: int | None = None
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """A published curve: `points` over time (ns) or message size (bytes), in the same units as numbers."""

    id: str
    what: str
    certainty: str
    over: str
    unit: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class UncountedCheck:
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
class PublishedList:
    """The whole list. `entries` has the numbers of each entry by its id, one or more."""

    entries: Mapping[str, tuple[Number, ...]]
    checks: tuple[UncountedCheck, ...]
    left: tuple[Left, ...]

    @property
    def numbers(self) -> dict[str, Number]:
        """Every number by its id."""
        return {number.id: number for entry in self.entries.values() for number in entry}


@cache
def load() -> PublishedList:
    """The list of the package. ValueError when an id is given twice or a unit is unknown."""
    return read(NUMBERS.read_text(encoding="utf-8"))


@cache
def curves() -> Mapping[str, Curve]:
    """The curves of the package by id."""
    return {name: _curve(name, one) for name, one in json.loads(CURVES.read_text(encoding="utf-8")).items()}


def read(text: str) -> PublishedList:
    """A list in YAML as ``numbers.yaml`` has it; ValueError for an id given twice, an unknown unit or key."""
    document = yaml.safe_load(text)
    entries: dict[str, tuple[Number, ...]] = {}
    for group in document["groups"]:
        for entry in group["numbers"]:
            if entry["id"] in entries:
                raise ValueError(f"{entry['id']} is given twice")
            entries[entry["id"]] = tuple(_numbers(group, entry))
    checks = tuple(UncountedCheck(**check) for check in document["checks"])
    return PublishedList(entries, checks, tuple(Left(**one) for one in document["left"]))


def _numbers(group: Mapping[str, Any], entry: Mapping[str, Any]) -> Iterator[Number]:
    unit = entry.get("unit", group["unit"])
    if unknown := sorted(set(map(str, entry)) - _KEYS):
        raise ValueError(f"{entry['id']}: unknown key {unknown[0]}; known are {', '.join(sorted(_KEYS))}")
    if unit not in _UNITS:
        raise ValueError(f"{entry['id']}: {unit} is no unit; known are {', '.join(_UNITS)}")
    kind, scale = _UNITS[unit]
    for suffix, what, value, where in _spread(entry):
        yield Number(
            id=entry["id"] + suffix,
            figure=group["figure"],
            what=what,
            value=value * scale,
            unit=kind,
            certainty=entry.get("certainty", group["certainty"]),
            bound=entry.get("bound", ""),
            file=group["file"],
            compared=" ".join(group["compared"].split()),
            **where,
        )


def _spread(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, float, dict[str, int]]]:
    """What follows the id, what it is, the value, and its size or place: of one number, each size, or each flow."""
    what = entry["what"]
    if "sizes" in entry:
        for size, value in zip(entry["sizes"], entry["values"], strict=True):
            yield f"@{size}", f"{what}, {size}B", float(value), {"size": parse_size(size)}
    elif "flows" in entry:
        for place, value in enumerate(entry["flows"], 1):
            yield (
                f"#{place}",
                f"{what}, {place} of {len(entry['flows'])} from the slowest",
                float(value),
                {"place": place},
            )
    else:
        yield "", what, float(entry["value"]), {}


def _curve(name: str, one: Mapping[str, Any]) -> Curve:
    unit, scale = _UNITS[one["unit"]]
    time = _TIMES[one.get("time", "s")]
    points = tuple((parse_size(x) if one["over"] == "size" else x * time, y * scale) for x, y in one["points"])
    return Curve(name, one["what"], one["certainty"], one["over"], unit, points)
