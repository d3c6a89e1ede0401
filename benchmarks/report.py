"""Benchmark output: a table for people on a terminal, one JSON object a line for everything else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.history import Change


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured value; `ratio` compares it with `ratio_to`, measured in the same run."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    ratio_to: str | None = None

    def as_json(self) -> str:
        """The measurement as one line of JSON, without the fields it does not have."""
        fields = {"name": self.name, "value": self.value, "unit": self.unit}
        if self.ratio is not None:
            fields |= {"ratio": self.ratio, "ratio_to": self.ratio_to or ""}
        return json.dumps(fields)


def read(line: str) -> Measurement:
    """The measurement that ``as_json`` wrote."""
    return Measurement(**json.loads(line))


def report(measurements: Iterable[Measurement], out: TextIO | None = None) -> None:
    """Print measurements as they come (JSON lines), with a table before them when `out` is a terminal."""
    stream = out or sys.stdout
    if stream.isatty():
        measurements = list(measurements)
        table = Table("measurement", "value", "unit", "ratio", "compared with")
        for measurement in measurements:
            ratio = "" if measurement.ratio is None else f"{measurement.ratio:.3g}"
            table.add_row(
                measurement.name, f"{measurement.value:,.4g}", measurement.unit, ratio, measurement.ratio_to or ""
            )
        Console(file=stream).print(table)
    for measurement in measurements:
        print(measurement.as_json(), file=stream, flush=True)


def report_changes(tree: str, changes: Iterable[Change], out: TextIO | None = None) -> None:
    """Print how a tree's measurements compare with those of the tree measured before."""
    table = Table("measurement", "before", tree, "unit", "gain", "", title="Compared with the tree measured before")
    for change in changes:
        gain = "" if change.gain is None else f"{change.gain:+.1%}"
        table.add_row(change.name, f"{change.before:,.4g}", f"{change.now:,.4g}", change.unit, gain, change.mark)
    if table.row_count:
        Console(file=out or sys.stderr).print(table)
    else:
        print("Nothing to compare with yet: no other tree was measured on this machine.", file=out or sys.stderr)
