"""Metadata fields that only ingress or only egress uses: variables of its C function instead of fields of the packet.

p4c makes a metadata field of each local variable of a control. A packet's metadata are zero when it begins ingress,
whichever way it comes, and nothing but egress changes what only egress uses; a copy made in egress begins with zeroes,
too. So such a field can be a variable that is zero when its pipeline begins: the C compiler keeps it in a register or
drops it, and packets that wait in queues are smaller.

Whatever else refers to a field keeps it in the packet: parser, deparser, checksums, field lists, meters, the engine
(standard metadata), whoever takes the header as a whole, and what is never run, which is compiled nevertheless.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4runtime_shim.program.model.actions import ObjectArg
from p4runtime_shim.program.model.control_flow import ControlFlow
from p4runtime_shim.program.model.expressions import FieldRef, HeaderRef, ValidBit
from p4runtime_shim.program.model.parser import Extract
from p4runtime_shim.program.model.program import Program

Position = tuple[int, int]  # of a header and of a field in it


@dataclass(frozen=True, slots=True)
class References:
    """What a part of a program refers to by position: headers as a whole, fields of headers, calculations."""

    headers: frozenset[int]
    fields: frozenset[Position]
    calculations: frozenset[int]


def references(root: object) -> References:
    """What the tree `root` refers to."""
    headers: set[int] = set()
    fields: set[Position] = set()
    calculations: set[int] = set()
    waiting = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(item)
        elif isinstance(item, HeaderRef | Extract):
            headers.add(item.header)
        elif isinstance(item, FieldRef) and isinstance(item.header, HeaderRef):
            fields.add((item.header.header, item.field))
        elif isinstance(item, ObjectArg) and item.kind == "calculation":
            calculations.add(item.index)
        elif isinstance(item, ValidBit) and isinstance(item.header, HeaderRef):
            continue  # metadata are always valid
        elif hasattr(item, "__dataclass_fields__"):
            waiting.extend(getattr(item, name) for name in item.__dataclass_fields__)
    return References(frozenset(headers), frozenset(fields), frozenset(calculations))


def pipeline_variables(program: Program) -> dict[Position, str]:
    """The name of the one pipeline that uses each such field; in the order of the program."""
    parts = (program.ingress, program.egress)
    run = {action for part in parts for action in _actions(program, part)}
    users = {part.name: _with_calculations(program, _nodes(program, part)) for part in parts}
    hashed = {calculation for user in users.values() for calculation in user.calculations}
    hashed -= {checksum.calculation for checksum in program.checksums}
    selecting = {program.tables[position].profile for part in parts for position in part.tables}
    users[""] = _with_calculations(
        program,
        (
            program.parser, program.field_lists, program.digests, program.meters, tuple(program.intrinsic.values()),
            tuple(HeaderRef(header) for header in program.deparser), program.checksums,
            tuple(item for position, item in enumerate(program.actions) if position not in run),
            tuple(item for position, item in enumerate(program.calculations) if position not in hashed),
            tuple(item for position, item in enumerate(program.profiles) if position not in selecting),
        ),
    )  # fmt: skip
    whole = {header for user in users.values() for header in user.headers}
    found = {}
    for header, instance in enumerate(program.headers):
        if instance.metadata and instance.stack is None and header not in whole:
            for field, info in enumerate(program.types[instance.type].fields):
                if info.max_bytes:
                    continue
                names = [name for name, user in users.items() if (header, field) in user.fields]
                if len(names) == 1 and names[0]:
                    found[header, field] = names[0]
    return found


def _actions(program: Program, part: ControlFlow) -> set[int]:
    """Positions of the actions that a pipeline may run."""
    tables = [program.tables[position] for position in part.tables]
    found = {program.calls[position].action for position in part.calls}
    found.update(action for table in tables for action in table.actions)
    found.update(table.default.action for table in tables if table.default is not None)
    found.update(entry.call.action for table in tables for entry in table.entries)
    return found


def _nodes(program: Program, part: ControlFlow) -> tuple[object, ...]:
    tables = [program.tables[position] for position in part.tables]
    profiles = [program.profiles[table.profile] for table in tables if table.profile is not None]
    conditions = [program.conditions[position] for position in part.conditions]
    return (*tables, *profiles, *conditions, *(program.actions[position] for position in _actions(program, part)))


def _with_calculations(program: Program, root: object) -> References:
    """What the tree `root` refers to, itself and by the calculations in it."""
    own = references(root)
    inputs = references(tuple(program.calculations[position] for position in own.calculations))
    return References(own.headers | inputs.headers, own.fields | inputs.fields, own.calculations)


def pipeline_of(program: Program, variables: dict[Position, str], root: object) -> str | None:
    """The pipeline whose variables a part of a program uses, itself or by its calculations; None if it uses none."""
    used = _with_calculations(program, root).fields
    return next((variables[position] for position in used if position in variables), None)
