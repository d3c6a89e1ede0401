"""Reads the control sections of the JSON: actions, tables, conditions, action profiles, and their order."""

from __future__ import annotations

from typing import Any

from p4runtime_shim.program.expression_reader import ExpressionReader
from p4runtime_shim.program.json_node import JsonNode
from p4runtime_shim.program.model.actions import Action, Param
from p4runtime_shim.program.model.control_flow import (
    ActionProfile,
    Call,
    Condition,
    ControlFlow,
    FixedCall,
    FixedEntry,
    Key,
    NodeRef,
    Table,
)
from p4runtime_shim.program.model.expressions import FieldRef, ValidBit
from p4runtime_shim.program.primitive_reader import check_locals, read_primitive
from p4runtime_shim.program.symbol_table import VALID, SymbolTable

ALGORITHMS = frozenset(
    {"crc16", "crc16_custom", "crc32", "crc32_custom", "crcCCITT", "csum16", "cksum16", "identity", "xor16"}
)
_KINDS = ("exact", "lpm", "ternary", "range", "optional", "valid")


class ControlReader:
    """Reads the actions and both pipelines; references are positions in the resulting lists."""

    def __init__(self, names: SymbolTable, root: JsonNode) -> None:
        self.names = names
        self.actions: list[Action] = []
        self.action_by_id: dict[int, int] = {}
        self.action_by_name: dict[str, int] = {}
        self.tables: list[Table] = []
        self.conditions: list[Condition] = []
        self.calls: list[Call] = []
        self.profiles: list[ActionProfile] = []
        self.profile_index: dict[str, int] = {}
        for node in root.nodes("actions", "action"):
            self._action(node)
        pipelines = {node.text("name"): node for node in root.nodes("pipelines", "pipeline")}
        for name in pipelines:
            if name not in ("ingress", "egress"):
                pipelines[name].unsupported(f"pipeline {name!r}")
        self.ingress = self._pipeline("ingress", pipelines.get("ingress"))
        self.egress = self._pipeline("egress", pipelines.get("egress"))

    def _action(self, node: JsonNode) -> None:
        params = tuple(
            Param(param.text("name"), param.integer("bitwidth")) for param in node.nodes("runtime_data", "parameter")
        )
        for param in params:
            if not 1 <= param.width <= 2048:
                node.unsupported(f"parameter {param.name!r} of {param.width} bits")
        count = len(node.items("primitives"))
        primitives = []
        for child in node.nodes("primitives", node.where):
            child.where = node.where
            primitive = read_primitive(self.names, child, count)
            check_locals(child, primitive, len(params))
            primitives.append(primitive)
        self.action_by_id[node.integer("id")] = len(self.actions)
        self.action_by_name.setdefault(node.text("name"), len(self.actions))
        self.actions.append(Action(node.text("name"), params, tuple(primitives), node.source))

    def _pipeline(self, name: str, node: JsonNode | None) -> ControlFlow:
        if node is None:
            return ControlFlow(name, None, (), (), ())
        for profile in node.nodes("action_profiles", "action profile"):
            self._profile(profile)
        tables = list(node.nodes("tables", "table"))
        conditions = list(node.nodes("conditionals", "condition"))
        calls = list(node.nodes("action_calls", "action call"))
        refs: dict[str, NodeRef] = {}
        for kind, nodes, base in (
            ("table", tables, len(self.tables)),
            ("condition", conditions, len(self.conditions)),
            ("call", calls, len(self.calls)),
        ):
            for position, item in enumerate(nodes):
                refs[item.text("name")] = (kind, base + position)
        first = (len(self.tables), len(self.conditions), len(self.calls))
        for item in tables:
            self.tables.append(self._table(item, refs))
        for item in conditions:
            expr = ExpressionReader(self.names, item).boolean(item.raw("expression"))
            yes = _ref(item, item.data.get("true_next"), refs)
            no = _ref(item, item.data.get("false_next"), refs)
            self.conditions.append(Condition(item.text("name"), expr, yes, no, item.source))
        for item in calls:
            action = self._action_id(item, item.integer("action_id"))
            if self.actions[action].params:
                item.fail("an action with parameters called directly")
            self.calls.append(Call(item.text("name"), action, _ref(item, item.data.get("next_node"), refs)))
        self._refuse_cycles(node, refs)
        return ControlFlow(
            name,
            _ref(node, node.data.get("init_table"), refs),
            tuple(range(first[0], len(self.tables))),
            tuple(range(first[1], len(self.conditions))),
            tuple(range(first[2], len(self.calls))),
        )

    def _refuse_cycles(self, pipeline: JsonNode, refs: dict[str, NodeRef]) -> None:
        """Reject loops: a packet would never leave one, and p4c generates none."""
        names = {ref: name for name, ref in refs.items()}
        done: set[NodeRef] = set()
        for start in names:
            path = {start: iter(self._next(start))}  # in order; for each node the successors still to visit
            while path and start not in done:
                here = next(reversed(path))
                following = next(path[here], None)
                if following is None:
                    done.add(here)
                    del path[here]
                elif following in path:
                    pipeline.fail(f"{following[0]} {names[following]!r} leads back to itself")
                elif following not in done:
                    path[following] = iter(self._next(following))

    def _next(self, ref: NodeRef) -> list[NodeRef]:
        kind, position = ref
        following: list[NodeRef | None]
        if kind == "condition":
            following = [self.conditions[position].yes, self.conditions[position].no]
        elif kind == "call":
            following = [self.calls[position].next]
        else:
            table = self.tables[position]
            following = [table.next_hit, table.next_miss, table.base_next, *(ref for _, ref in table.next_by_action)]
        return [item for item in following if item is not None]

    def _profile(self, node: JsonNode) -> None:
        algorithm: str | None = None
        inputs: list[FieldRef | ValidBit] = []
        if node.has("selector"):
            selector = node.node("selector")
            algorithm = selector.text("algo")
            if algorithm not in ALGORITHMS:
                node.unsupported(f"hash algorithm {algorithm!r}")
            for item in selector.nodes("input", "selector input"):
                if item.text("type") != "field":
                    node.unsupported(f"selector input of type {item.text('type')!r}")
                inputs.append(self.names.field(item.raw("value"), node))
        self.profile_index[node.text("name")] = len(self.profiles)
        self.profiles.append(ActionProfile(node.text("name"), node.integer("max_size", 1024), algorithm, tuple(inputs)))

    def _action_id(self, node: JsonNode, action: Any) -> int:
        return node.lookup(self.action_by_id, action, "action id")

    def _table(self, node: JsonNode, refs: dict[str, NodeRef]) -> Table:
        kind = node.text("match_type")
        if kind not in ("exact", "lpm", "ternary", "range"):
            node.unsupported(f"match type {kind!r}")
        keys = tuple(self._key(node, item) for item in node.nodes("key", f"{node.where} key"))
        if sum(key.kind == "lpm" for key in keys) > 1:
            node.unsupported("more than one lpm key")
        if node.has("action_ids"):
            actions = [self._action_id(node, item) for item in node.items("action_ids")]
        else:
            actions = []
            for item in node.items("actions"):
                actions.append(node.lookup(self.action_by_name, item, "action"))
        next_nodes = node.node("next_tables").data
        by_hit = "__HIT__" in next_nodes or "__MISS__" in next_nodes
        by_action = []
        for action in actions:
            name = self.actions[action].name
            if not by_hit and name not in next_nodes:
                node.fail(f"no next node for action {name!r}")
            by_action.append((action, _ref(node, next_nodes.get(name), refs)))
        default, default_const = self._default(node, actions)
        meter = None
        if node.has("direct_meters"):
            meter = self.names.find("meter_array", node.raw("direct_meters"), node)
        return Table(
            name=node.text("name"),
            keys=keys,
            kind=kind,
            profile=self._table_profile(node),
            size=max(1, node.integer("max_size", 1024)),
            counters=node.flag("with_counters"),
            timeout=node.flag("support_timeout"),
            meter=meter,
            actions=tuple(actions),
            next_by_action=tuple(by_action),
            next_hit=_ref(node, next_nodes.get("__HIT__"), refs),
            next_miss=_ref(node, next_nodes.get("__MISS__"), refs),
            by_hit=by_hit,
            default=default,
            default_const=default_const,
            entries=tuple(self._entry(item, keys) for item in node.nodes("entries", f"{node.where} entry")),
            entries_const="entries" in node.data,
            base_next=_ref(node, node.data.get("base_default_next"), refs),
            source=node.source,
        )

    def _table_profile(self, node: JsonNode) -> int | None:
        kind = node.text("type")
        if kind == "simple":
            return None
        if kind not in ("indirect", "indirect_ws"):
            node.unsupported(f"table type {kind!r}")
        if not node.has("action_profile"):
            self._inline_profile(node)
            return self.profile_index[node.text("act_prof_name")]
        name = node.text("action_profile")
        position = node.lookup(self.profile_index, name, "action profile")
        if kind == "indirect_ws" and self.profiles[position].algorithm is None:
            node.fail(f"action profile {name!r} has no selector")
        return position

    def _inline_profile(self, node: JsonNode) -> None:
        """The old form, in which the table describes its own profile."""
        data = {"name": node.text("act_prof_name"), "selector": node.data.get("selector")}
        self._profile(node.child(data, node.where))

    def _key(self, table: JsonNode, node: JsonNode) -> Key:
        kind = node.text("match_type")
        if kind not in _KINDS:
            node.unsupported(f"match kind {kind!r}")
        target = node.raw("target")
        source: FieldRef | ValidBit
        if kind == "valid":
            name = target[0] if isinstance(target, list) and target else target
            source = self.names.field([name, VALID], node)
            label = str(name)
        else:
            expr = ExpressionReader(self.names, node).data(
                target if isinstance(target, dict) else {"type": "field", "value": target}
            )
            if not isinstance(expr, FieldRef | ValidBit):
                node.unsupported("key that is not a field")
            source = expr
            label = str(target) if isinstance(target, dict) else ".".join(node.pair(target))
        mask = node.hex(node.raw("mask")) if node.has("mask") else None
        width = self.names.width(source)
        if mask is not None:
            mask &= (1 << width) - 1
        return Key(str(node.data.get("name") or label), kind, source, width, mask)

    def _call(self, node: JsonNode) -> FixedCall:
        action = self._action_id(node, node.integer("action_id"))
        params = self.actions[action].params
        data = node.items("action_data")
        if len(data) != len(params):
            node.fail(f"{len(data)} values for the {len(params)} parameters of {self.actions[action].name!r}")
        args = tuple(node.hex(value) & ((1 << param.width) - 1) for value, param in zip(data, params, strict=True))
        return FixedCall(action, args)

    def _default(self, node: JsonNode, actions: list[int]) -> tuple[FixedCall | None, bool]:
        if not node.has("default_entry"):
            return None, False
        entry = node.node("default_entry")
        call = self._call(entry)
        return call, entry.flag("action_const") or entry.flag("action_entry_const")

    def _entry(self, node: JsonNode, keys: tuple[Key, ...]) -> FixedEntry:
        parts = list(node.nodes("match_key", "match key"))
        if len(parts) != len(keys):
            node.fail(f"{len(parts)} match fields for {len(keys)} keys")
        match = tuple(_fixed_match(part, key) for part, key in zip(parts, keys, strict=True))
        return FixedEntry(match, self._call(node.node("action_entry")), node.integer("priority", 0))


def _ref(node: JsonNode, name: Any, refs: dict[str, NodeRef]) -> NodeRef | None:
    return None if name is None else node.lookup(refs, name, "next node")


def _fixed_match(node: JsonNode, key: Key) -> tuple[int, int]:
    """(value, mask | prefix length | high bound), by the key's kind; for optional, the mask is 0 or all ones."""
    full = (1 << key.width) - 1
    kind = node.text("match_type")
    if kind == "valid":
        return int(bool(node.raw("key"))), full
    if kind == "range":
        return node.hex(node.raw("start")), node.hex(node.raw("end"))
    value = node.hex(node.raw("key"))
    if kind == "exact":
        return value & full, full
    if kind == "lpm":
        return value & full, node.integer("prefix_length")
    if kind in ("ternary", "optional"):
        mask = node.hex(node.raw("mask")) & full if node.has("mask") else full
        return value & mask, mask
    return node.unsupported(f"match kind {kind!r} of a const entry")
