"""Text of experiment files as values (:mod:`mrc_common.declared`), with old keys and short forms written out."""

from __future__ import annotations

import re
from dataclasses import replace

import yaml

from mrc_common.declared import document
from mrc_common.declared.document import Source, Value
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.renamed_keys import replace_old_keys
from mrc_lab.experiments.files.short_forms import write_out

_LONGEST = 80  # characters of a value that an error repeats
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")


def parse(text: str, source: str) -> Value:
    """The document in `text` of an experiment file; FileError when it is none that can be read."""
    found = document.parse(text, Source(source, FileError, _as_variants))
    write_out(found.node)
    return replace(found, notes=tuple(f"{source}, {note}" for note in replace_old_keys(found.node)))


def _as_variants(listed: Value) -> str:
    """How to write a list of values as variants, since it most likely means one run for each; or nothing."""
    values = listed.node.value
    if not values or not all(isinstance(value, yaml.ScalarNode) for value in values) or "[" in listed.key:
        return ""
    names = listed.key.split(".")
    parts = []
    for value in values[:2]:
        text = str(value.value)[:_LONGEST]
        inside = ": {".join(names) + f": {text}" + "}" * (len(names) - 1)
        parts.append(f"{{name: {_NOT_IN_NAMES.sub('-', text)}, {inside}}}")
    more = ", ..." if len(values) > len(parts) else ""
    return f": for a run with each, write variants: [{', '.join(parts)}{more}]"
