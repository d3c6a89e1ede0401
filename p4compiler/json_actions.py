"""Actions in BMv2's JSON: lowered code as primitives, of which some jump."""

from __future__ import annotations

from typing import Any

from p4compiler import ir
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate.operations import unsigned
from p4compiler.elaborate.statements import EXIT
from p4compiler.json_expressions import ExpressionWriter, Json, argument, number
from p4compiler.sources import SourceSpan
from p4compiler.types import width_of

_EXTERN_ARRAYS = {"counter": "counter_array", "meter": "meter_array", "register": "register_array"}
_MAX_FRAGMENT = 80


def source_info(span: SourceSpan | None, fragment: str = "") -> Json:
    """Where something is in the program, for debuggers and error messages."""
    if span is None:
        return {}
    if not fragment:
        text = span.source.text[span.start : span.start + 2 * _MAX_FRAGMENT]
        fragment = text.partition("\n")[0].partition(";")[0].strip()[:_MAX_FRAGMENT]
    info = {"filename": span.source.name, "line": span.line, "column": span.column - 1, "source_fragment": fragment}
    return {"source_info": info}


class ActionWriter:
    """Writes actions, and the calculations, field lists and digests that they refer to."""

    def __init__(self, expressions: ExpressionWriter, field_lists: FieldLists, digests: list[str]) -> None:
        self.expressions = expressions
        self.actions: list[Json] = []
        self.calculations: list[Json] = []
        self._field_lists = field_lists
        self._digests = digests

    def action(self, name: str, parameters: list[Json], code: ir.Code) -> int:
        """Write an action; its id."""
        number_ = len(self.actions)
        primitives = _Flattener(self).flatten(code)
        self.actions.append({"name": name, "id": number_, "runtime_data": parameters, "primitives": primitives})
        return number_

    def primitive(self, item: ir.AssignStep | ir.PrimitiveStep) -> Json:
        """One primitive."""
        if isinstance(item, ir.AssignStep):
            if isinstance(item.value, ir.LookaheadValue):
                raise Refusal("lookahead() is for parsers", item.span)
            parameters = [self._target(item.target), self.expressions.data(item.value)]
            return {"op": "assign", "parameters": parameters, **source_info(item.span)}
        if item.op in ("verify", "extract", "extract_VL", "advance", "emit"):
            raise Refusal(f"{item.op}() is not possible here", item.span)
        try:
            arguments = [self._argument(value, item.span) for value in item.arguments]
        except Refusal as refusal:
            raise Refusal(str(refusal), item.span) from None
        return {"op": item.op, "parameters": arguments, **source_info(item.span)}

    def _target(self, field: ir.FieldValue) -> Json:
        return argument(self.expressions.place(field))

    def _argument(self, item: ir.Argument, span: SourceSpan) -> Json:
        if isinstance(item, ir.HeaderArgument):
            return argument(self.expressions.header(item.ref))
        if isinstance(item, ir.StackArgument):
            return {"type": "header_union_stack" if item.of_unions else "header_stack", "value": item.name}
        if isinstance(item, ir.UnionArgument):
            return {"type": "header_union", "value": item.name}
        if isinstance(item, ir.TextArgument):
            return {"type": "string", "value": item.value}
        if isinstance(item, ir.ValuesArgument):
            return {"type": "parameters_vector", "value": [self.expressions.data(value) for value in item.items]}
        if isinstance(item, ir.FieldListArgument):
            return number(self._field_lists.identifier(item.number))
        if isinstance(item, ir.DigestArgument):
            return number(self._digests.index(item.name) + 1)
        if isinstance(item, ir.CalculationArgument):
            return {"type": "calculation", "value": self.calculation(item, span)}
        if isinstance(item, ir.ExternArgument):
            return {"type": _EXTERN_ARRAYS[item.instance.kind], "value": item.instance.name}
        return self.expressions.data(item)

    def calculation(self, item: ir.CalculationArgument, span: SourceSpan) -> str:
        """Write a calculation; its name."""
        count = len(self.calculations)
        name = f"calc_{count - 1}" if count else "calc"
        inputs: list[Json] = []
        for value in item.inputs:
            if isinstance(value, ir.ConstantValue):
                width = width_of(value.type)
                inputs.append({**number(unsigned(value.value, value.type), width), "bitwidth": width})
            else:
                assert isinstance(value, ir.FieldValue | ir.Valid)
                inputs.append(self.expressions.place(value))
        if item.with_payload:
            inputs.append({"type": "payload", "value": None})
        self.calculations.append(
            {"name": name, "id": count, **source_info(span), "algo": item.algorithm, "input": inputs}
        )
        return name


class FieldLists:
    """The field lists that annotations name, by BMv2's identifiers: 0 means none to BMv2, so list 0 has another."""

    def __init__(self, lists: dict[int, list[ir.FieldValue]]) -> None:
        self._lists = lists
        self._identifiers: dict[int | None, int] = {}

    def identifier(self, number_: int | None) -> int:
        """BMv2's identifier of a list; None is the empty list."""
        if number_ is not None and number_ != 0:
            self._identifiers[number_] = number_
        if number_ not in self._identifiers:
            taken = {*self._identifiers.values(), *self._lists}
            self._identifiers[number_] = max(taken, default=0) + 1
        return self._identifiers[number_]

    def write(self, expressions: ExpressionWriter) -> list[Json]:
        """All lists."""
        for number_ in self._lists:
            self.identifier(number_)
        return [
            {
                "id": identifier,
                "name": "fl" if number_ is None else f"field_list{number_}",
                "elements": [expressions.place(field) for field in self._lists.get(number_, [])]
                if number_ is not None
                else [],
            }
            for number_, identifier in sorted(self._identifiers.items(), key=lambda item: item[1])
        ]


class _Flattener:
    """The code of one action as primitives with jumps."""

    def __init__(self, writer: ActionWriter) -> None:
        self._writer = writer
        self._out: list[Json] = []
        self._jumps: list[tuple[int, int, SourceSpan | None]] = []  # position, label
        self._places: dict[int, int] = {}
        self._next_label = -1

    def flatten(self, code: ir.Code) -> list[Json]:
        self._walk(code, EXIT)
        self._places[EXIT] = len(self._out)
        for position, label, span in self._jumps:
            if label not in self._places:
                raise Refusal("leaving a loop to outside of it, as by 'return', is not supported here", span)
            self._out[position]["parameters"][-1] = number(self._places[label])
        return self._out

    def _jump(self, op: str, label: int, span: SourceSpan | None, *arguments: Any) -> None:
        self._jumps.append((len(self._out), label, span))
        self._out.append({"op": op, "parameters": [*arguments, None], **source_info(span)})

    def _label(self) -> int:
        self._next_label -= 1
        return self._next_label

    def _walk(self, code: ir.Code, tail: int | None) -> None:
        """Write code; a jump to `tail` at its end is where it goes anyway."""
        for position, item in enumerate(code):
            is_last = position == len(code) - 1
            if isinstance(item, ir.AssignStep | ir.PrimitiveStep):
                self._out.append(self._writer.primitive(item))
            elif isinstance(item, ir.BlockStep):
                self._walk(item.body, item.label)
                self._places[item.label] = len(self._out)
            elif isinstance(item, ir.GroupStep):
                self._walk(item.body, None)
            elif isinstance(item, ir.JumpStep):
                if not (is_last and tail == item.label):
                    self._jump("_jump", item.label, None)
                return
            elif isinstance(item, ir.IfStep):
                self._if(item)
            elif isinstance(item, ir.LoopStep):
                start = len(self._out)
                self._walk(item.body, None)
                self._out.append({"op": "_jump", "parameters": [number(start)], **source_info(item.span)})
            else:
                what = "a table cannot be applied" if isinstance(item, ir.ApplyStep) else "this is not possible"
                raise Refusal(f"{what} in an action, or in a loop", item.span)

    def _if(self, item: ir.IfStep) -> None:
        other, end = self._label(), self._label()
        self._jump("_jump_if_zero", other, item.span, self._writer.expressions.condition(item.condition))
        self._walk(item.yes, None)
        if item.no:
            self._jump("_jump", end, item.span)
        self._places[other] = len(self._out)
        self._walk(item.no, None)
        self._places[end] = len(self._out)
