"""The score and every number outside 10 % with its cause, as Markdown: what a page of documentation shows of a run.

Numbers of one entry and one cause share a row; sizes and places of flows are listed with their ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mrc_lab.paper import score

Row = Mapping[str, Any]
_BESIDE = "The files have {values} more numbers, which are not on that list; {within} of them are within 10 %."


def listing(summary: Mapping[str, Any]) -> str:
    """Two tables of a summary of `mrc paper`: the score by figure, and what is outside."""
    whole, beside = summary["score"], summary["beside"]
    seeds = ", ".join(map(str, summary["seeds"]))
    lines = [
        f"With seed {seeds}, {whole['within']} of {whole['values']} published numbers are within 10 %, and"
        f" {whole['met']} of {whole['bounds']} bounds are met."
        f" Of those within, {whole['fitted_within']} are among the {whole['fitted']} to which ours was fitted.",
        *([_BESIDE.format(**beside)] if beside["values"] else []),
        "",
        "| figure | within 10 % | fitted |",
        "|---|---|---|",
        *(
            f"| {one['figure']} | {one['within']} of {one['values']} | {one['fitted'] or ''} |"
            for one in summary["score_by_figure"]
            if one["values"]
        ),
        "",
        "| figure | published number | ours / published | cause |",
        "|---|---|---|---|",
        *(_outside(rows) for rows in score.outside(summary["numbers"])),
    ]
    return "\n".join(lines) + "\n"


def _outside(rows: Sequence[Row]) -> str:
    first = rows[0]
    what = first["what"].rsplit(", ", 1)[0] if first["size"] or first["place"] else first["what"]
    ratios = ", ".join(_label(row) + _ratio(row) for row in rows)
    return f"| {first['figure']} | {what} | {ratios} | {first['cause']} |"


def _label(row: Row) -> str:
    """The size or the place of a number that is one of several, as its id says."""
    for mark, before in (("@", ""), ("#", "flow ")):
        name, found, label = row["id"].partition(mark)
        if found and name == row["entry"]:
            return f"{before}{label}: "
    return ""


def _ratio(row: Row) -> str:
    """Ours over the published number or, of bounds and of what was not measured, how it stands."""
    return str(row["standing"]) if row["ratio"] is None else f"{row['ratio']:.3g}"
