"""The folder of a sweep: what it is, and a record of every run that is done.

    sweep.json        its files, with digests, and the keys that it sets
    runs/<run>.json   the record of a run
    table.jsonl       all of them
    metrics.csv       every metric that files report, expect or compare; a row for each point, seed and metric
    intervals.csv     their means with 95 % intervals; a row for each point and metric
    plots/            a plot of each, where one key varies or two

Values and seeds may be added by a later call; another file or another key makes it another sweep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mrc_common import named_files, strict_json
from mrc_lab.reports.result_folder import write_json
from mrc_lab.reports.resumable_folder import FolderClaim, claimed, unwritable
from mrc_lab.sweeps.grid import Grid
from mrc_lab.sweeps.points import Point, points_of, write_points
from mrc_lab.sweeps.table import write_table

FORMAT = 1


class SweepFolder:
    """A folder that is open for a sweep; see :func:`opened`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = dict(_records(path))

    @property
    def table(self) -> Path:
        """The table's place."""
        return self.path / "table.jsonl"

    def keep(self, record: dict[str, Any]) -> None:
        """Store a record; a run is either wholly done or not at all. ExperimentError when the disk is full."""
        self._write(self.path / "runs" / f"{record['run']}.json", lambda fresh: write_json(fresh, record))
        self.records[record["run"]] = record

    def write_table(self) -> None:
        """Write the table of all records, or leave the one that is there; ExperimentError when the disk is full."""
        self._write(self.table, lambda fresh: write_table(fresh, self.records.values()))

    def write_points(self) -> list[Point]:
        """Write the tables of points, and return them; ExperimentError when the disk is full."""
        points = points_of(self.records.values())
        try:
            write_points(self.path, points)
        except OSError as error:
            raise unwritable(Path(error.filename or self.path), error) from None
        return points

    def _write(self, place: Path, write: Callable[[Path], object]) -> None:
        fresh = place.with_suffix(".new")
        try:
            write(fresh)
            fresh.replace(place)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise unwritable(place, error) from None


@contextlib.contextmanager
def opened(path: Path, grid: Grid) -> Iterator[SweepFolder]:
    """The folder of a sweep, made if need be; ExperimentError when it is another's, in use, or cannot be written."""
    claim = FolderClaim(
        "sweep.json",
        {"format": FORMAT, "files": dict(grid.files), "keys": sorted(grid.keys)},
        ("runs",),
        filler="sweep",
        difference="holds another sweep: its files or keys are not these",
        remedy="Choose another --output, or remove it.",
    )
    with claimed(path, claim):
        yield SweepFolder(path)


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for place in sorted((path / "runs").glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            record = strict_json.loads(named_files.read_text(place))
            if record["run"] == place.stem:
                yield place.stem, record
