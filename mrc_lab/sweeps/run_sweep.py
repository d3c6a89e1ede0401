"""A whole sweep: does the runs that its folder lacks, keeps each result as it comes, and writes all as one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mrc_lab.sweeps import sweep_folder as folders
from mrc_lab.sweeps.grid import Grid, SweepRun
from mrc_lab.sweeps.points import Point
from mrc_lab.sweeps.run_one import SweepOutcome
from mrc_lab.sweeps.version import digest

Spread = Callable[[Sequence[SweepRun]], Iterable[SweepOutcome]]


@dataclass(slots=True)
class Tally:
    """How a sweep stands: runs by what came of them.

    `before` were done by an earlier call, `other_version` of these with other sources of this project; `lost` are to be
    redone. `table` and `points` are there at the end, of all runs in the folder.
    """

    total: int
    before: int = 0
    other_version: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    lost: list[SweepOutcome] = field(default_factory=list)
    table: Path | None = None
    points: list[Point] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Runs that have a record."""
        return sum(self.verdicts.values())

    def count(self, record: dict[str, object]) -> None:
        """Add a run that is done."""
        summary = record.get("summary")
        verdict = str(summary["verdict"]) if isinstance(summary, dict) else "error"
        self.verdicts[verdict] = self.verdicts.get(verdict, 0) + 1


def sweep(grid: Grid, path: Path, spread: Spread, notify: Callable[[Tally, SweepOutcome | None], None]) -> Tally:
    """Run what is missing of `grid` in the folder `path`, by `spread`.

    `notify` is called before the first run, with None, and after every one. If the sweep ends early, the table holds
    the runs that are done. Raises ExperimentError when the folder cannot be had.
    """
    with folders.opened(path, grid) as folder:
        tally = Tally(len(grid.runs))
        missing = []
        for run in grid.runs:
            if run.id in folder.records:
                tally.count(folder.records[run.id])
                tally.other_version += folder.records[run.id].get("sources") != digest()
            else:
                missing.append(run)
        tally.before = tally.done
        notify(tally, None)
        try:
            for outcome in spread(missing) if missing else ():
                if outcome.record is None:
                    tally.lost.append(outcome)
                else:
                    folder.keep(outcome.record)
                    tally.count(outcome.record)
                notify(tally, outcome)
        finally:
            if folder.records:
                folder.write_table()
                tally.table = folder.table
                tally.points = folder.write_points()
    return tally
