"""The key that names a schedule's file: what an application does, in a format of other tools (docs/workloads.md)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mrc_common import units
from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, Text
from mrc_host import plugins
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.copied_files import copy_beside
from mrc_lab.workloads.schedules.schedule import Schedule, check, from_operations


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
        copy_beside(self.path, self.files, folder)


def _that_file(place: Path) -> tuple[Path, ...]:
    return (place,)


@dataclass(frozen=True)
class ScheduleFile(FieldType):
    """The name of a file that `read` knows, from where the experiment file is; `files_of` it are what is read."""

    read_file: Callable[[Path], Schedule]
    files_of: Callable[[Path], tuple[Path, ...]] = _that_file

    def read(self, value: Value) -> ScheduleFromFile:
        """The schedule in it, checked; FileError names the line of the file that it is about."""
        path = value.text().strip()
        place = Path(value.source.name).parent / path
        try:
            files = self.files_of(place)
            found = tuple((state.st_mtime_ns, state.st_size) for state in (file.stat() for file in files))
            schedule = _read(self.read_file, place, found)
        except OSError as error:
            raise value.error(f"{place} cannot be read: {error.strerror}") from None
        except FileError as error:
            raise value.error(str(error)) from None
        return ScheduleFromFile(path, schedule, files)

    def schema(self) -> JsonSchema:
        """A text."""
        return Text().schema()


@dataclass(frozen=True)
class OwnSchedule(FieldType):
    """The schedule that a workload of a plugin returns: its name, or a mapping with name and arguments."""

    def read(self, value: Value) -> ScheduleFromFile:
        """Call the plugin's function; FileError when it does not exist, raises, or returns no schedule."""
        arguments: dict[str, int | str] = {}
        if value.is_mapping:
            members = value.items()
            if "name" not in members:
                raise value.error("name is missing: that of a plugin's workload")
            name = members.pop("name").text().strip()
            arguments = {argument: _number_or_text(member.text().strip()) for argument, member in members.items()}
        else:
            name = value.text().strip()
        if name not in plugins.WORKLOADS:
            known = ", ".join(plugins.WORKLOADS) or "none: name a file under plugins"
            raise value.error(f"no plugin has a workload {name}; there is {known}")
        try:
            schedule = from_operations(name, plugins.WORKLOADS[name](**arguments))
            check(schedule)
        except FileError as error:
            raise value.error(str(error)) from None
        except Exception as error:
            raise value.error(plugins.failure(error) or f"{name}: {type(error).__name__}: {error}") from error
        return ScheduleFromFile(name, schedule, ())

    def schema(self) -> JsonSchema:
        """A text, or an object."""
        named = {"type": "object", "properties": {"name": Text().schema()}, "required": ["name"]}
        return {"oneOf": [Text().schema(), named]}


def _number_or_text(text: str) -> int | str:
    """A whole number or a size (64K) as int, anything else as it is."""
    try:
        return int(units.SIZE.parse(text))
    except ValueError:
        return text


@functools.lru_cache(maxsize=4)  # the cases of a file mostly share one
def _read(read_file: Callable[[Path], Schedule], place: Path, found: tuple[tuple[int, int], ...]) -> Schedule:
    schedule = read_file(place)
    check(schedule)
    return schedule
