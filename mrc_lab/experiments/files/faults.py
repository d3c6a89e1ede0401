"""Faults as an experiment file names them: those of `topologies.faults`, with when each begins and ends.

The keys of a kind are its parameters. Times count from the beginning of the run. Links, switches and hosts are named as
in `topologies`, or by a pattern that may match several; `towards` picks one direction by the receiving node. With a
`count` or `share` only some of what a pattern matches are meant, drawn at random from the seed of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, Integer, JsonSchema, Text, a_share, a_time, suggest
from mrc_common.declared.sections import SectionKey, check_keys, key, keys_of
from mrc_lab.experiments.files.element_names import read_name
from topologies.errors import FabricError
from topologies.faults import KINDS, Fault, FaultKind, kind_named, renamed


@dataclass(frozen=True, slots=True)
class FaultDraw:
    """Where a drawn fault comes from: `place` is that of the fault in the file's list, `matches` what there was."""

    place: int
    matches: int


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault from `at` to `until` (None: to the end of the run), ns from the beginning; `line` is its in the file.

    With a `count` or `share` it is a fault by chance, until `fault_draws` has drawn it. `note` is a message for the
    author of the file, or empty.
    """

    fault: Fault
    at: int = key(a_time(), "when it begins")
    until: int | None = key(a_time(), "when it is over; without it, it lasts to the end of the run", default=None)
    line: int = 0
    note: str = ""
    name: str = key(Text(), "a word for it, by which sweeps and variants change it", default="")
    count: int | None = key(Integer(1), "only so many of what matches, drawn at random from the seed", default=None)
    share: float | None = key(
        a_share(), "only this share of what matches, at least one, drawn at random from the seed", default=None
    )
    draw: FaultDraw | None = None

    @property
    def by_chance(self) -> bool:
        """Whether what it is on is still to be drawn."""
        return self.count is not None or self.share is not None


_KEYS = keys_of(PlannedFault)
_OF_CHANCE = ("count", "share")


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
        check_keys(value, members, ["kind", *_KEYS, *parameters])
        given = {name: parameters[name].type.read(members[name]) for name in members if name in parameters}
        planned = {name: known.type.read(members[name]) for name, known in _KEYS.items() if name in members}
        if "at" not in planned:
            raise value.error(f"at is missing: {_KEYS['at'].doc}")
        _check_chance(kind, members)
        if "name" in members:
            read_name(members["name"])
        try:
            fault = kind.make(given)
        except FabricError as error:
            raise value.error(str(error)) from None
        old = renamed(name, kind)
        note = f"{value.source.name}, line {value.line}: {old}" if old else ""
        return PlannedFault(fault, **planned, line=value.line, note=note)

    def schema(self) -> JsonSchema:
        """One of several objects; two for a kind that has two spellings."""
        return {"oneOf": [part for kind in KINDS.values() for part in _schemas(kind)]}


def _check_chance(kind: FaultKind, members: Mapping[str, Value]) -> None:
    """FileError where a fault says twice how many are drawn, or is of a kind that names nothing to draw from."""
    given = [name for name in _OF_CHANCE if name in members]
    if given and not kind.drawable:
        able = ", ".join(other.name for other in KINDS.values() if other.drawable)
        raise members[given[0]].error(f"is not for {kind.name}: drawn are links or switches, as of {able}")
    if "share" in members and not _KEYS["share"].type.read(members["share"]):
        raise members["share"].error("of 0 draws nothing: leave the fault out")
    if len(given) > 1:
        raise members[given[1]].error(f"says the same as {given[0]}: give one of them")


def _schemas(kind: FaultKind) -> Iterable[JsonSchema]:
    yield _schema(kind, kind.parameters)
    if kind.spelling is not None:
        kept = [parameter for parameter in kind.parameters if parameter.name not in kind.spelling.instead_of]
        yield _schema(kind, [*kept, *kind.spelling.parameters])


def _schema(kind: FaultKind, parameters: Iterable[SectionKey]) -> JsonSchema:
    own = [known for known in _KEYS.values() if kind.drawable or known.name not in _OF_CHANCE]
    known = {p.name: {"description": p.doc, **p.type.schema()} for p in (*own, *parameters)}
    names: list[JsonSchema] = [{"const": kind.name}, *({"const": old, "deprecated": True} for old in kind.old)]
    named: JsonSchema = {"oneOf": names} if kind.old else {"const": kind.name}
    return {
        "type": "object",
        "description": kind.summary,
        "properties": {"kind": named, **known},
        "required": ["kind", "at", *(p.name for p in parameters if p.required)],
        "additionalProperties": False,
    }
