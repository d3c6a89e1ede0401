"""A program for v1model, lowered: the blocks of its V1Switch, applied one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from p4compiler import ir, tree
from p4compiler.check.result import Checked
from p4compiler.diagnostics import Diagnostics, Note, Refusal
from p4compiler.elaborate import operations
from p4compiler.elaborate.calls import apply_control, call
from p4compiler.elaborate.elaborator import ElaborationPasses, Elaborator, Found
from p4compiler.elaborate.expressions import evaluate
from p4compiler.elaborate.frames import Frame
from p4compiler.elaborate.instances import instantiate
from p4compiler.elaborate.parser_states import LoweredParser, lower_parser
from p4compiler.elaborate.statements import run_statements
from p4compiler.elaborate.storage import Storage
from p4compiler.elaborate.table_checks import check_table
from p4compiler.elaborate.tables import LoweredTable, apply_table
from p4compiler.elaborate.values import (
    BlockInstance,
    ExternInstance,
    PacketValue,
    StructValue,
    Value,
    scalars,
)
from p4compiler.sources import SourceSpan
from p4compiler.types import RecordType, Type, base_of

_PARTS = ElaborationPasses(call, run_statements, apply_table, lower_parser)
_BLOCKS = ("p", "vr", "ig", "eg", "ck", "dep")
STANDARD = ir.HeaderName("standard_metadata")


@dataclass(frozen=True)
class LoweredProgram:
    """Everything that the JSON and the P4Info are written from."""

    checked: Checked
    storage: Storage
    found: Found
    standard: RecordType  # the type of the standard metadata
    parser: LoweredParser
    ingress: ir.Code
    egress: ir.Code
    checksums: tuple[ir.ChecksumStep, ...]
    emitted: tuple[str, ...]  # headers, in order
    blocks: dict[str, BlockInstance]


def lower(checked: Checked, diagnostics: Diagnostics) -> LoweredProgram:
    """Lower a checked program; raises P4Error."""
    e = Elaborator(checked, diagnostics, _PARTS)
    try:
        return _Lowering(e).run()
    except Refusal as refusal:
        diagnostics.add(refusal.diagnostic)
    except RecursionError:
        diagnostics.error("the program is nested too deeply", None)
    diagnostics.stop_on_errors()
    raise AssertionError("a refusal is an error")


class _Lowering:
    def __init__(self, e: Elaborator) -> None:
        self._e = e

    def run(self) -> LoweredProgram:
        e = self._e
        main = self._main()
        for item in e.checked.program.declarations:
            if isinstance(item, tree.InstanceDeclaration) and item is not main:
                e.globals.values[item] = instantiate(e, item, item.name, item.annotations, "")
        blocks = self._blocks(main)
        parser = blocks["p"].declaration
        std_type, std = self._standard_metadata(parser)
        headers = self._headers(blocks["p"])
        user = self._user_metadata(blocks["p"])
        self._collect_field_lists(user)
        # ingress and egress first: they decide what the P4Info lists
        e.pipeline = "ingress"
        ingress = self._control(blocks["ig"], "control", headers, user, std)
        e.pipeline = "egress"
        egress = self._control(blocks["eg"], "control", headers, user, std)
        e.pipeline = ""
        lowered_parser = lower_parser(e, blocks["p"], self._bind(blocks["p"], PacketValue(), headers, user, std), "")
        checksums: list[ir.ChecksumStep] = []
        for name in ("ck", "vr"):
            code = self._control(blocks[name], "checksum", headers, user)
            checksums += _checksums(code, operations.TRUE)
        externs = [item for item in e.found.externs if isinstance(item, ExternInstance)]
        self._check_direct_externs(externs)
        _refuse_equal_names(externs)
        for table in e.found.tables.values():
            assert isinstance(table, LoweredTable)
            check_table(e, table)
        deparsed = self._control(blocks["dep"], "deparser", PacketValue(), headers)
        return LoweredProgram(
            e.checked,
            e.storage,
            e.found,
            std_type,
            lowered_parser,
            ingress,
            egress,
            tuple(checksums),
            _emitted(deparsed),
            blocks,
        )

    def _check_direct_externs(self, externs: Sequence[ExternInstance]) -> None:
        """Direct counters and meters work in the actions of their table only; BMv2 has no call that would fail."""
        for item in externs:
            what = f"{item.kind} {item.short!r} belongs to"
            for span, table in item.calls:
                if not item.tables:
                    property_ = "counters" if item.kind == "direct_counter" else "meters"
                    text = f"{what} no table: one needs '{property_} = {item.short};'"
                    if item.kind == "direct_meter":  # whose result would have no value
                        raise Refusal(text, span)
                    self._e.diagnostics.warning("no-effect", text, span)
                elif table is None or table.lowered is not item.tables[0]:
                    where = f"an action of table {table.declaration.name!r}" if table else "code outside of actions"
                    text = f"this has no effect in {where}: {what} table {item.tables[0].declaration.name!r}"
                    self._e.diagnostics.warning("no-effect", text, span)

    def _main(self) -> tree.InstanceDeclaration:
        notes: list[Note] = []
        for item in self._e.checked.program.declarations:
            call = self._e.checked.calls.get(item)
            if not isinstance(item, tree.InstanceDeclaration) or call is None or call.object_type is None:
                continue
            name = call.object_type.declaration.name
            if item.name == "main" and name != "V1Switch":
                raise Refusal(f"architecture {name!r} is not supported; only v1model's V1Switch is", item.span)
            if item.name == "main":
                return item
            if name == "V1Switch":
                notes.append(Note("this V1Switch has another name", item.span))
        raise Refusal("the program has no 'main'", self._e.checked.program.end, *notes)

    def _blocks(self, main: tree.InstanceDeclaration) -> dict[str, BlockInstance]:
        out: dict[str, BlockInstance] = {}
        for parameter, node in self._e.checked.calls[main].arguments:
            assert node is not None
            value = evaluate(self._e, node)
            if not isinstance(value, BlockInstance) or parameter.name not in _BLOCKS:
                raise Refusal("this is not a parser or control of V1Switch", node.span)
            out[parameter.name] = value
        return out

    # --- shared values ---

    def _parameter_type(self, block: BlockInstance, position: int) -> tuple[Type, SourceSpan]:
        parameter = block.declaration.parameters[position]
        with self._e.within(block.frame):
            return self._e.declared(parameter), parameter.span

    def _standard_metadata(
        self, parser: tree.ParserDeclaration | tree.ControlDeclaration
    ) -> tuple[RecordType, StructValue]:
        kind = self._e.checked.declared[parser.parameters[3]]
        assert isinstance(kind, RecordType)
        fields: dict[str, Value] = {name: ir.FieldValue(STANDARD, name, item) for name, item in kind.fields.items()}
        return kind, StructValue(kind, fields)

    def _headers(self, parser: BlockInstance) -> Value:
        """The struct of headers; each is called as its field is."""
        kind, span = self._parameter_type(parser, 1)
        base = base_of(kind)
        if not isinstance(base, RecordType):
            raise Refusal(f"the parsed headers are a struct, not {kind}", span)
        if base.kind != "struct":
            return self._e.storage.make(kind, "hdr", span)
        return StructValue(kind, {name: self._part(item, name, span) for name, item in base.fields.items()})

    def _part(self, kind: Type, name: str, span: SourceSpan) -> Value:
        return self._e.storage.make(kind, name, span)

    def _user_metadata(self, parser: BlockInstance) -> Value:
        kind, span = self._parameter_type(parser, 2)
        return self._e.storage.make(kind, "userMetadata", span)

    # --- blocks ---

    def _bind(self, block: BlockInstance, *values: Value) -> Frame:
        frame = Frame(block.frame)
        for parameter, value in zip(block.declaration.parameters, values, strict=True):
            frame.values[parameter] = value
        return frame

    def _control(self, block: BlockInstance, mode: str, *values: Value) -> ir.Code:
        e = self._e
        frame = self._bind(block, *values)
        e.block = block.name
        with e.in_mode(mode), e.collecting() as code:
            apply_control(e, block, frame, [])
        return tuple(code)

    def _collect_field_lists(self, value: Value) -> None:
        """The fields of user metadata that @field_list puts in lists."""
        if not isinstance(value, StructValue) or not isinstance(base_of(value.type), RecordType):
            return
        record = base_of(value.type)
        assert isinstance(record, RecordType)
        for field in record.declaration.fields:
            for number in self._e.checked.field_lists.get(field, ()):
                known = self._e.found.field_lists.setdefault(number, [])
                known += [item for item in scalars(value.fields[field.name]) if isinstance(item, ir.FieldValue)]
            self._collect_field_lists(value.fields[field.name])


def _refuse_equal_names(externs: Sequence[ExternInstance]) -> None:
    """Two objects of one kind by one name would be one to BMv2 and the control plane."""
    known: dict[tuple[str, str], ExternInstance] = {}
    for item in externs:
        other = known.setdefault((item.kind.removeprefix("direct_"), item.name), item)
        if other is not item:
            note = Note("the other is here", other.span)
            raise Refusal(f"two {item.kind}s have the control-plane name {item.name!r}", item.span, note)


def _checksums(code: Sequence[ir.Statement], condition: ir.Scalar) -> list[ir.ChecksumStep]:
    """The checksums in the code of a control for them, each with the conditions around it."""
    out: list[ir.ChecksumStep] = []
    for item in code:
        if isinstance(item, ir.BlockStep):
            out += _checksums(item.body, condition)
        elif isinstance(item, ir.IfStep):
            out += _checksums(item.yes, operations.both(condition, item.condition))
            out += _checksums(item.no, operations.both(condition, operations.negate(item.condition)))
        elif isinstance(item, ir.ChecksumStep):
            both = operations.both(condition, item.condition)
            out.append(ir.ChecksumStep(item.verifies, both, item.calculation, item.target, item.span))
        elif not isinstance(item, ir.JumpStep):
            raise Refusal("only checksums, and conditions around them, are supported here", item.span)
    return out


def _emitted(code: Sequence[ir.Statement]) -> tuple[str, ...]:
    out: list[str] = []
    for item in code:
        if isinstance(item, ir.BlockStep):
            out += _emitted(item.body)
        elif isinstance(item, ir.PrimitiveStep) and item.op == "emit":
            header = item.arguments[0]
            assert isinstance(header, ir.HeaderArgument)
            if not isinstance(header.ref, ir.HeaderName):
                raise Refusal(
                    "emitting an element of a stack by an index that is not known is not supported", item.span
                )
            out.append(header.ref.name)
        elif not isinstance(item, ir.JumpStep):
            raise Refusal("only emit() is supported in a deparser", item.span)
    return tuple(out)
