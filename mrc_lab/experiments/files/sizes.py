"""`sizes`: an axis of message sizes, written as nothing but the sizes.

Each size is a point of the axis, named as people write it (`64K`), and sets the key of the workload that has the size:
`message` of flows, `bytes` of a collective.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import yaml

from mrc_common import units
from mrc_common.declared.assignment import assign
from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, a_size
from mrc_lab.experiments.files.workloads import MAX_MESSAGE, Collective, Incast, Permutation, Workload, WriteBw

KEYS = {kind.name: "message" for kind in (WriteBw, Permutation, Incast)} | {Collective.name: "bytes"}


@dataclass(frozen=True)
class SizePoint(FieldType):
    """A size, of which the place in the file is kept."""

    def read(self, value: Value) -> Value:
        """The piece itself; FileError when it is no size."""
        a_size().read(value)
        return value

    def schema(self) -> JsonSchema:
        """That of a size."""
        return a_size().schema()


def named_sizes(sizes: Iterable[Value]) -> dict[str, Value]:
    """Sizes by the names of their points; FileError when one is there twice."""
    found: dict[str, Value] = {}
    for value in sizes:
        name = units.size_word(a_size().read(value))
        if name in found:
            raise value.error(f"the size {name} is given twice")
        found[name] = value
    return found


def with_size(document: Value, size: Value) -> yaml.Node:
    """A case with its workload at a size; FileError where that is none of its keys."""
    workload = document.items().get("workload")
    if workload is None:
        raise size.error("sizes are of one workload: with several, give axis the tenant that is to change")
    kind = workload.items().get("kind")
    name = "" if kind is None else kind.text().strip()
    if kind is not None and name not in KEYS:
        raise size.error(f"{name} has no single size: give axis what is to change")
    key = KEYS.get(name, "message")
    a_size(1, MAX_MESSAGE if key == "message" else int(units.SIZE.most)).read(size)
    return assign(document, f"workload.{key}", size.node).node


def size_of(load: Workload) -> int | None:
    """Bytes of a message, or of a collective's operation; None where there is no single size."""
    return getattr(load, KEYS[load.name]) if load.name in KEYS else None
