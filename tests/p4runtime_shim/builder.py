"""BMv2 JSON made by hand, for tests that need a program of a certain shape (random widths, random expressions).

`Builder` starts as a v1model program that parses nothing and sends every packet to port 1; tests add header types,
parser states, actions and tables to it and take `text()`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

_STANDARD = [
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("parser_error", 32),
    ("priority", 3),
    ("_padding", 3),
]
_ALIASES = {
    "queueing_metadata": ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"),
    "intrinsic_metadata": (
        "ingress_global_timestamp",
        "egress_global_timestamp",
        "mcast_grp",
        "egress_rid",
        "priority",
    ),
}
ERRORS = [
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
]


def const(value: int) -> Json:
    """A hexstr."""
    return {"type": "hexstr", "value": hex(value)}


def field(header: str, name: str) -> Json:
    """A field reference."""
    return {"type": "field", "value": [header, name]}


def header(name: str) -> Json:
    """A header reference."""
    return {"type": "header", "value": name}


def expression(op: str, left: Json | None, right: Json | None, **more: Json) -> Json:
    """An operation."""
    return {"type": "expression", "value": {"op": op, "left": left, "right": right, **more}}


def wrapped(inner: Json) -> Json:
    """An expression as p4c wraps it where a parameter is expected."""
    return {"type": "expression", "value": inner}


def call(op: str, *parameters: Json, line: int = 0) -> Json:
    """A primitive."""
    return {
        "op": op,
        "parameters": list(parameters),
        "source_info": {"filename": "test.p4", "line": line, "column": 1, "source_fragment": op},
    }


class Builder:
    """A program under construction."""

    def __init__(self) -> None:
        self.data: Json = {
            "program": "test.p4",
            "__meta__": {"version": [2, 23]},
            "header_types": [],
            "headers": [],
            "header_stacks": [],
            "header_union_types": [],
            "header_unions": [],
            "header_union_stacks": [],
            "field_lists": [],
            "errors": [[name, code] for code, name in enumerate(ERRORS)],
            "enums": [],
            "parsers": [{"name": "parser", "id": 0, "init_state": None, "parse_states": []}],
            "parse_vsets": [],
            "deparsers": [{"name": "deparser", "id": 0, "order": [], "primitives": []}],
            "meter_arrays": [],
            "counter_arrays": [],
            "register_arrays": [],
            "calculations": [],
            "learn_lists": [],
            "actions": [],
            "pipelines": [
                self._pipeline("ingress", 0),
                self._pipeline("egress", 1),
            ],
            "checksums": [],
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": [
                [f"{group}.{name}", ["standard_metadata", name]] for group, names in _ALIASES.items() for name in names
            ],
        }
        self.header_type("standard_metadata", _STANDARD)
        self.header("standard_metadata", "standard_metadata", metadata=True)

    @staticmethod
    def _pipeline(name: str, number: int) -> Json:
        return {
            "name": name,
            "id": number,
            "init_table": None,
            "tables": [],
            "action_profiles": [],
            "conditionals": [],
        }

    def text(self) -> str:
        """The JSON."""
        return json.dumps(self.data)

    def header_type(self, name: str, fields: Sequence[tuple[str, int] | tuple[str, int, bool]]) -> str:
        """A header type; fields are (name, bits) or (name, bits, signed)."""
        items = [[item[0], item[1], item[2] if len(item) > 2 else False] for item in fields]
        self.data["header_types"].append({"name": name, "id": len(self.data["header_types"]), "fields": items})
        return name

    def header(self, name: str, kind: str, *, metadata: bool = False) -> int:
        """A header instance; its id."""
        number = len(self.data["headers"])
        self.data["headers"].append(
            {"name": name, "id": number, "header_type": kind, "metadata": metadata, "pi_omit": True}
        )
        return number

    def stack(self, name: str, kind: str, depth: int) -> str:
        """A header stack with its elements."""
        ids = [self.header(f"{name}[{i}]", kind) for i in range(depth)]
        self.data["header_stacks"].append(
            {"name": name, "id": len(self.data["header_stacks"]), "header_type": kind, "header_ids": ids}
        )
        return name

    def emit(self, *names: str) -> None:
        """Headers that the deparser emits."""
        self.data["deparsers"][0]["order"].extend(names)

    def state(
        self,
        name: str,
        ops: Sequence[Json],
        *,
        key: Sequence[Json] = (),
        transitions: Sequence[tuple[str | None, str | None, str | None]] = (),
        default: str | None = None,
    ) -> None:
        """A parser state; transitions are (value, mask, next). The first state added is the start."""
        parser = self.data["parsers"][0]
        cases = [
            {"type": "hexstr", "value": value, "mask": mask, "next_state": following}
            for value, mask, following in transitions
        ]
        cases.append({"type": "default", "value": None, "mask": None, "next_state": default})
        parser["parse_states"].append(
            {
                "name": name,
                "id": len(parser["parse_states"]),
                "parser_ops": list(ops),
                "transition_key": list(key),
                "transitions": cases,
            }
        )
        if parser["init_state"] is None:
            parser["init_state"] = name

    def action(self, name: str, primitives: Sequence[Json], params: Sequence[tuple[str, int]] = ()) -> int:
        """An action; its id."""
        number = len(self.data["actions"])
        self.data["actions"].append(
            {
                "name": name,
                "id": number,
                "runtime_data": [{"name": param, "bitwidth": width} for param, width in params],
                "primitives": list(primitives),
            }
        )
        return number

    def run(self, action: int, *, pipeline: str = "ingress") -> None:
        """Run an action unconditionally, after what is there."""
        self.table(f"tbl_{pipeline}_{action}", [], [action], default=action, const=True, pipeline=pipeline)

    def table(
        self,
        name: str,
        keys: Sequence[tuple[str, Json]],
        actions: Sequence[int],
        *,
        default: int | None = None,
        const: bool = False,
        pipeline: str = "ingress",
        size: int = 1024,
        counters: bool = False,
        **more: Any,
    ) -> None:
        """A table after the last one; keys are (match kind, field)."""
        target = next(item for item in self.data["pipelines"] if item["name"] == pipeline)
        kinds = {kind for kind, _ in keys}
        match_type = next(
            (kind for kind in ("range", "ternary", "lpm", "exact") if kind in kinds),
            "ternary" if "optional" in kinds else "exact",
        )
        if "optional" in kinds and match_type in ("lpm", "exact"):
            match_type = "ternary"
        names = [self.data["actions"][action]["name"] for action in actions]
        table = {
            "name": name,
            "id": len(target["tables"]) + 1000 * target["id"],
            "key": [
                {"match_type": kind, "name": ".".join(ref["value"]), "target": ref["value"], "mask": None}
                for kind, ref in keys
            ],
            "match_type": match_type,
            "type": "simple",
            "max_size": size,
            "with_counters": counters,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": list(actions),
            "actions": names,
            "base_default_next": None,
            "next_tables": dict.fromkeys(names),
            **more,
        }
        if default is not None:
            table["default_entry"] = {
                "action_id": default,
                "action_const": const,
                "action_data": [],
                "action_entry_const": const,
            }
        if target["tables"]:
            last = target["tables"][-1]
            last["base_default_next"] = name
            last["next_tables"] = dict.fromkeys(last["next_tables"], name)
        else:
            target["init_table"] = name
        target["tables"].append(table)


def extract(name: str) -> Json:
    """A parser operation."""
    return {"op": "extract", "parameters": [{"type": "regular", "value": name}]}


def send_to(port: int) -> Json:
    """A primitive that sends the packet to a port."""
    return call("assign", field("standard_metadata", "egress_spec"), const(port))
