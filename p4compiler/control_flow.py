"""The control flow of a pipeline: lowered code as BMv2's tables and conditions, each with what follows it.

BMv2 has nothing else, so bare statements become hidden actions of hidden tables. The graph is built from its end: what
follows is known when a node is made, so a jump is only another node to follow.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from p4compiler import ir
from p4compiler.diagnostics import Refusal
from p4compiler.elaborate.statements import EXIT
from p4compiler.json_actions import ActionWriter, source_info
from p4compiler.json_expressions import Json
from p4compiler.unique_names import UniqueNames

if TYPE_CHECKING:
    from p4compiler.json_tables import TableWriter

Node = str | None  # the name of a table or condition; None ends the pipeline


class PipelineBuilder:
    """Builds the nodes of one pipeline."""

    def __init__(self, actions: ActionWriter, tables: TableWriter, names: UniqueNames) -> None:
        self._actions = actions
        self._tables = tables
        self._names = names
        self._labels: dict[int, Node] = {EXIT: None}
        self._applied: dict[str, tuple[dict[str, Node], Node]] = {}
        self._table_nodes: dict[str, Json] = {}
        self._conditions: dict[str, Json] = {}

    def build(self, code: ir.Code) -> tuple[Node, list[Json], list[Json]]:
        """The first node, and all tables and conditions in the order in which a packet meets them."""
        first = self._build(code, None)
        order = self._order(first)
        tables = [self._table_nodes[name] for name in order if name in self._table_nodes]
        return first, tables, [self._conditions[name] for name in order if name in self._conditions]

    def _order(self, first: Node) -> list[str]:
        waiting: list[Node] = [first]
        order: dict[str, None] = {}
        while waiting:
            name = waiting.pop()
            if name is None or name in order:
                continue
            order[name] = None
            table = self._table_nodes.get(name)
            if table is not None:
                following = [*table["next_tables"].values(), table["base_default_next"]]
            else:
                following = [self._conditions[name]["true_next"], self._conditions[name]["false_next"]]
            waiting += reversed(following)
        return list(order)

    # --- from the end ---

    def _build(self, code: ir.Code, following: Node) -> Node:
        waiting: list[ir.Statement] = []  # bare statements before `following`, the last first
        for item in reversed(code):
            if isinstance(item, ir.JumpStep):
                waiting = []  # what comes after a jump is never run
                following = self._labels[item.label]
            elif isinstance(item, ir.AssignStep | ir.PrimitiveStep) or _is_loop(item):
                if isinstance(item, ir.PrimitiveStep) and item.op == "exit":
                    waiting, following = [], None
                waiting.append(item)
            else:
                following = self._hidden(waiting, following)
                waiting = []
                following = self._node(item, following)
        return self._hidden(waiting, following)

    def _node(self, item: ir.Statement, following: Node) -> Node:
        if isinstance(item, ir.BlockStep):
            self._labels[item.label] = following
            return self._build(item.body, following)
        if isinstance(item, ir.IfStep):
            return self._condition(item, following)
        if isinstance(item, ir.ApplyStep):
            return self._apply(item, following)
        if isinstance(item, ir.GroupStep):
            return self._hidden([item], following) if _does_something(item.body) else following
        assert not isinstance(item, ir.JumpStep)
        raise Refusal("this is not possible in a control", item.span)

    def _hidden(self, waiting: list[ir.Statement], following: Node) -> Node:
        """A hidden table whose one action runs the statements."""
        if not waiting:
            return following
        code = tuple(reversed(waiting))
        span = ir.position(code)
        name = self._names.take(_name_of(code))
        number = self._actions.action(name, [], code)
        table = self._names.take(f"tbl_{name}")
        self._table_nodes[table] = {
            "name": table,
            **source_info(span),
            "key": [],
            "match_type": "exact",
            "type": "simple",
            "max_size": 1024,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": [number],
            "actions": [name],
            "base_default_next": following,
            "next_tables": {name: following},
            "default_entry": {"action_id": number, "action_const": True, "action_data": [], "action_entry_const": True},
        }
        return table

    def _condition(self, item: ir.IfStep, following: Node) -> Node:
        yes, no = self._build(item.yes, following), self._build(item.no, following)
        if yes == no:
            return yes
        name = self._names.take("node")
        self._conditions[name] = {
            "name": name,
            **source_info(item.span),
            "expression": self._actions.expressions.expression(item.condition),
            "true_next": yes,
            "false_next": no,
        }
        return name

    def _apply(self, item: ir.ApplyStep, following: Node) -> Node:
        table = item.table
        base: Node = following
        nexts: dict[str, Node]
        if item.hit is not None or item.miss is not None:
            hit = self._build(item.hit or (), following)
            miss = self._build(item.miss or (), following)
            nexts = {"__HIT__": hit, "__MISS__": miss}
        else:
            built: dict[int, Node] = {}
            cases: dict[str, Node] = {}
            for name, code in (item.cases or {}).items():
                if id(code) not in built:
                    built[id(code)] = self._build(code, following)
                cases[name] = built[id(code)]
            base = cases.get("", following)
            nexts = {action.name: cases.get(action.name, base) for action in table.actions}
        if self._applied.setdefault(table.name, (nexts, base)) != (nexts, base):
            text = f"table {table.declaration.name!r} is applied in two places with different code after them"
            raise Refusal(f"{text}; BMv2 has each table once", item.span)
        if table.name not in self._table_nodes:
            self._names.add(table.name)
            self._table_nodes[table.name] = self._tables.write(table, nexts, base)
        return table.name


def _is_loop(item: ir.Statement) -> bool:
    """Whether it is a loop, or a block that is only for a loop: it becomes a part of one action."""
    if isinstance(item, ir.BlockStep):
        return any(_is_loop(inner) for inner in item.body) and all(
            _is_loop(inner) or isinstance(inner, ir.AssignStep | ir.PrimitiveStep | ir.JumpStep) for inner in item.body
        )
    return isinstance(item, ir.LoopStep)


def _does_something(code: ir.Code) -> bool:
    return any(not isinstance(item, ir.BlockStep) or _does_something(item.body) for item in code)


def _name_of(code: ir.Code) -> str:
    """The action's name if it is a called action, else the file and line of the first statement."""
    first = code[0]
    if isinstance(first, ir.GroupStep):
        return first.name.replace(".", "_")
    span = ir.position(code)
    if span is None:
        return "act"
    return f"{os.path.splitext(os.path.basename(span.source.name))[0]}{span.line}"
