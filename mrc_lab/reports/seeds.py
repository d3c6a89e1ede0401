"""Means of several runs of one file, each with another seed, and their 95 % intervals.

Takes and gives the block ``published`` of a summary (`reports.published`). A number whose mean is within 10 % is
within, whatever single seeds have; it is not measured, or untrusted, when that is so for any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mrc_lab.reports.confidence_interval import mean_interval
from mrc_lab.reports.published import Standing, stand

Block = Mapping[str, Any]


def merged(blocks: Sequence[Block]) -> dict[str, Any]:
    """The blocks of all seeds as one; numbers gain ``low``, ``high`` and ``seeds``, curves ``low`` and ``high``."""
    return {
        "numbers": [merge_number(rows) for rows in zip(*(block["numbers"] for block in blocks), strict=True)],
        "curves": [_curve(curves) for curves in zip(*(block["curves"] for block in blocks), strict=True)],
    }


def merge_number(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One number over all seeds."""
    values = [row["ours"] for row in rows if row["ours"] is not None]
    one = {**rows[0], "low": None, "high": None, "seeds": len(rows), "ratio": None}
    if len(values) < len(rows):
        return {**one, "ours": None, "standing": Standing.UNMEASURED.value}
    found = mean_interval(values)
    untrusted = any(row["standing"] == Standing.UNTRUSTED.value for row in rows)
    standing = Standing.UNTRUSTED if untrusted else stand(found.mean, one["published"], one["bound"])
    ratio = found.mean / one["published"] if one["published"] and not one["bound"] else None
    return {
        **one,
        "ours": found.mean,
        "low": found.low,
        "high": found.high,
        "standing": standing.value,
        "ratio": ratio,
    }


def _curve(curves: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One curve over all seeds, as far as every one of them goes."""
    length = min(len(curve["ours"]) for curve in curves)
    values = np.array([[y for _, y in curve["ours"][:length]] for curve in curves])
    intervals = [mean_interval(list(column)) for column in values.T]
    places = [x for x, _ in curves[0]["ours"][:length]]
    return {
        **curves[0],
        "ours": [[x, one.mean] for x, one in zip(places, intervals, strict=True)],
        "low": [one.low for one in intervals] if len(curves) > 1 else None,
        "high": [one.high for one in intervals] if len(curves) > 1 else None,
    }
