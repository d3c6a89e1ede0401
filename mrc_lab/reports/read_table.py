"""Read a table of a result folder row by row, with an error that names the line of whatever is not as expected."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from mrc_common import named_files
from mrc_lab.errors import ExperimentError

Row = Mapping[str, str]


def rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[Path, int, Row]]:
    """The rows of a table that has these columns, with the number of the line. Raises ExperimentError."""
    try:
        reader = csv.DictReader(named_files.lines(path), strict=True)
        try:
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise ExperimentError(f"{path}, line 1: the table has no column {missing[0]}")
            for row in reader:
                if None in row or None in row.values():
                    raise ExperimentError(f"{path}, line {reader.line_num}: it has not as many values as columns")
                yield path, reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise ExperimentError(f"{path}, line {reader.line_num + 1}: not CSV: {error}") from None
    except OSError as error:
        raise ExperimentError(f"{path} cannot be read: {error.strerror}") from None


def time_bin(row: Row) -> tuple[int, int]:
    """When the time bin of a row begins and ends, in ns. Raises ValueError."""
    begin, end = int(row["begin_ns"]), int(row["end_ns"])
    if not 0 <= begin <= end:
        raise ValueError("it ends before it begins")
    return begin, end
