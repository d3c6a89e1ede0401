"""The key that names a P4 program: a file beside the experiment file (docs/p4.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, Text


@dataclass(frozen=True)
class ProgramFile(FieldType):
    """The name of a P4 program. It is compiled once the whole file is read, and for each case when that begins."""

    def read(self, value: Value) -> str:
        """Its absolute path."""
        return str(Path(value.source.name).absolute().parent / value.text().strip())

    def schema(self) -> JsonSchema:
        """A text."""
        return Text().schema()
