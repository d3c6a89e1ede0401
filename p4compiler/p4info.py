"""P4Info of a lowered program: what the control plane can name, in protobuf's text format.

Names, ids, aliases and the order of objects are those of p4c.
"""

from __future__ import annotations

from collections.abc import Iterator

from p4compiler import tree
from p4compiler.diagnostics import Diagnostics, Refusal
from p4compiler.elaborate.tables import LoweredAction, LoweredTable
from p4compiler.elaborate.values import (
    ActionValue,
    BlockInstance,
    ExternInstance,
    TableValue,
    ValueSetValue,
)
from p4compiler.p4info_text import (
    Identifiers,
    ProtobufTextWriter,
    field_ids,
    split,
    write_annotations,
    write_documentation,
)
from p4compiler.p4info_types import TypeInfo, control_width
from p4compiler.types import NewType, RecordType, Type, base_of, width_of
from p4compiler.v1model import LoweredProgram

_HEADER = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"
_UNITS = {"packets": "PACKETS", "bytes": "BYTES", "packets_and_bytes": "BOTH"}
_EXTERN_KINDS = {"action_selector": "action_profile"}
_NOT_IN_PREAMBLE = ("max_group_size", "selector_size_semantics", "max_member_weight", "hidden", "optional")
_PKG_FIELDS = ("name", "version", "organization", "contact", "url", "arch")


def write(program: LoweredProgram, diagnostics: Diagnostics) -> str:
    """The P4Info of a program; raises P4Error."""
    try:
        return _HEADER + _Writer(program).run()
    except Refusal as refusal:
        diagnostics.add(refusal.diagnostic)
    diagnostics.stop_on_errors()
    raise AssertionError("a refusal is an error")


class _Writer:
    def __init__(self, program: LoweredProgram) -> None:
        self._program = program
        self._out = ProtobufTextWriter()
        self._ids = Identifiers()
        self._types = TypeInfo(program.checked)
        self._types.is_needed = program.found.calls_extern_function
        declared = [item for key in ("ig", "eg") for item in _declared(program.blocks[key])]
        lowered = [item for item in program.found.tables.values() if isinstance(item, LoweredTable)]
        order = {item.name: place for place, item in enumerate(declared) if isinstance(item, TableValue)}
        visible = [item for item in lowered if not _is_hidden(item.declaration.annotations)]
        self._tables = sorted(visible, key=lambda table: order.get(table.name, len(order)))
        self._actions = self._ordered_actions()
        self._externs = self._visible_externs()
        self._value_sets = [item for item in program.found.value_sets.values() if isinstance(item, ValueSetValue)]
        self._digests = {
            name: kind
            for name, (kind, _) in program.found.digests.items()
            if not isinstance(kind, RecordType) or kind.name == name
        }

    def run(self) -> str:
        self._assign_ids()
        self._write_package()
        for table in self._tables:
            with self._out.message("tables"):
                self._write_table(table)
        for action in self._actions:
            with self._out.message("actions"):
                self._write_action(action)
        for instance in self._externs.get("action_profile", []):
            with self._out.message("action_profiles"):
                self._write_profile(instance)
        for kind in ("counter", "direct_counter", "meter", "direct_meter"):
            for instance in self._externs.get(kind, []):
                with self._out.message(f"{kind}s"):
                    self._write_counter(kind, instance)
        for header in self._controller_headers():
            with self._out.message("controller_packet_metadata"):
                self._write_controller_header(header)
        for item in self._value_sets:
            with self._out.message("value_sets"):
                self._write_value_set(item)
        for instance in self._externs.get("register", []):
            with self._out.message("registers"):
                self._write_register(instance)
        for name, digested in self._digests.items():
            with self._out.message("digests"):
                self._write_preamble("digest", name, ())
                with self._out.message("type_spec"):
                    self._types.write_spec(self._out, digested)
        self._types.write(self._out)
        return self._out.text()

    # --- which objects ---

    def _ordered_actions(self) -> list[ActionValue]:
        """For each pipeline the actions beside the controls that it uses first, then its own as they are declared."""
        found, users = self._program.found.actions, self._program.found.action_users
        blocks = [self._program.blocks[key] for key in ("ig", "eg")]
        local = [
            [item for item in _declared(block) if isinstance(item, ActionValue) and found.get(item.name) is item]
            for block in blocks
        ]
        known = {item.name for items in local for item in items}
        out: list[ActionValue] = []
        for block, items in zip(blocks, local, strict=True):
            out += [item for name, item in found.items() if name not in known and users[name] == block.name]
            out += [item for item in items if item not in out]
        out += [item for item in found.values() if item not in out]
        return [item for item in out if not _is_hidden(item.declaration.annotations)]

    def _visible_externs(self) -> dict[str, list[ExternInstance]]:
        out: dict[str, list[ExternInstance]] = {}
        for item in self._program.found.externs:
            assert isinstance(item, ExternInstance)
            kind = _EXTERN_KINDS.get(item.kind, item.kind)
            if _is_hidden(item.annotations) or (kind.startswith("direct_") and not item.tables):
                continue
            out.setdefault(kind, []).append(item)
        order = {table.name: place for place, table in enumerate(self._tables)}
        for kind, items in out.items():
            if kind.startswith("direct_"):
                items.sort(key=lambda item: order.get(item.tables[0].name, len(order)))
        return out

    def _controller_headers(self) -> list[tree.StructDeclaration]:
        return [
            item
            for item in self._program.checked.program.declarations
            if isinstance(item, tree.StructDeclaration)
            and tree.annotation(item.annotations, "controller_header") is not None
        ]

    def _assign_ids(self) -> None:
        add = self._ids.add
        for table in self._tables:
            add("table", table.name, table.declaration.annotations)
        for action in self._actions:
            add("action", action.name, action.declaration.annotations)
        for kind in ("action_profile", "counter", "direct_counter", "meter", "direct_meter", "register"):
            for instance in self._externs.get(kind, []):
                add(kind, instance.name, instance.annotations)
        for name in self._digests:
            add("digest", name, ())
        for item in self._value_sets:
            add("value_set", item.name, item.declaration.annotations)
        for header in self._controller_headers():
            add("controller_header", header.name, header.annotations)
        self._ids.assign()

    # --- parts of messages ---

    def _write_preamble(self, kind: str, name: str, annotations: tree.Annotations, label: str | None = None) -> None:
        with self._out.message("preamble"):
            self._out.number("id", self._ids.id(kind, name))
            self._out.string("name", label or name)
            self._out.string("alias", label or self._ids.alias(name))
            write_annotations(self._out, annotations, _NOT_IN_PREAMBLE)
            write_documentation(self._out, annotations)

    def _write_width(self, kind: Type) -> None:
        width = control_width(kind)
        if width:
            self._out.number("bitwidth", width)

    def _write_type_name(self, kind: Type, field: str = "type_name") -> None:
        self._types.use(kind)
        if isinstance(kind, NewType):
            with self._out.message(field):
                self._out.string("name", kind.name)

    def _write_package(self) -> None:
        main = next(item for item in self._program.checked.program.declarations if item.name == "main")
        fields = {"arch": "v1model"}
        platform: dict[str, int] = {}
        for note in main.annotations:
            for tokens in split(note.body):
                if len(tokens) < 3 or tokens[1].text != "=":
                    continue
                if note.name == "pkginfo" and tokens[0].text in _PKG_FIELDS:
                    fields[tokens[0].text] = "".join(tree.unquoted(token.text) for token in tokens[2:])
                elif note.name == "platform_property":
                    platform[tokens[0].text] = tree.number_in(tokens[2:], note.span)
        with self._out.message("pkg_info"):
            for name in ("name", "version"):
                if name in fields:
                    self._out.string(name, fields[name])
            write_documentation(self._out, main.annotations)
            write_annotations(self._out, main.annotations, ("pkginfo", "platform_property"))
            for name in ("arch", "organization", "contact", "url"):
                if name in fields:
                    self._out.string(name, fields[name])
            if platform:
                with self._out.message("platform_properties"):
                    for name, value in platform.items():
                        self._out.number(name, value)

    # --- tables and actions ---

    def _write_table(self, table: LoweredTable) -> None:
        out = self._out
        self._types.is_needed = True
        self._write_preamble("table", table.name, table.declaration.annotations)
        keys = [key for key in table.keys if key.match_kind != "selector"]
        for key, number in zip(keys, field_ids([key.annotations for key in keys]), strict=True):
            with out.message("match_fields"):
                out.number("id", number)
                out.string("name", key.name)
                write_annotations(out, key.annotations)
                self._write_width(key.value.type)
                out.word("match_type", key.match_kind.upper())
                write_documentation(out, key.annotations)
                self._write_type_name(key.value.type)
        for action in table.actions:
            if not _is_hidden(action.action.declaration.annotations):
                with out.message("action_refs"):
                    self._write_action_reference(action)
        if table.default is not None:
            self._write_default(table)
        if table.implementation is not None:
            out.number("implementation_id", self._ids.id("action_profile", table.implementation.name))
        for instance in (table.counters, table.meters):
            if instance is not None:
                out.number("direct_resource_ids", self._ids.id(instance.kind, instance.name))
        out.number("size", table.size)
        if table.has_timeout:
            out.word("idle_timeout_behavior", "NOTIFY_CONTROL")
        if table.entries_are_const:
            out.flag("is_const_table")
        if table.entries:
            out.flag("has_initial_entries")

    def _write_action_reference(self, action: LoweredAction) -> None:
        self._out.number("id", self._ids.id("action", action.name))
        write_annotations(self._out, action.annotations)
        for name, scope in (("tableonly", "TABLE_ONLY"), ("defaultonly", "DEFAULT_ONLY")):
            if tree.annotation(action.annotations, name) is not None:
                self._out.word("scope", scope)

    def _write_default(self, table: LoweredTable) -> None:
        assert table.default is not None
        action, data = table.default
        number = self._ids.id("action", action.name)
        if table.default_is_const:
            self._out.number("const_default_action_id", number)
        with self._out.message("initial_default_action"):
            self._out.number("action_id", number)
            ids = field_ids([parameter.annotations for parameter in action.parameters])
            for identifier, value, kind in zip(ids, data, action.types, strict=True):
                with self._out.message("arguments"):
                    self._out.number("param_id", identifier)
                    self._out.data("value", value, width_of(kind))

    def _write_action(self, action: ActionValue) -> None:
        out = self._out
        self._write_preamble("action", action.name, action.declaration.annotations)
        in_table = any(item.action is action for table in self._tables for item in table.actions)
        parameters = [item for item in action.declaration.parameters if not item.direction and in_table]
        ids = field_ids([item.annotations for item in parameters])
        for identifier, parameter in zip(ids, parameters, strict=True):
            kind = self._program.checked.declared[parameter]
            with out.message("params"):
                out.number("id", identifier)
                out.string("name", tree.string_annotation(parameter.annotations, "name") or parameter.name)
                write_annotations(out, parameter.annotations)
                self._write_width(kind)
                write_documentation(out, parameter.annotations)
                self._write_type_name(kind)

    # --- externs ---

    def _write_profile(self, instance: ExternInstance) -> None:
        out = self._out
        self._write_preamble("action_profile", instance.name, instance.annotations)
        for table in instance.tables:
            if table in self._tables:
                out.number("table_ids", self._ids.id("table", table.name))
        is_selector = instance.kind == "action_selector"
        if is_selector:
            out.flag("with_selector")
        out.number("size", instance.number("size"))
        if not is_selector:
            return
        size = tree.number_annotation(instance.annotations, "max_group_size")
        if size is not None:
            out.number("max_group_size", size)
        semantics = tree.string_annotation(instance.annotations, "selector_size_semantics")
        if semantics == "sum_of_members":
            with out.message("sum_of_members"):
                weight = tree.number_annotation(instance.annotations, "max_member_weight")
                if weight is not None:
                    out.number("max_member_weight", weight)
        elif semantics is not None:
            with out.message("sum_of_weights"):
                pass

    def _write_counter(self, kind: str, instance: ExternInstance) -> None:
        out = self._out
        self._write_preamble(kind, instance.name, instance.annotations)
        with out.message("spec"):
            out.word("unit", _UNITS[instance.choice("type")])
        if kind.startswith("direct_"):
            out.number("direct_table_id", self._ids.id("table", instance.tables[0].name))
        else:
            out.number("size", instance.number("size"))
            if instance.types:
                self._write_type_name(instance.types[0], "index_type_name")

    def _write_register(self, instance: ExternInstance) -> None:
        self._write_preamble("register", instance.name, instance.annotations)
        with self._out.message("type_spec"):
            self._types.write_spec(self._out, instance.types[0])
        self._out.number("size", instance.number("size"))
        if len(instance.types) > 1:
            self._write_type_name(instance.types[1], "index_type_name")

    # --- packets and parsers ---

    def _write_controller_header(self, header: tree.StructDeclaration) -> None:
        out = self._out
        label = tree.string_annotation(header.annotations, "controller_header") or header.name
        self._write_preamble("controller_header", header.name, header.annotations, label)
        fields = list(self._header_fields(header))
        ids = field_ids([field.annotations for _, field, _ in fields])
        for identifier, (name, field, kind) in zip(ids, fields, strict=True):
            with out.message("metadata"):
                out.number("id", identifier)
                out.string("name", name)
                write_annotations(out, field.annotations)
                self._write_width(kind)
                self._write_type_name(kind)

    def _header_fields(
        self, header: tree.StructDeclaration, prefix: str = ""
    ) -> Iterator[tuple[str, tree.FieldDeclaration, Type]]:
        """The visible fields of a header, of which structs are flattened."""
        for field in header.fields:
            if _is_hidden(field.annotations):
                continue
            name = prefix + (tree.string_annotation(field.annotations, "name") or field.name)
            kind = self._program.checked.declared[field]
            base = base_of(kind)
            if isinstance(base, RecordType):
                yield from self._header_fields(base.declaration, f"{name}.")
            else:
                yield name, field, kind

    def _write_value_set(self, item: ValueSetValue) -> None:
        out = self._out
        self._write_preamble("value_set", item.name, item.declaration.annotations)
        base = base_of(item.type)
        if isinstance(base, RecordType):
            fields = base.declaration.fields
            for identifier, field in zip(field_ids([field.annotations for field in fields]), fields, strict=True):
                note = tree.annotation(field.annotations, "match")
                with out.message("match"):
                    out.number("id", identifier)
                    out.string("name", tree.string_annotation(field.annotations, "name") or field.name)
                    write_annotations(out, field.annotations, ("match",))
                    out.number("bitwidth", width_of(base.fields[field.name]))
                    out.word("match_type", note.body[0].text.upper() if note is not None and note.body else "EXACT")
                    write_documentation(out, field.annotations)
        else:
            with out.message("match"):
                out.number("id", 1)
                out.number("bitwidth", width_of(base))
                out.word("match_type", "EXACT")
        out.number("size", item.size)


def _is_hidden(annotations: tree.Annotations) -> bool:
    return tree.annotation(annotations, "hidden") is not None


def _declared(instance: BlockInstance) -> list[ActionValue | TableValue]:
    """The actions and tables of an instance and of those in it, each where its declaration stands."""
    out: list[ActionValue | TableValue] = []
    for item in instance.declaration.locals:
        value = instance.frame.values.get(item)
        if isinstance(value, BlockInstance):
            out += _declared(value)
        elif isinstance(value, ActionValue | TableValue):
            out.append(value)
    for inner in instance.unnamed.values():
        out += _declared(inner)
    return out
