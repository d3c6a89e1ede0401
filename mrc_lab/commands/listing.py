"""Listings of commands: columns that are declared once, printed as a table for people or as JSON for programs.

A row is a mapping from the columns' fields to values that JSON has. JSON is one array with an object a row, which
`pandas.read_json` and `jq` take as it is; every object has every field, and null stands for what is unknown or does not
apply. Names of fields end in the unit, times are ISO 8601 with the offset from UTC. docs/listings.md is generated from
the declarations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from rich.table import Table

from mrc_lab.terminal.plain_table import plain_table

AS_JSON = "--json"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A field of JSON with its meaning, and a column of the table under `title`; without one it is in JSON only.

    `show` is what people read of a row in this column, by default the field as text.
    """

    field: str
    meaning: str
    title: str = ""
    show: Callable[[Row], str] | None = None

    def text(self, row: Row) -> str:
        """What the table has of a row."""
        if self.show is not None:
            return self.show(row)
        value = row[self.field]
        return "-" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Listing:
    """The columns of what the command `usage` lists."""

    usage: str
    rows_are: str
    columns: tuple[Column, ...]

    def table(self, rows: Sequence[Row], without: Collection[str] = ()) -> Table:
        """The rows for people, without the columns of some fields. What is in them is text, never markup."""
        columns = [column for column in self.columns if column.title and column.field not in without]
        titles = [column.title for column in columns]
        return plain_table(titles, ([column.text(row) for column in columns] for row in rows))

    def json(self, rows: Sequence[Row]) -> str:
        """The rows for programs, a line each."""
        objects = (json.dumps({column.field: row[column.field] for column in self.columns}) for row in rows)
        return f"[{','.join(f'{chr(10)} {text}' for text in objects)}\n]"


def wanted_as_json(words: Sequence[str]) -> tuple[list[str], bool]:
    """The words without ``--json``, and whether it was among them."""
    return [word for word in words if word != AS_JSON], AS_JSON in words


def iso_time(epoch_ns: int) -> str:
    """A time in ns since the epoch as ISO 8601, local, to the microsecond."""
    return datetime.fromtimestamp(epoch_ns / 1e9, timezone.utc).astimezone().isoformat(timespec="microseconds")


def clock_text(epoch_ns: int, *, microseconds: bool = False) -> str:
    """A time in ns since the epoch as people read it, the local time of day: 12:04:51, or 12:04:51.123456."""
    text = datetime.fromtimestamp(epoch_ns / 1e9, timezone.utc).astimezone().strftime("%H:%M:%S.%f")
    return text if microseconds else text.partition(".")[0]
