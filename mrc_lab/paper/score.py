"""The count of published numbers that come out, of those in the frozen list (`mrc_lab.published`).

A number of the list that no run has measured counts, and is not within 10 %. A bound is met or not, and counted apart
from values. Numbers that a file gives of its own, beside the list, have rows too; a run of all files counts them apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from mrc_lab.published import Number, PublishedList
from mrc_lab.reports.published import Standing

Row = Mapping[str, Any]
_GOOD = {standing.value for standing in Standing if standing.good}
NO_FILE = "No experiment file measures this."
NOT_RUN = "Not in our run; its section says what is left out."
UNEXPLAINED = "Not explained yet."


def rows_of(
    listed: PublishedList, measured: Mapping[str, tuple[str, Sequence[Row]]], known: Collection[str]
) -> list[dict[str, Any]]:
    """A row for every number of the list, in its order, then for those that files have beside it.

    `measured` has, by the name of a file, its figure and its numbers over all seeds; `known` are the names of all files
    there are. A row says its figure and why ours differs, where it does.
    """
    ours = {row["id"]: row for _, rows in measured.values() for row in rows}
    found = [
        _row(number.figure, ours.get(number.id) or _missing(number), number.file, known, True)
        for number in listed.numbers.values()
    ]
    for name, (figure, rows) in measured.items():
        found += [_row(figure, row, name, known, False) for row in rows if row["id"] not in listed.numbers]
    return found


def _row(figure: str, row: Row, file: str, known: Collection[str], listed: bool) -> dict[str, Any]:
    if row["standing"] in _GOOD:
        cause = ""
    elif row["standing"] == Standing.UNMEASURED.value:
        cause = row["cause"] or (NOT_RUN if file in known else NO_FILE)
    else:
        cause = row["cause"] or UNEXPLAINED
    good = row["standing"] in _GOOD
    return {**row, "figure": figure, "file": file, "listed": listed, "cause": cause, "good": good}


def _missing(number: Number) -> Row:
    """The row of a number that nobody measured."""
    return {
        "id": number.id,
        "what": number.what,
        "unit": number.unit,
        "published": number.value,
        "certainty": number.certainty,
        "bound": number.bound,
        "ours": None,
        "low": None,
        "high": None,
        "ratio": None,
        "seeds": 0,
        "standing": Standing.UNMEASURED.value,
        "cause": "",
        "fitted": False,
        "entry": number.id.partition("@")[0].partition("#")[0],
        "size": number.size,
        "place": number.place,
    }


def score(rows: Iterable[Row]) -> dict[str, Any]:
    """Counts of some rows: values and bounds, how many are within or met, not measured, and fitted."""
    rows = list(rows)
    values = [row for row in rows if not row["bound"]]
    bounds = [row for row in rows if row["bound"]]
    fitted = [row for row in values if row["fitted"]]
    return {
        "values": len(values),
        "within": sum(row["good"] for row in values),
        "bounds": len(bounds),
        "met": sum(row["good"] for row in bounds),
        "unmeasured": sum(row["standing"] == Standing.UNMEASURED.value for row in rows),
        "fitted": len(fitted),
        "fitted_within": sum(row["good"] for row in fitted),
    }


def by_figure(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The counts of every figure, in the order in which figures come first."""
    figures: dict[str, list[Row]] = {}
    for row in rows:
        figures.setdefault(row["figure"], []).append(row)
    return [{"figure": figure, **score(found)} for figure, found in figures.items()]


def outside(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows that are not good, those of one entry and one cause together."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if not row["good"]:
            found.setdefault((row["figure"], row["entry"] or row["id"], row["cause"]), []).append(row)
    return list(found.values())
