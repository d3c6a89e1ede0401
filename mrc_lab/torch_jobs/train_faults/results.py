"""The folder of ``mrc train-faults``: what is run there, and a record of every run that is done.

    train-faults.json          the settings of all its runs
    runs/<case>.<stack>.json   the record of a run, with all its events
    logs/<case>.<stack>.log    what its ranks and their libraries printed
    train-faults.md, .csv      the tables

Cases and stacks may be added by a later call; other settings make it another table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mrc_common import named_files, strict_json
from mrc_common.written_files import write_text
from mrc_lab.reports.resumable_folder import FolderClaim, claimed, unwritable
from mrc_lab.torch_jobs.train_faults.cases import FaultMatrix
from mrc_lab.torch_jobs.train_faults.measures import measure

NAME = "train-faults"
FORMAT = 1
Runs = dict[tuple[str, str], dict[str, Any]]  # by case and stack


class LabResults:
    """A folder that is open; see :func:`opened`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def log(self, case: str, stack: str) -> Path:
        """Where the output of a run's ranks goes."""
        return self.path / "logs" / f"{case}.{stack}.log"

    def keep(self, record: Mapping[str, Any]) -> None:
        """Store a record; ExperimentError when it cannot be."""
        self.write(f"runs/{record['case']}.{record['stack']}.json", strict_json.dumps(record, indent=1) + "\n")

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder; ExperimentError when it cannot be, as on a full disk."""
        try:
            write_text(self.path / name, text)
        except OSError as error:
            raise unwritable(self.path / name, error) from None

    def done(self, matrix: FaultMatrix) -> Runs:
        """The records of a matrix that are there; one that is damaged is not."""
        found: Runs = {}
        for case in matrix.cases:
            for stack in matrix.stacks:
                place = self.path / "runs" / f"{case.name}.{stack.name}.json"
                with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                    record = strict_json.loads(named_files.read_text(place))
                    measure(record)
                    if (record["case"], record["stack"]) == (case.name, stack.name):
                        found[case.name, stack.name] = record
        return found


@contextlib.contextmanager
def opened(path: Path, settings: Mapping[str, Any]) -> Iterator[LabResults]:
    """The folder, made if need be; ExperimentError when it is another table's, in use, or cannot be written."""
    claim = FolderClaim(
        f"{NAME}.json",
        {"format": FORMAT, **settings},
        ("runs", "logs"),
        filler=f"'mrc {NAME}'",
        difference="holds runs with other settings",
        remedy="Repeat them as they were, choose another --output, or remove it.",
    )
    with claimed(path, claim):
        yield LabResults(path)
