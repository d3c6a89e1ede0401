"""The ranking as Markdown and as a tidy table of comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from mrc_lab.rank.comparison import Comparison
from mrc_lab.rank.ranking import Result, Row

Cell = Callable[[Row, str], str]

_COLUMNS = (
    "workload", "condition", "transport", "share", "share_low", "share_high", "p99_ns", "p100_ns", "stall_ns",
    "retransmitted", "failed", "unfinished",
)  # fmt: skip


def markdown(comparison: Comparison, rows: Sequence[Row], seeds: Sequence[int]) -> str:
    """Two tables: shares of the ideal throughput, the best in bold; and times."""
    names = [str(transport["name"]) for transport in comparison.transports]
    behind = [row for row in rows if row.behind]
    several = f"seeds {', '.join(map(str, seeds))}, mean ± 95 % interval" if len(seeds) > 1 else f"seed {seeds[0]}"
    lines = [
        f"MRC is behind in {len(behind)} of {len(rows)} rows; these come first. Share of the ideal throughput,"
        f" {several}; the best, and what is as good, in bold.",
        "",
        *_table(names, rows, _share),
        "",
        "P99 and P100 of the completion times of messages or operations, and after the semicolon the longest stall."
        " *n of m*: in n of m runs something failed, or had not ended when the run did.",
        "",
        *_table(names, rows, _times),
    ]
    return "\n".join(lines) + "\n"


def _table(names: Sequence[str], rows: Sequence[Row], cell: Cell) -> list[str]:
    head = f"| workload | condition | {' | '.join(names)} |"
    return [
        head,
        "|---" * (len(names) + 2) + "|",
        *(
            f"| {row.workload} | {row.condition} | "
            + " | ".join(cell(row, name) if name in row.results else "" for name in names)
            + " |"
            for row in rows
        ),
    ]


def _share(row: Row, name: str) -> str:
    share = row.results[name].share
    text = f"{share.mean:.3f}"
    if share.high is not None:
        text += f" ± {share.high - share.mean:.3f}"
    return f"**{text}**" if name in row.best else text


def _times(row: Row, name: str) -> str:
    result = row.results[name]
    return f"{_completion(result)}; {_time(result.stall)}"


def _completion(result: Result) -> str:
    if result.p99 is None or result.p100 is None:
        return f"*{result.unfinished} of {result.share.count}*"
    return f"{_time(result.p99)}, {_time(result.p100)}"


def _time(ns: float) -> str:
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def tidy(rows: Sequence[Row]) -> str:
    """A row for each transport under each workload and condition, with a head."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        for name, one in row.results.items():
            writer.writerow(
                (
                    row.workload, row.condition, name, one.share.mean, one.share.low, one.share.high, one.p99, one.p100,
                    one.stall, one.retransmitted, one.failed, one.unfinished,
                )
            )  # fmt: skip
    return stream.getvalue()
