"""The key that names a connection matrix of htsim."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, Text
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.copied_files import copy_beside
from mrc_lab.workloads.htsim.connection_matrix import ConnectionMatrix
from mrc_lab.workloads.htsim.matrix_file import read_matrix


@dataclass(frozen=True, slots=True)
class MatrixFromFile:
    """The matrix of a file, and the file as the experiment names it. `file` is where it was found."""

    path: str
    matrix: ConnectionMatrix
    file: Path

    def __hash__(self) -> int:
        return hash((self.path, self.file))

    def copy_to(self, folder: Path) -> None:
        """Put a copy where the copy of the experiment looks for it; ExperimentError when that does not work."""
        copy_beside(self.path, (self.file,), folder)


@dataclass(frozen=True)
class MatrixFile(FieldType):
    """The name of a connection matrix, from where the experiment file is."""

    def read(self, value: Value) -> MatrixFromFile:
        """The matrix in it, checked; FileError names the line of the file that it is about."""
        path = value.text().strip()
        place = Path(value.source.name).parent / path
        try:
            state = place.stat()
            return MatrixFromFile(path, _read(place, state.st_mtime_ns, state.st_size), place)
        except OSError as error:
            raise value.error(f"{place} cannot be read: {error.strerror}") from None
        except FileError as error:
            raise value.error(str(error)) from None

    def schema(self) -> JsonSchema:
        """A text."""
        return Text().schema()


@functools.lru_cache(maxsize=4)  # the cases of a file mostly share one
def _read(place: Path, changed: int, size: int) -> ConnectionMatrix:
    return read_matrix(place)
