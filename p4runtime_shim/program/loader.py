"""Loads BMv2 JSON as a Program: reads its sections in the order of their dependencies.

Names first (types, headers, stacks), then the stateful objects and calculations that primitives refer to, then parser,
actions and pipelines. Unsupported constructs (externs, unknown primitives) are rejected where they are found,
not skipped.
"""

from __future__ import annotations

import json
from typing import NoReturn

from p4runtime_shim import limits
from p4runtime_shim.errors import InvalidProgram, Unsupported
from p4runtime_shim.program.control_reader import ALGORITHMS, ControlReader
from p4runtime_shim.program.expression_reader import ExpressionReader
from p4runtime_shim.program.json_node import JsonNode
from p4runtime_shim.program.model.expressions import FieldRef, HeaderRef, ValidBit
from p4runtime_shim.program.model.externs import (
    Bits,
    CalcInput,
    Calculation,
    Checksum,
    Counter,
    FieldList,
    Meter,
    Payload,
    Register,
)
from p4runtime_shim.program.model.program import Program
from p4runtime_shim.program.parser_reader import read_deparser, read_parser
from p4runtime_shim.program.symbol_table import SymbolTable

_MAX_CELLS = 1 << 24
_COUNTER_BYTES, _METER_BYTES = 16, 128  # of a cell
_MAX_DIGEST_WORDS = 4096  # of 64 bits, per digest

# core.p4's errors, in the order of BMv2's ErrorCodeMap::Core.
_CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)

# BMv2's names of the metadata that the switch reads or writes.
_STANDARD = (
    "ingress_port",
    "egress_spec",
    "egress_port",
    "instance_type",
    "packet_length",
    "checksum_error",
    "parser_error",
)


def _refuse_extern(root: JsonNode) -> NoReturn:
    """Raise Unsupported with the location of a call, if there is one, since instances have none."""
    instance = next(root.nodes("extern_instances", "extern"))
    kind = str(instance.data.get("type"))
    for action in root.nodes("actions", "action"):
        for primitive in action.nodes("primitives", "primitive"):
            if str(primitive.data.get("op")).startswith(f"_{kind}_"):
                raise Unsupported(
                    f"extern {kind!r} ({instance.where}), called in {action.where}",
                    primitive.source.file,
                    primitive.source.line,
                )
    instance.unsupported(f"extern {kind!r}")


def load_program(text: str) -> Program:
    """Read BMv2 JSON; raises InvalidProgram or Unsupported."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidProgram(f"not JSON: {error}") from None
    if "\\u" in text:
        _refuse_surrogates(data)
    root = JsonNode(data, "the program")
    version = root.node("__meta__").items("version") if root.has("__meta__") else [2, 0]
    if not version or version[0] != 2:
        root.fail(f"JSON format version {version!r} (2.x is known)")
    names = SymbolTable(root)
    if root.items("extern_instances"):
        _refuse_extern(root)
    counters, meters, registers = _state(names, root)
    calculations = tuple(_calculation(names, node) for node in root.nodes("calculations", "calculation"))
    parser = read_parser(names, root)
    controls = ControlReader(names, root)
    for table in controls.tables:
        if table.meter is not None and meters[table.meter].result is None:
            root.fail(f"the meter of table {table.name!r} is not a direct meter")
    return Program(
        name=str(data.get("program") or ""),
        types=tuple(names.types),
        headers=tuple(names.headers),
        stacks=tuple(names.stacks),
        unions=tuple(names.unions),
        errors=_errors(root),
        parser=parser,
        deparser=read_deparser(names, root),
        actions=tuple(controls.actions),
        tables=tuple(controls.tables),
        conditions=tuple(controls.conditions),
        calls=tuple(controls.calls),
        ingress=controls.ingress,
        egress=controls.egress,
        profiles=tuple(controls.profiles),
        counters=counters,
        meters=meters,
        registers=registers,
        calculations=calculations,
        checksums=tuple(_checksum(names, node) for node in root.nodes("checksums", "checksum")),
        field_lists=tuple(_field_list(names, node) for node in root.nodes("field_lists", "field list")),
        digests=tuple(_digest(names, node) for node in root.nodes("learn_lists", "digest")),
        intrinsic=_intrinsic(names, root),
    )


def _refuse_surrogates(data: object) -> None:
    """Reject lone surrogates, which JSON can express but UTF-8 cannot."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidProgram("not JSON: a string contains a lone surrogate") from None


def _errors(root: JsonNode) -> dict[str, int]:
    """Numbers by name: p4c numbers errors in the order of their declaration, so any of them may be 0.

    Errors of core.p4 that the JSON lacks get the numbers after its greatest, as in BMv2 (ErrorCodeMap::add_core).
    """
    errors: dict[str, int] = {}
    for item in root.items("errors"):
        if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str) or type(item[1]) is not int:
            root.fail(f"bad error {item!r}")
        if item[0] in errors:
            root.fail(f"error {item[0]!r} is there twice")
        errors[item[0]] = item[1]
    if len(set(errors.values())) < len(errors):
        root.fail("two errors have one number")
    following = max(errors.values(), default=-1) + 1
    missing = [name for name in _CORE_ERRORS if name not in errors]
    return errors | {name: following + place for place, name in enumerate(missing)}


def _state(names: SymbolTable, root: JsonNode) -> tuple[tuple[Counter, ...], tuple[Meter, ...], tuple[Register, ...]]:
    counters, meters, registers = [], [], []
    for node in root.nodes("counter_arrays", "counter"):
        names.add("counter_array", node.text("name"))
        counters.append(Counter(node.text("name"), 0 if node.flag("is_direct") else _size(node)))
    for node in root.nodes("meter_arrays", "meter"):
        names.add("meter_array", node.text("name"))
        if node.integer("rate_count", 2) != 2:
            node.unsupported(f"meter with {node.integer('rate_count')} rates")
        if node.text("type") not in ("packets", "bytes"):
            node.fail(f"bad meter type {node.text('type')!r}")
        direct = node.flag("is_direct")
        result = names.field(node.raw("result_target"), node) if direct else None
        if isinstance(result, ValidBit):
            node.fail("bad result target")
        binding = node.text("binding") if direct else None
        size = 0 if direct else _size(node)
        meters.append(Meter(node.text("name"), size, node.text("type") == "packets", binding, result))
    for node in root.nodes("register_arrays", "register"):
        names.add("register_array", node.text("name"))
        width = node.integer("bitwidth")
        if not 1 <= width <= limits.MAX_VALUE_BITS:
            node.unsupported(f"register of {width} bits")
        registers.append(Register(node.text("name"), _size(node), width))
    total = sum(item.size for item in counters) * _COUNTER_BYTES + sum(item.size for item in meters) * _METER_BYTES
    total += sum(item.size * max(16, item.width // 8 + 8) for item in registers)
    if total > limits.MAX_STATE_BYTES:
        root.unsupported(f"counters, meters and registers of {total} bytes (at most {limits.MAX_STATE_BYTES})")
    return tuple(counters), tuple(meters), tuple(registers)


def _size(node: JsonNode) -> int:
    size = node.integer("size")
    if not 0 <= size <= _MAX_CELLS:
        node.unsupported(f"array of {size} cells (at most {_MAX_CELLS})")
    return size


def _calculation(names: SymbolTable, node: JsonNode) -> Calculation:
    names.add("calculation", node.text("name"))
    algorithm = node.text("algo")
    if algorithm not in ALGORITHMS:
        node.unsupported(f"hash algorithm {algorithm!r}")
    inputs: list[CalcInput] = []
    for item in node.nodes("input", "input"):
        kind = item.text("type")
        if kind == "field":
            inputs.append(names.any_field(item.raw("value"), node))
        elif kind == "hexstr":
            value, width = node.hex(item.raw("value")), item.integer("bitwidth")
            if not 1 <= width <= limits.MAX_VALUE_BITS:
                node.unsupported(f"constant of {width} bits (at most {limits.MAX_VALUE_BITS})")
            inputs.append(Bits(value & ((1 << width) - 1), width))
        elif kind == "header":
            inputs.append(HeaderRef(names.header(item.raw("value"), node)))
        elif kind == "payload":
            inputs.append(Payload())
        else:
            node.unsupported(f"calculation input of type {kind!r}")
    return Calculation(node.text("name"), algorithm, tuple(inputs))


def _checksum(names: SymbolTable, node: JsonNode) -> Checksum:
    if node.text("type") != "generic":
        node.unsupported(f"checksum of type {node.text('type')!r}")
    target = names.field(node.raw("target"), node)
    if not isinstance(target, FieldRef) or names.width(target) > 64:
        node.unsupported("checksum target that is not a field of at most 64 bits")
    condition = None
    if node.has("if_cond"):
        condition = ExpressionReader(names, node).boolean(node.raw("if_cond"))
    return Checksum(
        name=node.text("name"),
        target=target,
        calculation=names.find("calculation", node.raw("calculation"), node),
        verify=bool(node.data.get("verify", True)),
        update=bool(node.data.get("update", True)),
        condition=condition,
    )


def _field_list(names: SymbolTable, node: JsonNode) -> FieldList:
    fields: list[FieldRef | ValidBit] = []
    for item in node.nodes("elements", "element"):
        if item.text("type") == "field":
            fields.append(names.any_field(item.raw("value"), node))
        elif item.text("type") != "hexstr":
            node.unsupported(f"field list element of type {item.text('type')!r}")
    return FieldList(node.integer("id"), str(node.data.get("name", "")), tuple(fields))


def _digest(names: SymbolTable, node: JsonNode) -> FieldList:
    digest = _field_list(names, node)
    if any(map(names.is_varbit, digest.fields)):
        node.unsupported("digest with a varbit field")
    words = sum((names.width(item) + 63) // 64 for item in digest.fields)
    if words > _MAX_DIGEST_WORDS:
        node.unsupported(f"digest of {words * 64} bits (at most {_MAX_DIGEST_WORDS * 64})")
    return digest


def _intrinsic(names: SymbolTable, root: JsonNode) -> dict[str, FieldRef]:
    """The target's metadata, found directly or through `field_aliases`."""
    found: dict[str, FieldRef] = {}

    def put(name: str, target: object) -> None:
        field = names.field(target, root)
        if isinstance(field, FieldRef):
            if names.width(field) > 64:
                root.unsupported(f"metadata {name!r} wider than 64 bits")
            found[name] = field

    for header in ("standard_metadata", "intrinsic_metadata", "queueing_metadata"):
        if header in names.header_index:
            kind = names.types[names.headers[names.header_index[header]].type]
            for item in kind.fields:
                if item.width <= 64:
                    put(f"{header}.{item.name}", [header, item.name])
    for alias in root.items("field_aliases"):
        if not isinstance(alias, list) or len(alias) != 2 or not isinstance(alias[0], str):
            root.fail(f"bad field alias {alias!r}")
        put(alias[0], alias[1])
    for name in _STANDARD[:5]:
        if f"standard_metadata.{name}" not in found:
            root.unsupported(f"program without standard_metadata.{name} (not v1model)")
    return found
