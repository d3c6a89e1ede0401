"""The key that names a schedule's file: what an application does, in a format of other tools (docs/workloads.md)."""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mrc_lab.errors import ExperimentError, FileError
from mrc_lab.experiments.files.document import Value
from mrc_lab.experiments.files.field_types import FieldType, JsonSchema, Text
from mrc_lab.workloads.schedules.schedule import Schedule, check


@dataclass(frozen=True, slots=True)
class ScheduleFromFile:
    """The schedule of a file, and the file as the experiment names it. `files` is where it was found."""

    path: str
    schedule: Schedule
    files: tuple[Path, ...]

    def __hash__(self) -> int:
        return hash((self.path, self.files))

    def copy_to(self, folder: Path) -> None:
        """Put a copy where the copy of the experiment looks for it; ExperimentError when that does not work."""
        for file in self.files:
            if Path(self.path).name != self.path or (folder / file.name).exists():
                continue
            try:
                shutil.copyfile(file, folder / file.name)
            except OSError as error:
                with contextlib.suppress(OSError):
                    (folder / file.name).unlink()
                raise ExperimentError(f"{file} cannot be copied to {folder}: {error.strerror}") from None


@dataclass(frozen=True)
class ScheduleFile(FieldType):
    """The name of a file that `read` knows, from where the experiment file is."""

    read_file: Callable[[Path], Schedule]

    def read(self, value: Value) -> ScheduleFromFile:
        """The schedule in it, checked; FileError names the line of the file that it is about."""
        path = value.text().strip()
        place = Path(value.source).parent / path
        try:
            found = place.stat()
            schedule = _read(self.read_file, place, found.st_mtime_ns, found.st_size)
        except OSError as error:
            raise value.error(f"{place} cannot be read: {error.strerror}") from None
        except FileError as error:
            raise value.error(str(error)) from None
        return ScheduleFromFile(path, schedule, (place,))

    def schema(self) -> JsonSchema:
        """A text."""
        return Text().schema()


@functools.lru_cache(maxsize=4)  # the cases of a file mostly share one
def _read(read_file: Callable[[Path], Schedule], place: Path, changed_ns: int, size: int) -> Schedule:
    schedule = read_file(place)
    check(schedule)
    return schedule
