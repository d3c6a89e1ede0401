"""Parser states in BMv2's JSON.

A state of BMv2 has operations and one transition, so conditions, loops and applied parsers end a state and begin
others.
"""

from __future__ import annotations

from itertools import product

from p4compiler import ir
from p4compiler.arithmetic import mask
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate.entries import Ternary, ValueRange, ValueSet
from p4compiler.elaborate.parser_states import ACCEPT, REJECT, LoweredCase, LoweredParser, LoweredState
from p4compiler.elaborate.storage import Storage
from p4compiler.elaborate.values import ValueSetValue
from p4compiler.json_actions import ActionWriter
from p4compiler.json_expressions import Json, hexstr
from p4compiler.sources import Span
from p4compiler.types import Bits, width_of

MAX_TRANSITIONS = 20_000


class ParserWriter:
    """Writes the states of a program's parser."""

    def __init__(self, actions: ActionWriter, storage: Storage) -> None:
        self._actions = actions
        self._expressions = actions.expressions
        self._storage = storage
        self._taken = {ACCEPT, REJECT}
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
        name, number = base, -1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        state: Json = {"name": name, "id": len(self.states), "parser_ops": [], "transitions": [], "transition_key": []}
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
            elif all(isinstance(item, Ternary) and item.mask == 0 for item in case.sets):
                self._go(state, target)
                return
            else:
                self._case(state, case, widths, target, lowered.span)

    def _case(self, state: Json, case: LoweredCase, widths: list[int], target: str | None, span: Span) -> None:
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
            if isinstance(item, ir.Assign | ir.Primitive):
                state["parser_ops"].append(self._operation(item))
                continue
            if isinstance(item, ir.Jump):
                self._go(state, self._labels[item.label]["name"])
                return None
            following = self._split(item, state)
            if following is None:
                return None
            state = following
        return state

    def _split(self, item: ir.Statement, state: Json) -> Json | None:
        if isinstance(item, ir.Block):
            if not _has_jump(item.body, item.label):
                return self._code(item.body, state)
            join = self._labels[item.label] = self._new(f"{state['name']}_end")
            return self._joined(self._code(item.body, state), join)
        if isinstance(item, ir.Group):
            return self._code(item.body, state)
        if isinstance(item, ir.If):
            return self._if(item, state)
        if isinstance(item, ir.Loop):
            head = self._new(f"{state['name']}_loop")
            self._go(state, head["name"])
            end = self._code(item.body, head)
            if end is not None:
                self._go(end, head["name"])
            return None
        if isinstance(item, ir.SubParser):
            join = self._new(f"{state['name']}_after")
            self._go(state, self.write(item.parser, join["name"]))
            return join
        assert not isinstance(item, ir.Jump | ir.Assign | ir.Primitive)
        raise Refusal("this is not possible in a parser", item.span)

    def _joined(self, end: Json | None, join: Json) -> Json:
        if end is not None:
            self._go(end, join["name"])
        return join

    def _if(self, item: ir.If, state: Json) -> Json:
        bit = self._storage.make(Bits(1), "condition", item.span)
        assert isinstance(bit, ir.Field)
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

    def _operation(self, item: ir.Assign | ir.Primitive) -> Json:
        try:
            return self._written(item)
        except Refusal as refusal:
            raise Refusal(str(refusal), item.span) from None

    def _written(self, item: ir.Assign | ir.Primitive) -> Json:
        if isinstance(item, ir.Assign):
            if isinstance(item.target.header, ir.HeaderName | ir.StackEnd):
                target = self._expressions.place(item.target)
                if isinstance(item.value, ir.Lookahead):
                    bits = [item.value.offset, width_of(item.value.type)]
                    return {"parameters": [target, {"type": "lookahead", "value": bits}], "op": "set"}
                return {"parameters": [target, self._expressions.data(item.value)], "op": "set"}
        elif item.op in ("extract", "extract_VL"):
            return self._extract(item)
        elif item.op == "verify":
            check, error = item.arguments
            assert isinstance(check, ir.Operation | ir.Constant | ir.Field | ir.Valid | ir.HeaderEqual)
            assert isinstance(error, ir.Constant | ir.Field | ir.Operation)
            parameters = [self._expressions.expression(check), self._expressions.data(error)]
            return {"parameters": parameters, "op": "verify"}
        elif item.op == "advance":
            distance = item.arguments[0]
            assert isinstance(distance, ir.Constant | ir.Field | ir.Operation)
            return {"parameters": [self._expressions.data(distance)], "op": "advance"}
        return {"parameters": [self._actions.primitive(item)], "op": "primitive"}

    def _extract(self, item: ir.Primitive) -> Json:
        header, *size = item.arguments
        assert isinstance(header, ir.Header)
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
        assert isinstance(bits, ir.Constant | ir.Field | ir.Operation | ir.LastIndex | ir.Lookahead)
        return {
            "parameters": [where, {"type": "expression", "value": self._expressions.expression(bits)}],
            "op": "extract_VL",
        }


def _ternaries(item: ValueSet, width: int) -> list[Ternary]:
    """A set as values and masks."""
    if isinstance(item, Ternary):
        return [item]
    assert isinstance(item, ValueRange)
    if item.low > item.high:  # from a negative number to a positive one
        return _ternaries(ValueRange(item.low, mask(width)), width) + _ternaries(ValueRange(0, item.high), width)
    out: list[Ternary] = []
    low = item.low
    while low <= item.high:
        size = low & -low if low else 1 << width
        while low + size - 1 > item.high:
            size >>= 1
        out.append(Ternary(low, mask(width) & ~(size - 1)))
        low += size
    return out


def _has_jump(code: ir.Code, label: int) -> bool:
    for item in code:
        if isinstance(item, ir.Jump) and item.label == label:
            return True
        inner: list[ir.Code] = []
        if isinstance(item, ir.Block | ir.Group | ir.Loop):
            inner = [item.body]
        elif isinstance(item, ir.If):
            inner = [item.yes, item.no]
        if any(_has_jump(part, label) for part in inner):
            return True
    return False
