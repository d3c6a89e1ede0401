"""The P4 program of a fabric's switches: the fabric's own, or another.

The fabric's own is what p4c has made of p4src/ (``p4src/build/``). Once somebody has edited a source it is compiled
here, by :mod:`p4compiler`, whenever a command needs it; that takes less time than to look for what an earlier command
has made. Another program is compiled likewise, or read as BMv2's JSON with P4Info beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import p4compiler
import p4src
from mrc_common import named_files, strict_json
from mrc_common.p4_names import by_suffix
from mrc_common.written_files import write_text
from topologies.entries import ECMP, SwitchEntries, switch_entries
from topologies.errors import FabricError
from topologies.fabric import Fabric

MAIN = "fabric.p4"
MAX_BYTES = 32 << 20  # of a compiled program's files
_JSON, _P4INFO = "fabric.json", "fabric.p4info.txtpb"  # as in p4src/build/
_SOURCE = "source"
_OF_ROUTES = frozenset(("ipv6_route", ECMP))


@dataclass(frozen=True, slots=True)
class P4Program:
    """A compiled program: BMv2's JSON, and P4Info as protobuf text ("" where nobody has made any).

    `name` is its file's, `source` that file, "" for the fabric's own, `warnings` what the compiler has to say of it, as
    text with line and caret.
    """

    name: str
    json: str = field(repr=False)
    p4info: str = field(repr=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    source: str = field(default="", compare=False)

    def save(self, folder: Path) -> None:
        """Write it into a folder, which is made if necessary; OSError names a file that cannot be written."""
        folder.mkdir(mode=0o700, exist_ok=True)
        write_text(folder / _P4INFO, self.p4info)
        write_text(folder / _JSON, self.json)

    def tables(self) -> frozenset[str]:
        """Names of its tables and action profiles, whole and by what no other of the kind ends with."""
        return _owner_names(self.json)


def fabric_program() -> P4Program:
    """The fabric's own program, as its sources are now; FabricError says what the compiler finds wrong with them."""
    if p4src.changed():
        return replace(read_program(p4src.SOURCES / MAIN), source="")
    return saved_program(p4src.BUILD)


def saved_program(folder: Path) -> P4Program:
    """The program that :meth:`P4Program.save` or p4c has written into a folder; FabricError if it is not there."""
    source = source_of(folder)
    return P4Program(MAIN if source is None else source.name, _text(folder / _JSON), _text(folder / _P4INFO))


def source_of(folder: Path) -> Path | None:
    """The file that a saved program was made from; None for the fabric's own."""
    try:
        return Path(named_files.read_text(folder / _SOURCE))
    except (OSError, UnicodeError):
        return None


def remember_source(folder: Path, source: Path | None) -> None:
    """Note what a saved program was made from, for :func:`source_of`; OSError if that cannot be written.

    Only whoever has read that file notes it: the program itself may have come from elsewhere.
    """
    if source is None:
        (folder / _SOURCE).unlink(missing_ok=True)
    else:
        write_text(folder / _SOURCE, str(source))


def saved_p4info(folder: Path) -> Path:
    """The file with the P4Info of a saved program."""
    return folder / _P4INFO


def read_program(file: Path) -> P4Program:
    """The program in a P4 source, or in BMv2's JSON with P4Info beside it (``NAME.p4info.txtpb``, if there is one).

    FabricError when it cannot be read, and with all that the compiler finds wrong with it.
    """
    if file.suffix == ".json":
        p4info = file.with_suffix(".p4info.txtpb")
        program = P4Program(
            file.name, _text(file), _text(p4info) if p4info.exists() else "", source=str(file.absolute())
        )
        try:
            program.tables()
        except ValueError as error:
            raise FabricError(f"{file} is no JSON: {error}") from None
        return program
    if file.suffix != ".p4":
        raise FabricError(f"{file} is no P4 program: give a .p4 file, or BMv2's JSON, which ends in .json")
    try:
        compiled = p4compiler.compile(file)
    except p4compiler.P4Error as error:
        if all(found.span is None for found in error.diagnostics):  # it is not the program that is wrong
            raise FabricError("; ".join(found.message for found in error.diagnostics)) from None
        raise FabricError(f"{error}\n{file} does not compile: correct it, and try again") from None
    warnings = tuple(map(str, compiled.warnings))
    return P4Program(file.name, compiled.json, compiled.p4info, warnings, str(file.absolute()))


def with_tables(entries: SwitchEntries, known: Iterable[str]) -> SwitchEntries:
    """The entries, members and groups for which a program has the tables and action profiles."""
    names = frozenset(known)
    return replace(
        entries,
        members=tuple(member for member in entries.members if member.profile in names),
        groups=tuple(group for group in entries.groups if group.profile in names),
        entries=tuple(entry for entry in entries.entries if entry.table in names),
    )


def check_reroutes(fabric: Fabric, known: Iterable[str], name: str = "the P4 program") -> None:
    """FabricError for a fabric that reroutes with a program, called `name`, that has no tables for the routes."""
    absent = sorted(_OF_ROUTES.difference(known))
    if fabric.reroute_ns is not None and fabric.p4_switches and absent:
        raise FabricError(
            f"reroute: {name} has no {' and no '.join(absent)}, so it has no routes to change: leave reroute out"
        )


def left_out(fabric: Fabric, program: P4Program) -> str:
    """What to say of a program that has not all tables of the fabric's own: nobody writes their entries. "" if it has.

    Faults that a P4 program makes need its tables too, and are refused without them.
    """
    own = {name for switch in fabric.p4_switches for name in _owners(switch_entries(fabric, switch))}
    absent = sorted(own - program.tables())
    if not absent:
        return ""
    return f"{program.name} has no {', '.join(absent)}: what the fabric's own program has there is left out"


@functools.lru_cache(maxsize=16)  # a fleet asks for every switch, and at every fault
def _owner_names(text: str) -> frozenset[str]:
    pipelines = _list(strict_json.loads(text), "pipelines")
    owners = ([one for part in pipelines for one in _list(part, kind)] for kind in ("tables", "action_profiles"))
    return frozenset(name for kind in owners for name in by_suffix(str(one.get("name", "")) for one in kind))


def _owners(entries: SwitchEntries) -> Iterator[str]:
    """Tables and action profiles that entries are for."""
    yield from (member.profile for member in entries.members)
    yield from (group.profile for group in entries.groups)
    yield from (entry.table for entry in entries.entries)


def _text(file: Path) -> str:
    try:
        return named_files.read_text(file, MAX_BYTES)
    except (OSError, UnicodeError) as error:
        raise FabricError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from None


def _list(document: Any, key: str) -> list[dict[str, Any]]:
    value = document.get(key) if isinstance(document, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
