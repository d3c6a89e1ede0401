"""What a packet costs at most, in steps of some nanoseconds each, and where a program can go round in circles.

The engine gives every verb a number of steps (SW_MAX_WORK). A pass through the pipelines is paid for as a whole, by its
`weight`; a parser state on a cycle and a piece of an action that is jumped back to pay at each visit (tables that lead
back to themselves are refused by the loader). A program without loops pays nothing while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from p4runtime_shim.codegen.bounds import input_bytes
from p4runtime_shim.codegen.cycles import on_cycles
from p4runtime_shim.codegen.sizes import limbs
from p4runtime_shim.program.model.actions import Action, HeaderArg, ObjectArg, StackArg
from p4runtime_shim.program.model.control import NodeRef, Pipeline
from p4runtime_shim.program.model.expressions import Binary, Const, FieldRef, HeaderEqual, Local
from p4runtime_shim.program.model.externs import CalcInput, Payload
from p4runtime_shim.program.model.parser import Extract, ExtractNext
from p4runtime_shim.program.model.program import Program

_PAYLOAD = 8000  # steps of a hash over the longest frame
_LOOKUP = 64
_DIVISION = 64
_HASH = 32


class Costs:
    """Steps of the parts of a program, and which parts lie on cycles."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.hashes = [self.hash(item.inputs) for item in program.calculations]
        self.actions = [1 + sum(self.tree(item) for item in action.primitives) for action in program.actions]
        states = program.parser.states
        self.states = [1 + sum(self.tree(op) for op in state.ops) + 2 * len(state.cases) for state in states]
        graph = {
            position: {
                target for target in (*(case.next_state for case in state.cases), state.default) if target is not None
            }
            for position, state in enumerate(states)
        }
        self.state_cycles = on_cycles(graph)
        checksums = sum(self.hashes[item.calculation] for item in program.checksums)
        headers = sum(program.types[program.headers[header].type].width // 64 + 1 for header in program.deparser)
        nodes = sum(self.node(ref) for part in (program.ingress, program.egress) for ref in _nodes(part))
        self.weight = sum(self.states) + nodes + checksums + 2 * headers

    def node(self, ref: NodeRef) -> int:
        """Steps of a node of a pipeline, the action that it runs included."""
        kind, position = ref
        if kind == "condition":
            return 1 + self.tree(self.program.conditions[position].expr)
        if kind == "call":
            return 1 + self.actions[self.program.calls[position].action]
        table = self.program.tables[position]
        actions = [*table.actions, *([table.default.action] if table.default else [])]
        select = 0
        if table.profile is not None:
            select = self.hash(self.program.profiles[table.profile].inputs)
        keys = sum(limbs(key.width) for key in table.keys)
        return (_LOOKUP + 4 * keys if keys else 1) + select + max((self.actions[item] for item in actions), default=0)

    def loops(self, action: Action) -> dict[int, int]:
        """Where an action's jumps lead back to, and the steps from there to the last of these jumps."""
        found: dict[int, int] = {}
        for index, primitive in enumerate(action.primitives):
            target = primitive.args[-1] if primitive.op in ("_jump", "_jump_if_zero") else None
            if isinstance(target, Const) and target.value <= index:
                span = action.primitives[target.value : index + 1]
                found[target.value] = max(found.get(target.value, 0), sum(self.tree(item) for item in span))
        return found

    def hash(self, inputs: Iterable[CalcInput]) -> int:
        """Steps of a calculation."""
        inputs = tuple(inputs)
        payload = _PAYLOAD if any(isinstance(item, Payload) for item in inputs) else 0
        return _HASH + len(inputs) + input_bytes(self.program, inputs) // 4 + payload

    def tree(self, root: object) -> int:
        """Steps of a primitive, an operation of the parser, or an expression."""
        steps, divisions, widest = 0, 0, 1
        waiting = [root]
        while waiting:
            item = waiting.pop()
            if isinstance(item, tuple):
                waiting.extend(item)
                continue
            if not hasattr(item, "__dataclass_fields__"):
                continue
            words = self._words(item)
            steps += 1 + words
            widest = max(widest, words)
            divisions += isinstance(item, Binary) and item.op in ("/", "%")
            if isinstance(item, ObjectArg) and item.kind == "calculation":
                steps += self.hashes[item.index]
            waiting.extend(getattr(item, name) for name in item.__dataclass_fields__)
        return steps + divisions * (_DIVISION + 60 * widest * widest)

    def _words(self, item: object) -> int:
        program = self.program
        if isinstance(item, FieldRef):
            return limbs(program.field(item).width)
        if isinstance(item, Const):
            return limbs(item.value.bit_length())
        if isinstance(item, HeaderArg):
            return program.type_of(item.header).width // 64
        if isinstance(item, HeaderEqual):
            return program.type_of(item.left).width // 64
        if isinstance(item, Extract):
            return program.types[program.headers[item.header].type].width // 64
        if isinstance(item, ExtractNext):
            return program.types[program.stacks[item.stack].type].width // 64
        if isinstance(item, StackArg):
            stack = program.stacks[item.stack]
            return len(stack.headers) * (1 + program.types[stack.type].width // 64)
        return 32 if isinstance(item, Local) else 0


def _nodes(part: Pipeline) -> list[NodeRef]:
    kinds = (("table", part.tables), ("condition", part.conditions), ("call", part.calls))
    return [(kind, position) for kind, positions in kinds for position in positions]
