"""Values of ``--set``, laid over those of a file of the planner."""

from __future__ import annotations

from collections.abc import Sequence

from mrc_common.declared.assignment import assign, parse_assignment
from mrc_common.declared.document import Value
from mrc_lab.errors import FileError


def with_settings(document: Value, settings: Sequence[str]) -> Value:
    """A document with the values of ``--set`` in it. Raises FileError."""
    for given in settings:
        setting = parse_assignment(given, FileError)
        if len(setting.values) != 1:
            raise FileError(f"--set {given}: give one value, as in {setting.key}={setting.texts[0]}")
        document = assign(document, setting.key, setting.values[0])
    return document
