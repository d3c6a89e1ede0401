"""Parser states in BMv2's JSON.

A state of BMv2 has operations and one transition, so conditions, loops and applied parsers end a state and begin
others.
"""

from __future__ import annotations

from itertools import product

from p4compiler import ir
from p4compiler.arithmetic import mask
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate.entries import MaskedValue, ValueRange, ValueSet
from p4compiler.elaborate.parser_states import ACCEPT, REJECT, LoweredCase, LoweredParser, LoweredState
from p4compiler.elaborate.storage import Storage
from p4compiler.elaborate.values import ValueSetValue
from p4compiler.json_actions import ActionWriter
from p4compiler.json_expressions import Json, hexstr
from p4compiler.sources import SourceSpan
from p4compiler.types import BitsType, width_of
from p4compiler.unique_names import UniqueNames

MAX_TRANSITIONS = 20_000


class ParserWriter:
    """Writes the states of a program's parser."""

    def __init__(self, actions: ActionWriter, storage: Storage) -> None:
        self._actions = actions
        self._expressions = actions.expressions
        self._storage = storage
        self._names = UniqueNames(ACCEPT, REJECT)
        self._labels: dict[int, Json] = {}
        self.states: list[Json] = []

    def write(self, parser: LoweredParser, accept: str | None = None) -> str:
        """Write the states of a parser, of which `accept` follows; the name of the first."""
        states = {state.name: self._new(f"{parser.prefix}{state.name}") for state in parser.states}
        targets: dict[str, str | None] = {name: state["name"] for name, state in states.items()}
        targets |= {ACCEPT: accept, REJECT: None}
        first = states["start"]["name"]
        if parser.setup:  # in a state of its own, since start may be entered again
            initial = self._new(f"{parser.prefix}init")
            end = self._code(parser.setup, initial)
            if end is not None:
                self._go(end, first)
            first = initial["name"]
        for state in parser.states:
            end = self._code(state.body, states[state.name])
            if end is not None:
                self._transitions(end, state, targets)
        assert isinstance(first, str)
        return first

    def _new(self, base: str) -> Json:
        state: Json = {
            "name": self._names.take(base),
            "id": len(self.states),
            "parser_ops": [],
            "transitions": [],
            "transition_key": [],
        }
        self.states.append(state)
        return state

    @staticmethod
    def _go(state: Json, target: str | None) -> None:
        state["transitions"].append({"type": "default", "value": None, "mask": None, "next_state": target})

    # --- transitions ---

    def _transitions(self, state: Json, lowered: LoweredState, targets: dict[str, str | None]) -> None:
        state["transition_key"] = [self._expressions.place(key) for key in lowered.keys]
        widths = [width_of(key.type) for key in lowered.keys]
        for case in lowered.cases:
            target = targets[case.target]
            if isinstance(case.sets, ValueSetValue):
                name = case.sets.name
                state["transitions"].append({"type": "parse_vset", "value": name, "mask": None, "next_state": target})
            elif all(isinstance(item, MaskedValue) and item.mask == 0 for item in case.sets):
                self._go(state, target)
                return
            else:
                self._case(state, case, widths, target, lowered.span)

    def _case(self, state: Json, case: LoweredCase, widths: list[int], target: str | None, span: SourceSpan) -> None:
        assert not isinstance(case.sets, ValueSetValue)
        choices = [_ternaries(item, width) for item, width in zip(case.sets, widths, strict=True)]
        for combination in product(*choices):
            value = bits = total = full = 0
            for item, width in zip(combination, widths, strict=True):
                size = (width + 7) // 8 * 8  # BMv2 pads each key to bytes
                value, bits, full = value << size | item.value, bits << size | item.mask, full << size | mask(width)
                total += size
            state["transitions"].append(
                {
                    "type": "hexstr",
                    "value": hexstr(value, total),
                    "mask": None if bits == full else hexstr(bits, total),
                    "next_state": target,
                }
            )
            if len(state["transitions"]) > MAX_TRANSITIONS:
                raise Refusal(f"ranges that need more than {MAX_TRANSITIONS:,} masks", span)

    # --- code ---

    def _code(self, code: ir.Code, state: Json) -> Json | None:
        """Add code to a state; the state in which it ends, None if it never does."""
        for item in code:
            if isinstance(item, ir.AssignStep | ir.PrimitiveStep):
                state["parser_ops"].append(self._operation(item))
                continue
            if isinstance(item, ir.JumpStep):
                self._go(state, self._labels[item.label]["name"])
                return None
            following = self._split(item, state)
            if following is None:
                return None
            state = following
        return state

    def _split(self, item: ir.Statement, state: Json) -> Json | None:
        if isinstance(item, ir.BlockStep):
            if not _has_jump(item.body, item.label):
                return self._code(item.body, state)
            join = self._labels[item.label] = self._new(f"{state['name']}_end")
            return self._joined(self._code(item.body, state), join)
        if isinstance(item, ir.GroupStep):
            return self._code(item.body, state)
        if isinstance(item, ir.IfStep):
            return self._if(item, state)
        if isinstance(item, ir.LoopStep):
            head = self._new(f"{state['name']}_loop")
            self._go(state, head["name"])
            end = self._code(item.body, head)
            if end is not None:
                self._go(end, head["name"])
            return None
        if isinstance(item, ir.SubParserStep):
            join = self._new(f"{state['name']}_after")
            self._go(state, self.write(item.parser, join["name"]))
            return join
        assert not isinstance(item, ir.JumpStep | ir.AssignStep | ir.PrimitiveStep)
        raise Refusal("this is not possible in a parser", item.span)

    def _joined(self, end: Json | None, join: Json) -> Json:
        if end is not None:
            self._go(end, join["name"])
        return join

    def _if(self, item: ir.IfStep, state: Json) -> Json:
        bit = self._storage.make(BitsType(1), "condition", item.span)
        assert isinstance(bit, ir.FieldValue)
        place = self._expressions.place(bit)
        state["parser_ops"].append({"parameters": [place, self._expressions.condition(item.condition)], "op": "set"})
        state["transition_key"] = [place]
        name = state["name"]
        join = self._new(f"{name}_join")
        yes, no = (
            self._new(f"{name}_{word}") if code else join for word, code in (("true", item.yes), ("false", item.no))
        )
        state["transitions"] = [{"type": "hexstr", "value": "0x01", "mask": None, "next_state": yes["name"]}]
        self._go(state, no["name"])
        for code, branch in ((item.yes, yes), (item.no, no)):
            if code:
                self._joined(self._code(code, branch), join)
        return join

    # --- operations ---

    def _operation(self, item: ir.AssignStep | ir.PrimitiveStep) -> Json:
        try:
            return self._written(item)
        except Refusal as refusal:
            raise Refusal(str(refusal), item.span) from None

    def _written(self, item: ir.AssignStep | ir.PrimitiveStep) -> Json:
        if isinstance(item, ir.AssignStep):
            if isinstance(item.target.header, ir.HeaderName | ir.StackEnd):
                target = self._expressions.place(item.target)
                if isinstance(item.value, ir.LookaheadValue):
                    bits = [item.value.offset, width_of(item.value.type)]
                    return {"parameters": [target, {"type": "lookahead", "value": bits}], "op": "set"}
                return {"parameters": [target, self._expressions.data(item.value)], "op": "set"}
        elif item.op in ("extract", "extract_VL"):
            return self._extract(item)
        elif item.op == "verify":
            check, error = item.arguments
            assert isinstance(check, ir.OperationValue | ir.ConstantValue | ir.FieldValue | ir.Valid | ir.HeadersEqual)
            assert isinstance(error, ir.ConstantValue | ir.FieldValue | ir.OperationValue)
            parameters = [self._expressions.expression(check), self._expressions.data(error)]
            return {"parameters": parameters, "op": "verify"}
        elif item.op == "advance":
            distance = item.arguments[0]
            assert isinstance(distance, ir.ConstantValue | ir.FieldValue | ir.OperationValue)
            return {"parameters": [self._expressions.data(distance)], "op": "advance"}
        return {"parameters": [self._actions.primitive(item)], "op": "primitive"}

    def _extract(self, item: ir.PrimitiveStep) -> Json:
        header, *size = item.arguments
        assert isinstance(header, ir.HeaderArgument)
        if isinstance(header.ref, ir.HeaderName):
            where: Json = {"type": "regular", "value": header.ref.name}
        elif isinstance(header.ref, ir.StackEnd) and header.ref.end == "next":
            if header.ref.member:
                where = {"type": "union_stack", "value": [header.ref.stack, header.ref.member]}
            else:
                where = {"type": "stack", "value": header.ref.stack}
        else:
            raise Refusal("extraction to an element of a stack that is not 'next' is not supported", item.span)
        if not size:
            return {"parameters": [where], "op": "extract"}
        bits = size[0]
        assert isinstance(bits, ir.ConstantValue | ir.FieldValue | ir.OperationValue | ir.LastIndex | ir.LookaheadValue)
        return {
            "parameters": [where, {"type": "expression", "value": self._expressions.expression(bits)}],
            "op": "extract_VL",
        }


def _ternaries(item: ValueSet, width: int) -> list[MaskedValue]:
    """A set as values and masks."""
    if isinstance(item, MaskedValue):
        return [item]
    assert isinstance(item, ValueRange)
    if item.low > item.high:  # from a negative number to a positive one
        return _ternaries(ValueRange(item.low, mask(width)), width) + _ternaries(ValueRange(0, item.high), width)
    out: list[MaskedValue] = []
    low = item.low
    while low <= item.high:
        size = low & -low if low else 1 << width
        while low + size - 1 > item.high:
            size >>= 1
        out.append(MaskedValue(low, mask(width) & ~(size - 1)))
        low += size
    return out


def _has_jump(code: ir.Code, label: int) -> bool:
    for item in code:
        if isinstance(item, ir.JumpStep) and item.label == label:
            return True
        inner: list[ir.Code] = []
        if isinstance(item, ir.BlockStep | ir.GroupStep | ir.LoopStep):
            inner = [item.body]
        elif isinstance(item, ir.IfStep):
            inner = [item.yes, item.no]
        if any(_has_jump(part, label) for part in inner):
            return True
    return False
