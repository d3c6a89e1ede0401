"""Faults as an experiment file names them: those of `topologies.faults`, with when each begins and ends.

The keys of a kind are its parameters. Times count from the beginning of the run. Links, switches and hosts are named as
in `topologies`, or by a pattern that may match several; `towards` picks one direction by the receiving node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, Text, a_time, suggest
from mrc_common.declared.sections import SectionKey, check_keys, key, keys_of
from topologies.errors import FabricError
from topologies.faults import KINDS, Fault, FaultKind, kind_named, renamed


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault from `at` to `until` (None: to the end of the run), ns from the beginning; `line` is its in the file.

    `note` is a message for the author of the file, or empty.
    """

    fault: Fault
    at: int = key(a_time(), "when it begins")
    until: int | None = key(a_time(), "when it is over; without it, it lasts to the end of the run", default=None)
    line: int = 0
    note: str = ""


_WHEN = keys_of(PlannedFault)


@dataclass(frozen=True)
class FaultKinds(FieldType):
    """A mapping whose key `kind` says which kind of fault it is."""

    def read(self, value: Value) -> PlannedFault:
        """The fault; FileError when it does not fit."""
        members = value.items()
        if "kind" not in members:
            raise value.error(f"kind is missing; known are {', '.join(KINDS)}")
        name = Text().read(members["kind"])
        try:
            kind = kind_named(name)
        except FabricError:
            raise members["kind"].error(f"{name[:80]!r} is unknown; {suggest(name, KINDS)}") from None
        parameters = {parameter.name: parameter for parameter in kind.all_parameters}
        check_keys(value, members, ["kind", *_WHEN, *parameters])
        given = {name: parameters[name].type.read(members[name]) for name in members if name in parameters}
        when = {name: known.type.read(members[name]) for name, known in _WHEN.items() if name in members}
        if "at" not in when:
            raise value.error(f"at is missing: {_WHEN['at'].doc}")
        try:
            fault = kind.make(given)
        except FabricError as error:
            raise value.error(str(error)) from None
        old = renamed(name, kind)
        note = f"{value.source.name}, line {value.line}: {old}" if old else ""
        return PlannedFault(fault, **when, line=value.line, note=note)

    def schema(self) -> JsonSchema:
        """One of several objects; two for a kind that has two spellings."""
        return {"oneOf": [part for kind in KINDS.values() for part in _schemas(kind)]}


def _schemas(kind: FaultKind) -> Iterable[JsonSchema]:
    yield _schema(kind, kind.parameters)
    if kind.spelling is not None:
        kept = [parameter for parameter in kind.parameters if parameter.name not in kind.spelling.instead_of]
        yield _schema(kind, [*kept, *kind.spelling.parameters])


def _schema(kind: FaultKind, parameters: Iterable[SectionKey]) -> JsonSchema:
    known = {p.name: {"description": p.doc, **p.type.schema()} for p in (*_WHEN.values(), *parameters)}
    names: list[JsonSchema] = [{"const": kind.name}, *({"const": old, "deprecated": True} for old in kind.old)]
    named: JsonSchema = {"oneOf": names} if kind.old else {"const": kind.name}
    return {
        "type": "object",
        "description": kind.summary,
        "properties": {"kind": named, **known},
        "required": ["kind", "at", *(p.name for p in parameters if p.required)],
        "additionalProperties": False,
    }
