"""The worst-case cost of a packet, in steps of some nanoseconds each, and the loops of a program.

The engine gives each verb a budget of steps (SW_MAX_STEPS). A pass through the pipelines costs `pass_steps` as a whole;
parser states on a cycle, and parts of actions that are jumped back to, cost extra at each visit (the loader rejects
loops of tables). Programs without loops pay nothing at run time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from p4runtime_shim.codegen.c_integers import limbs
from p4runtime_shim.codegen.program_limits import input_bytes
from p4runtime_shim.program.model.actions import Action, HeaderArg, ObjectArg, StackArg
from p4runtime_shim.program.model.control_flow import ControlFlow, NodeRef
from p4runtime_shim.program.model.expressions import Binary, Const, FieldRef, HeaderEqual, Local
from p4runtime_shim.program.model.externs import CalcInput, Payload
from p4runtime_shim.program.model.parser import Extract, ExtractNext, SelectCase, ValueSetCase
from p4runtime_shim.program.model.program import Program

N = TypeVar("N", bound=Hashable)

_PAYLOAD = 8000  # steps of a hash over the longest frame
_LOOKUP = 64
_DIVISION = 64
_HASH = 32


class Costs:
    """Steps of each part of a program, and the parts that lie on cycles."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.hashes = [self.hash(item.inputs) for item in program.calculations]
        self.actions = [1 + sum(self.tree(item) for item in action.primitives) for action in program.actions]
        states = program.parser.states
        self.states = [
            1 + sum(self.tree(op) for op in state.ops) + sum(map(self.case, state.cases)) for state in states
        ]
        graph = {
            position: {
                target for target in (*(case.next_state for case in state.cases), state.default) if target is not None
            }
            for position, state in enumerate(states)
        }
        self.state_cycles = on_cycles(graph)
        checksums = sum(self.hashes[item.calculation] for item in program.checksums)
        headers = sum(program.types[program.headers[header].type].max_width // 64 + 1 for header in program.deparser)
        nodes = sum(self.node(ref) for part in (program.ingress, program.egress) for ref in _nodes(part))
        self.pass_steps = sum(self.states) + nodes + checksums + 2 * headers

    def case(self, case: SelectCase | ValueSetCase) -> int:
        """Steps of a select case."""
        if isinstance(case, SelectCase):
            return 2
        return _LOOKUP + 4 * sum(map(limbs, self.program.parser.value_sets[case.value_set].widths or ()))

    def node(self, ref: NodeRef) -> int:
        """Steps of a pipeline node, including its action."""
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
        """Targets of an action's backward jumps, and the steps from each target to the last jump back to it."""
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
        """Steps of a primitive, a parser operation, or an expression."""
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
            return limbs(program.field(item).width + 8 * program.field(item).max_bytes)
        if isinstance(item, Const):
            return limbs(item.value.bit_length())
        if isinstance(item, HeaderArg):
            return program.type_of(item.header).max_width // 64
        if isinstance(item, HeaderEqual):
            return program.type_of(item.left).max_width // 64
        if isinstance(item, Extract):
            return program.types[program.headers[item.header].type].max_width // 64
        if isinstance(item, ExtractNext):
            return program.types[program.stacks[item.stack].type].max_width // 64
        if isinstance(item, StackArg):
            stacks = [program.stacks[stack] for stack in program.stacks[item.stack].members or (item.stack,)]
            return sum(len(stack.headers) * (1 + program.types[stack.type].max_width // 64) for stack in stacks)
        return 32 if isinstance(item, Local) else 0


def _nodes(part: ControlFlow) -> list[NodeRef]:
    kinds = (("table", part.tables), ("condition", part.conditions), ("call", part.calls))
    return [(kind, position) for kind, positions in kinds for position in positions]


def on_cycles(graph: Mapping[N, Iterable[N]]) -> frozenset[N]:
    """The nodes that can be reached from themselves; every successor must be a node too.

    Tarjan's strongly connected components, without recursion.
    """
    numbers: dict[N, int] = {}
    lowest: dict[N, int] = {}
    path: list[N] = []
    on_path: set[N] = set()
    found = {node for node, successors in graph.items() if node in successors}
    for root in graph:
        if root in numbers:
            continue
        work = [(root, iter(graph[root]))]
        while work:
            node, rest = work[-1]
            if node not in numbers:
                numbers[node] = lowest[node] = len(numbers)
                path.append(node)
                on_path.add(node)
            below = next((item for item in rest if item not in numbers or item in on_path), None)
            if below is not None and below not in numbers:
                work.append((below, iter(graph[below])))
            elif below is not None:
                lowest[node] = min(lowest[node], numbers[below])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == numbers[node]:
                    component = path[path.index(node) :]
                    del path[-len(component) :]
                    on_path.difference_update(component)
                    if len(component) > 1:
                        found.update(component)
    return frozenset(found)
