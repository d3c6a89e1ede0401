"""The result table of a sweep: one row for each case of each run, in JSON Lines.

That is one JSON object per line, which pandas, polars, DuckDB and jq read without a schema: every row has every
column, null where it has no value, and a column has one type (numbers; true and false; or text).

Columns: ``experiment``, ``set.<key>`` for every parameter, ``seed``, ``case``, ``verdict`` and ``error`` of the run;
the case's figures from its summary under dotted names (``packets.lost``, ``flows.h1>h3.median_bps``; of a list its
length); ``report.<title>`` for every metric that the file reports; ``expect.<title>.ours`` and ``.verdict`` for every
expectation; ``wall_s``, ``finished``, ``commit``, ``sources`` (digest), ``node`` (where it was done), ``run``.
Rows are in the order of experiment, parameters, seed and case, so that the table does not depend on which run was done
first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mrc_common.written_files import writing

Row = dict[str, Any]
_LAST = ("wall_s", "finished", "commit", "sources", "node", "run")


def write_table(place: Path, records: Iterable[Mapping[str, Any]]) -> int:
    """Write the table of some records; returns how many rows it has."""
    rows = [row for record in records for row in rows_of(record)]
    rows.sort(key=_order)
    names = list(dict.fromkeys(name for row in rows for name in row))
    names = [name for name in names if name not in _LAST] + [name for name in _LAST if name in names]
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    lines = zip(*columns.values(), strict=True)
    with writing(place) as stream:
        for values in lines:
            stream.write(json.dumps(dict(zip(names, values, strict=True)), allow_nan=False) + "\n")
    return len(rows)


def rows_of(record: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of one run; a run that failed has one, without figures."""
    summary = record.get("summary") or {}
    expected: Row = {}
    for one in summary.get("expectations", ()):
        title = _unused(f"expect.{one['title']}", expected, ".verdict")
        expected |= {f"{title}.ours": one["ours"], f"{title}.verdict": one["verdict"]}
    for case, figures in (summary.get("cases") or {None: {}}).items():
        yield {
            "experiment": record["experiment"],
            **{f"set.{key}": parameter(text) for key, text in record["settings"].items()},
            "seed": record["seed"],
            "case": case,
            "verdict": summary.get("verdict", "error"),
            "error": record.get("error"),
            **dict(_flat("", figures)),
            **_reported(summary, case),
            **expected,
            **{name: record.get(name) for name in _LAST},
        }


def _flat(prefix: str, figures: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in figures.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(f"{name}.", value)
        else:
            yield name, len(value) if isinstance(value, list) else value


def parameter(text: str) -> Any:
    """A plain number or yes/no as such, anything else as it was written."""
    value = yaml.safe_load(text)
    return value if isinstance(value, int | float) else text


def _reported(summary: Mapping[str, Any], case: str | None) -> Row:
    """What the file reports of a case."""
    row: Row = {}
    for one in summary.get("reported", ()):
        row[_unused(f"report.{one['title']}", row)] = one["values"].get(case)
    return row


def _unused(title: str, row: Row, suffix: str = "") -> str:
    """`title`, with a number behind it if there is a column of that name and `suffix` already."""
    if title + suffix not in row:
        return title
    return next(name for n in range(2, 1000) if (name := f"{title} ({n})") + suffix not in row)


def _column(values: Sequence[Any]) -> list[Any]:
    """One type a column: integers among fractions become such, and of other mixtures all become text."""
    values = [None if isinstance(value, float) and not math.isfinite(value) else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    return values


def _order(row: Row) -> tuple[Any, ...]:
    chosen = [_sortable(value) for name, value in row.items() if name.startswith("set.")]
    return row["experiment"], chosen, row["seed"], row["case"] or ""


def _sortable(value: Any) -> tuple[int, Any]:
    return (1, value) if isinstance(value, str) else (0, float(value))
