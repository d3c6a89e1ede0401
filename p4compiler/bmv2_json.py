"""BMv2's JSON of a lowered program."""

from __future__ import annotations

import json
import os
from collections.abc import Collection

from p4compiler import ir, tree
from p4compiler.control_flow import PipelineBuilder
from p4compiler.diagnostics import Diagnostics, Refusal
from p4compiler.elaborate.storage import SCALARS
from p4compiler.elaborate.values import ExternInstance, ValueSetValue
from p4compiler.json_actions import ActionWriter, FieldLists, source_info
from p4compiler.json_expressions import ExpressionWriter, Json, flat_fields, padding
from p4compiler.json_parsers import ParserWriter
from p4compiler.json_tables import TableWriter
from p4compiler.types import BitsType, RecordType, Type, VarbitType, base_of, width_of
from p4compiler.unique_names import UniqueNames
from p4compiler.v1model import LoweredProgram

VERSION = [2, 23]  # of BMv2's format
STANDARD_METADATA = "standard_metadata"


def write(program: LoweredProgram, path: str, diagnostics: Diagnostics) -> str:
    """The JSON of a program that was read from `path`; raises P4Error."""
    try:
        return json.dumps(_Writer(program).run(path), separators=(",", ":"))
    except Refusal as refusal:
        diagnostics.add(refusal.diagnostic)
    except RecursionError:
        diagnostics.error("the program is nested too deeply", None)
    diagnostics.stop_on_errors()
    raise AssertionError("a refusal is an error")


class _Writer:
    def __init__(self, program: LoweredProgram) -> None:
        self._program = program
        self._storage = program.storage
        self._expressions = ExpressionWriter(self._storage.stacks)
        self._lists = FieldLists(program.found.field_lists)
        self._actions = ActionWriter(self._expressions, self._lists, list(program.found.digests))
        self._externs = [item for item in program.found.externs if isinstance(item, ExternInstance)]

    def run(self, path: str) -> Json:
        parser = ParserWriter(self._actions, self._storage)
        start = parser.write(self._program.parser)
        checksums = [self._checksum(item, number) for number, item in enumerate(self._program.checksums)]
        pipelines = self._pipelines()
        meters = self._meters()  # may make a field for a result that nobody reads
        types, headers, numbers = self._headers()
        deparser = self._program.blocks["dep"].declaration
        return {
            "header_types": types,
            "headers": headers,
            "header_stacks": self._stacks(numbers),
            "header_union_types": self._union_types(),
            "header_unions": self._unions(numbers),
            "header_union_stacks": self._union_stacks(),
            "field_lists": self._lists.write(self._expressions),
            "errors": [[name, number] for name, number in self._program.checked.errors.items()],
            "enums": self._enums(),
            "parsers": [{"name": "parser", "id": 0, "init_state": start, "parse_states": parser.states}],
            "parse_vsets": self._value_sets(),
            "deparsers": [
                {
                    "name": "deparser",
                    "id": 0,
                    **source_info(deparser.span, deparser.name),
                    "order": list(self._program.emitted),
                    "primitives": [],
                }
            ],
            "meter_arrays": meters,
            "counter_arrays": self._counters(),
            "register_arrays": self._registers(),
            "calculations": self._actions.calculations,
            "learn_lists": self._learn_lists(),
            "actions": self._actions.actions,
            "pipelines": pipelines,
            "checksums": checksums,
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": self._aliases(),
            "program": os.path.basename(path),
            "__meta__": {"version": VERSION, "compiler": "p4compiler"},
        }

    def _pipelines(self) -> list[Json]:
        out: list[Json] = []
        names = UniqueNames()
        counts = {"tables": 0, "action_profiles": 0, "conditionals": 0}
        tables = TableWriter(self._actions)
        for number, (name, key) in enumerate((("ingress", "ig"), ("egress", "eg"))):
            code = self._program.ingress if key == "ig" else self._program.egress
            tables.profiles = {}
            first, table_nodes, conditions = PipelineBuilder(self._actions, tables, names).build(code)
            parts = {
                "tables": table_nodes,
                "action_profiles": list(tables.profiles.values()),
                "conditionals": conditions,
            }
            for part, nodes in parts.items():
                for node in nodes:
                    node["id"] = counts[part]
                    counts[part] += 1
            block = self._program.blocks[key].declaration
            out.append(
                {"name": name, "id": number, **source_info(block.span, block.name), "init_table": first, **parts}
            )
        return out

    def _checksum(self, item: ir.ChecksumStep, number: int) -> Json:
        return {
            "name": f"cksum_{number - 1}" if number else "cksum",
            "id": number,
            **source_info(item.span),
            "target": self._expressions.place(item.target)["value"],
            "type": "generic",
            "calculation": self._actions.calculation(item.calculation, item.span),
            "verify": item.verifies,
            "update": not item.verifies,
            "if_cond": self._expressions.expression(item.condition),
        }

    # --- headers ---

    def _headers(self) -> tuple[list[Json], list[Json], dict[str, int]]:
        """Types, headers, and the headers' ids."""
        types = [_header_type("scalars_0", 0, self._storage.scalars.items())]
        types.append(_header_type(STANDARD_METADATA, 1, self._program.standard.fields.items()))
        headers = [_header(SCALARS, 0, "scalars_0", True), _header(STANDARD_METADATA, 1, STANDARD_METADATA, True)]
        self._type_names: dict[RecordType, str] = {}
        taken: set[str] = {"scalars_0", STANDARD_METADATA}
        numbers: dict[str, int] = {}
        for name, kind in self._storage.headers.items():
            if kind not in self._type_names:
                label = kind.name
                while label in taken:
                    label += "_"
                taken.add(label)
                self._type_names[kind] = label
                types.append(_header_type(label, len(types), flat_fields(kind)))
            numbers[name] = len(headers)
            headers.append(_header(name, len(headers), self._type_names[kind], False))
        return types, headers, numbers

    def _stacks(self, numbers: dict[str, int]) -> list[Json]:
        out: list[Json] = []
        for number, (name, kind) in enumerate(self._storage.stacks.items()):
            assert isinstance(kind.element, RecordType)
            ids = [numbers[f"{name}[{index}]"] for index in range(kind.size)]
            label = self._type_names[kind.element]
            out.append({"name": name, "id": number, "header_type": label, "size": kind.size, "header_ids": ids})
        return out

    def _union_types(self) -> list[Json]:
        kinds = {kind: None for kind, _ in self._storage.unions.values()}
        out: list[Json] = []
        for number, kind in enumerate(kinds):
            members = [
                [name, self._type_names[item]] for name, item in kind.fields.items() if isinstance(item, RecordType)
            ]
            out.append({"name": kind.name, "id": number, "headers": members})
        return out

    def _unions(self, numbers: dict[str, int]) -> list[Json]:
        return [
            {
                "name": name,
                "id": number,
                "union_type": kind.name,
                "header_ids": [numbers[member] for member in members],
                "pi_omit": True,
            }
            for number, (name, (kind, members)) in enumerate(self._storage.unions.items())
        ]

    def _union_stacks(self) -> list[Json]:
        order = list(self._storage.unions)
        out: list[Json] = []
        for number, (name, (kind, members)) in enumerate(self._storage.union_stacks.items()):
            assert isinstance(kind.element, RecordType)
            ids = [order.index(member) for member in members]
            out.append(
                {
                    "name": name,
                    "id": number,
                    "union_type": kind.element.name,
                    "size": kind.size,
                    "header_union_ids": ids,
                }
            )
        return out

    def _enums(self) -> list[Json]:
        out: list[Json] = []
        for item in self._program.checked.program.declarations:
            if isinstance(item, tree.EnumDeclaration) and item.base is None and not item.span.source.standard:
                entries = [[member.name, number] for number, member in enumerate(item.members)]
                out.append({"name": item.name, "entries": entries})
        return out

    def _aliases(self) -> list[list[object]]:
        out: list[list[object]] = []
        for field in self._program.standard.declaration.fields:
            alias = tree.string_annotation(field.annotations, "alias")
            if alias is not None:
                out.append([alias, [STANDARD_METADATA, field.name]])
        return out

    # --- externs ---

    def _of_kind(self, *kinds: str) -> list[ExternInstance]:
        return [item for item in self._externs if item.kind in kinds]

    def _counters(self) -> list[Json]:
        out: list[Json] = []
        for item in self._of_kind("counter", "direct_counter"):
            common = {"name": item.name, "id": len(out), **source_info(item.span, item.short)}
            if item.kind == "counter":
                out.append({**common, "size": item.number("size"), "is_direct": False})
            elif item.tables:
                out.append({**common, "is_direct": True, "binding": item.tables[0].name})
        return out

    def _meters(self) -> list[Json]:
        out: list[Json] = []
        for item in self._of_kind("meter", "direct_meter"):
            common = {"name": item.name, "id": len(out), **source_info(item.span, item.short)}
            common |= {"is_direct": item.kind == "direct_meter", "rate_count": 2, "type": item.choice("type")}
            if item.kind == "meter":
                out.append({**common, "size": item.number("size")})
            elif item.tables:
                table = item.tables[0]
                target = item.result or self._storage.make(item.types[0], "meter_result", item.span)
                assert isinstance(target, ir.FieldValue)
                result = self._expressions.place(target)["value"]
                out.append({**common, "size": table.size, "binding": table.name, "result_target": result})
        return out

    def _registers(self) -> list[Json]:
        return [
            {
                "name": item.name,
                "id": number,
                **source_info(item.span, item.short),
                "size": item.number("size"),
                "bitwidth": width_of(item.types[0]),
            }
            for number, item in enumerate(self._of_kind("register"))
        ]

    def _learn_lists(self) -> list[Json]:
        out: list[Json] = []
        for number, (name, (_, fields)) in enumerate(self._program.found.digests.items(), 1):
            elements: list[Json] = []
            for field in fields:
                assert isinstance(field, ir.FieldValue)
                elements.append(self._expressions.place(field))
            out.append({"id": number, "name": name, "elements": elements})
        return out

    def _value_sets(self) -> list[Json]:
        out: list[Json] = []
        for number, item in enumerate(self._program.found.value_sets.values()):
            assert isinstance(item, ValueSetValue)
            out.append(
                {
                    "name": item.name,
                    "id": number,
                    **source_info(item.declaration.span, item.declaration.name),
                    "compressed_bitwidth": width_of(item.type),
                    "max_size": item.size,
                }
            )
        return out


def _header(name: str, number: int, kind: str, metadata: bool) -> Json:
    return {"name": name, "id": number, "header_type": kind, "metadata": metadata, "pi_omit": True}


def _header_type(name: str, number: int, fields: Collection[tuple[str, Type]]) -> Json:
    """A header type, padded to whole bytes; what is parsed or emitted has whole bytes already."""
    rows: list[list[object]] = []
    names = UniqueNames(*(field for field, _ in fields))
    longest: int | None = None
    for field, kind in fields:
        base = base_of(kind)
        if isinstance(base, VarbitType):
            rows.append([field, "*"])
            longest = base.width
        else:
            rows.append([field, width_of(base), isinstance(base, BitsType) and base.signed])
    total = sum(row[1] for row in rows if isinstance(row[1], int))
    missing = padding(fields)
    if missing:
        rows.append([names.take("_padding"), missing, False])
    out: Json = {"name": name, "id": number, "fields": rows}
    if longest is not None:
        out["max_length"] = (total + longest + 7) // 8
    return out
