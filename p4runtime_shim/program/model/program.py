"""The whole program: a tuple for each kind of object; other objects refer to it by its position there."""

from __future__ import annotations

from dataclasses import dataclass

from p4runtime_shim.program.model.actions import Action
from p4runtime_shim.program.model.control_flow import ActionProfile, Call, Condition, ControlFlow, Table
from p4runtime_shim.program.model.expressions import FieldRef, HeaderExpr, HeaderRef
from p4runtime_shim.program.model.externs import Calculation, Checksum, Counter, FieldList, Meter, Register
from p4runtime_shim.program.model.headers import Field, Header, HeaderType, Stack
from p4runtime_shim.program.model.parser import Parser


@dataclass(frozen=True, slots=True)
class Program:
    """A v1model program."""

    name: str
    types: tuple[HeaderType, ...]
    headers: tuple[Header, ...]
    stacks: tuple[Stack, ...]
    unions: tuple[tuple[int, ...], ...]  # the headers of each, of which at most one is valid
    errors: dict[str, int]  # the parser errors' numbers, those of core.p4 always included
    parser: Parser
    deparser: tuple[int, ...]
    actions: tuple[Action, ...]
    tables: tuple[Table, ...]
    conditions: tuple[Condition, ...]
    calls: tuple[Call, ...]
    ingress: ControlFlow
    egress: ControlFlow
    profiles: tuple[ActionProfile, ...]
    counters: tuple[Counter, ...]
    meters: tuple[Meter, ...]
    registers: tuple[Register, ...]
    calculations: tuple[Calculation, ...]
    checksums: tuple[Checksum, ...]
    field_lists: tuple[FieldList, ...]
    digests: tuple[FieldList, ...]
    intrinsic: dict[str, FieldRef]  # BMv2 name ("standard_metadata.egress_spec") -> field

    def field(self, ref: FieldRef) -> Field:
        """The field that `ref` names."""
        return self.type_of(ref.header).fields[ref.field]

    def type_of(self, header: HeaderExpr) -> HeaderType:
        """The type of a header expression."""
        if isinstance(header, HeaderRef):
            return self.types[self.headers[header.header].type]
        return self.types[self.stacks[header.stack].type]
