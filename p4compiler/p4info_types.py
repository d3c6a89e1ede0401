"""Types in P4Info: what the values of digests, registers, keys and parameters are."""

from __future__ import annotations

from p4compiler import tree
from p4compiler.check.result import Checked
from p4compiler.json_expressions import flat_fields
from p4compiler.p4info_text import ProtobufTextWriter, split, write_annotations
from p4compiler.types import (
    BOOL,
    ERROR,
    BitsType,
    EnumType,
    NewType,
    RecordType,
    StackType,
    TupleType,
    Type,
    VarbitType,
    base_of,
    width_of,
)

_RECORDS = {"struct": "structs", "header": "headers", "header_union": "header_unions"}
_SINGLE = {"struct": "struct", "header": "header", "header_union": "header_union"}


class TypeInfo:
    """The named types that objects use, and their description at the end of a P4Info."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._named: dict[str, dict[str, Type]] = {}
        self._errors = False
        self.is_needed = False  # p4c writes the message for a table or an extern function already, if an empty one

    def use(self, kind: Type) -> None:
        """Have a type described, with those in it."""
        self.is_needed = True
        if isinstance(kind, NewType):
            self._add("new_types", kind.name, kind)
            if _translation(kind) is None:
                self.use(base_of(kind))
        elif isinstance(kind, EnumType):
            self._add("serializable_enums" if kind.base is not None else "enums", kind.name, kind)
        elif kind == ERROR:
            self._errors = True
        elif isinstance(kind, RecordType):
            if self._add(_RECORDS[kind.kind], kind.name, kind):
                for item in kind.fields.values():
                    self.use(item)
        elif isinstance(kind, StackType):
            self.use(kind.element)
        elif isinstance(kind, TupleType):
            for item in kind.items:
                self.use(item)

    def _add(self, group: str, name: str, kind: Type) -> bool:
        names = self._named.setdefault(group, {})
        is_new = name not in names
        names.setdefault(name, kind)
        return is_new

    # --- a type where it is used ---

    def write_spec(self, out: ProtobufTextWriter, kind: Type) -> None:
        """The content of a P4DataTypeSpec."""
        self.use(kind)
        if isinstance(kind, NewType | RecordType | EnumType):
            if isinstance(kind, RecordType):
                word = _SINGLE[kind.kind]
            else:
                word = (
                    "new_type"
                    if isinstance(kind, NewType)
                    else "serializable_enum"
                    if kind.base is not None
                    else "enum"
                )
            with out.message(word):
                out.string("name", kind.name)
        elif isinstance(kind, BitsType | VarbitType):
            with out.message("bitstring"):
                _write_bits(out, kind)
        elif kind in (BOOL, ERROR):
            with out.message("bool" if kind == BOOL else "error"):
                pass
        elif isinstance(kind, TupleType):
            with out.message("tuple"):
                for item in kind.items:
                    with out.message("members"):
                        self.write_spec(out, item)
        elif isinstance(kind, StackType) and isinstance(kind.element, RecordType):
            word = kind.element.kind
            with out.message(f"{word}_stack"):
                with out.message(word):
                    out.string("name", kind.element.name)
                out.number("size", kind.size)

    # --- descriptions ---

    def write(self, out: ProtobufTextWriter) -> None:
        """All named types that were used; nothing if no object has a type."""
        if not self.is_needed:
            return
        with out.message("type_info"):
            for group, writer in (
                ("structs", self._write_struct),
                ("headers", self._write_header),
                ("header_unions", self._write_union),
                ("enums", _write_enum),
                ("errors", None),
                ("serializable_enums", self._write_serializable_enum),
                ("new_types", self._write_new),
            ):
                if writer is None:
                    self._write_errors(out)
                    continue
                for name, kind in sorted(self._named.get(group, {}).items()):
                    with out.message(group):
                        out.string("key", name)
                        with out.message("value"):
                            writer(out, kind)

    def _write_errors(self, out: ProtobufTextWriter) -> None:
        if self._errors:
            with out.message("error"):
                for name in self._checked.declared_errors:
                    out.string("members", name)

    def _write_struct(self, out: ProtobufTextWriter, kind: Type) -> None:
        assert isinstance(kind, RecordType)
        for name, item in kind.fields.items():
            with out.message("members"):
                out.string("name", name)
                with out.message("type_spec"):
                    self.write_spec(out, item)

    def _write_header(self, out: ProtobufTextWriter, kind: Type) -> None:
        assert isinstance(kind, RecordType)
        for name, item in flat_fields(kind):
            with out.message("members"):
                out.string("name", name)
                with out.message("type_spec"):
                    base = base_of(item)
                    _write_bits(out, base if isinstance(base, BitsType | VarbitType) else BitsType(width_of(base)))

    def _write_union(self, out: ProtobufTextWriter, kind: Type) -> None:
        assert isinstance(kind, RecordType)
        for name, item in kind.fields.items():
            assert isinstance(item, RecordType)
            with out.message("members"):
                out.string("name", name)
                with out.message("header"):
                    out.string("name", item.name)

    def _write_serializable_enum(self, out: ProtobufTextWriter, kind: Type) -> None:
        assert isinstance(kind, EnumType)
        assert kind.base is not None
        with out.message("underlying_type"):
            out.number("bitwidth", kind.base.width)
        for member in kind.declaration.members:
            assert member.value is not None
            value = int(self._checked.constants[member.value]) & ((1 << kind.base.width) - 1)
            with out.message("members"):
                out.string("name", member.name)
                out.data("value", value, kind.base.width)
                write_annotations(out, member.annotations)
        write_annotations(out, kind.declaration.annotations)

    def _write_new(self, out: ProtobufTextWriter, kind: Type) -> None:
        assert isinstance(kind, NewType)
        translation = _translation(kind)
        if translation is None:
            with out.message("original_type"):
                self.write_spec(out, base_of(kind))
        else:
            uri, width = translation
            with out.message("translated_type"):
                out.string("uri", uri)
                if width is None:
                    with out.message("sdn_string"):
                        pass
                else:
                    out.number("sdn_bitwidth", width)
        write_annotations(out, kind.declaration.annotations, ("p4runtime_translation",))


def _write_bits(out: ProtobufTextWriter, kind: BitsType | VarbitType) -> None:
    if isinstance(kind, VarbitType):
        with out.message("varbit"):
            out.number("max_bitwidth", kind.width)
        return
    with out.message("int" if kind.signed else "bit"):
        out.number("bitwidth", kind.width)


def _write_enum(out: ProtobufTextWriter, kind: Type) -> None:
    assert isinstance(kind, EnumType)
    for member in kind.declaration.members:
        with out.message("members"):
            out.string("name", member.name)
            write_annotations(out, member.annotations)
    write_annotations(out, kind.declaration.annotations)


def _translation(kind: NewType) -> tuple[str, int | None] | None:
    """The URI and the width (None for a string) of ``@p4runtime_translation(uri, type)``."""
    note = tree.annotation(kind.declaration.annotations, "p4runtime_translation")
    if note is None:
        return None
    parts = list(split(note.body))
    if len(parts) != 2 or not all(parts):
        return None
    uri = "".join(tree.unquoted(token.text) for token in parts[0])
    words = [token.text for token in parts[1]]
    if words[0] == "string":
        return uri, None
    if words[0] == "bit":
        return uri, tree.number_in(parts[1][2:3], note.span)
    return uri, tree.number_in(parts[1], note.span)


def control_width(kind: Type) -> int:
    """The width that the control plane sees: of a translated type its own; 0 for strings and errors."""
    if isinstance(kind, NewType):
        translation = _translation(kind)
        if translation is not None:
            return translation[1] or 0
    base = base_of(kind)
    if base == ERROR or (isinstance(base, EnumType) and base.base is None):
        return 0
    return width_of(base)
