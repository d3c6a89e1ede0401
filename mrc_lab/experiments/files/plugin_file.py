"""The key that names a plugin: a Python file beside the experiment file, or an installed one (docs/extending.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, Text
from mrc_host import plugins


@dataclass(frozen=True)
class PluginFile(FieldType):
    """The name of a plugin, which is run when the experiment file is read."""

    def read(self, value: Value) -> str:
        """Its absolute path, or the name of an entry point; FileError when it cannot be loaded."""
        name = value.text().strip()
        is_file = "/" in name or name.endswith(".py")
        try:
            return plugins.load(Path(value.source.name).absolute().parent / name if is_file else name)
        except plugins.PluginError as error:
            raise value.error(str(error)) from None

    def schema(self) -> JsonSchema:
        """A text."""
        return Text().schema()
