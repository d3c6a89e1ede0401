"""The symbol table of a program being loaded: positions of headers, fields, stacks and objects by name."""

from __future__ import annotations

from dataclasses import replace

from p4runtime_shim import limits
from p4runtime_shim.errors import Unsupported
from p4runtime_shim.program.json_node import JsonNode
from p4runtime_shim.program.model.expressions import FieldRef, HeaderExpr, HeaderRef, ValidBit
from p4runtime_shim.program.model.headers import Field, Header, HeaderType, Stack

MAX_FIELD_BITS = limits.MAX_VALUE_BITS
VALID = "$valid$"


class SymbolTable:
    """All names of a program, and the resolution of references."""

    def __init__(self, root: JsonNode) -> None:
        self.types: list[HeaderType] = []
        self.type_index: dict[str, int] = {}
        self.headers: list[Header] = []
        self.header_index: dict[str, int] = {}
        self.stacks: list[Stack] = []
        self.stack_index: dict[str, int] = {}
        self.unions: list[tuple[int, ...]] = []
        self.union_index: dict[str, int] = {}
        self._union_members: dict[str, dict[str, int]] = {}  # of a union type: their names and positions
        self._union_stacks: dict[str, tuple[str, int]] = {}  # type, and the stack of its first member
        self.objects: dict[str, dict[str, int]] = {}  # kind -> name -> position
        self._load_types(root)
        by_id = self._load_headers(root)
        self._load_stacks(root, by_id)
        self._load_unions(root, by_id)

    def _load_types(self, root: JsonNode) -> None:
        for node in root.nodes("header_types", "header type"):
            fields: list[Field] = []
            offset = 0
            for item in node.items("fields"):
                if not isinstance(item, list) or len(item) < 2 or not isinstance(item[0], str):
                    node.fail(f"bad field {item!r}")
                name, width = item[0], item[1]
                if width == "*":
                    fields.append(Field(name, 0, False, offset))
                    continue
                if type(width) is not int or width < 0:
                    node.fail(f"bad width of field {name!r}")
                if width == 0:
                    node.unsupported(f"field {name!r} of 0 bits (bit<0>)")
                if width > MAX_FIELD_BITS:
                    node.unsupported(f"field {name!r} of {width} bits (at most {MAX_FIELD_BITS})")
                if len(item) > 3 and item[3]:
                    node.unsupported(f"saturating field {name!r}")
                signed = len(item) > 2 and bool(item[2])
                if signed and width < 2:
                    node.fail(f"signed field {name!r} needs at least 2 bits")
                fields.append(Field(name, width, signed, offset))
                offset += width
            self.type_index[node.text("name")] = len(self.types)
            self.types.append(_header_type(node, fields, offset))

    def _refuse_unions(self, root: JsonNode) -> None:
        """Reject unions that p4c lists among headers and stacks, as it does with some."""
        types = {node.text("name") for node in root.nodes("header_union_types", "header union type")}
        for section, what in (("header_stacks", "stack of header unions"), ("headers", "header union")):
            for node in root.nodes(section, what):
                if str(node.data.get("header_type")) in types:
                    raise Unsupported(f"{what} {node.text('name')!r}", node.source.file, node.source.line)

    def _header_type(self, node: JsonNode) -> int:
        name = node.text("header_type")
        if name not in self.type_index:
            node.fail(f"unknown header type {name!r}")
        return self.type_index[name]

    def _load_headers(self, root: JsonNode) -> dict[int, int]:
        """Load the headers; their positions by id."""
        self._refuse_unions(root)
        by_id: dict[int, int] = {}
        for node in root.nodes("headers", "header"):
            kind = self._header_type(node)
            metadata = node.flag("metadata")
            if not metadata and self.types[kind].width % 8:
                node.unsupported(f"header of {self.types[kind].width} bits (not whole bytes)")
            by_id[node.integer("id")] = len(self.headers)
            self.header_index[node.text("name")] = len(self.headers)
            self.headers.append(Header(node.text("name"), kind, metadata))
        bits = sum(self.types[header.type].max_width for header in self.headers)
        if bits > 8 * limits.MAX_HEADERS_BYTES:
            root.unsupported(f"headers and metadata of {bits // 8} bytes (at most {limits.MAX_HEADERS_BYTES})")
        return by_id

    def _load_stacks(self, root: JsonNode, by_id: dict[int, int]) -> None:
        for node in root.nodes("header_stacks", "header stack"):
            elements = [node.lookup(by_id, item, "header id") for item in node.items("header_ids")]
            self.stack_index[node.text("name")] = len(self.stacks)
            self._add_stack(node, node.text("name"), self._header_type(node), elements)

    def _add_stack(
        self, node: JsonNode, name: str, kind: int, elements: list[int], members: tuple[int, ...] = ()
    ) -> None:
        if not elements:
            node.fail("empty stack")
        for index, position in enumerate(elements):
            old = self.headers[position]
            if old.type != kind or old.stack is not None:
                node.fail(f"element {old.name!r} has another type, or is in another stack")
            self.headers[position] = replace(old, stack=len(self.stacks), index=index)
        self.stacks.append(Stack(name, kind, tuple(elements), members))

    def _load_unions(self, root: JsonNode, by_id: dict[int, int]) -> None:
        types: dict[str, list[int]] = {}
        for node in root.nodes("header_union_types", "header union type"):
            pairs = [node.pair(item) for item in node.items("headers")]
            self._union_members[node.text("name")] = {name: place for place, (name, _) in enumerate(pairs)}
            types[node.text("name")] = [node.lookup(self.type_index, kind, "header type") for _, kind in pairs]
        unions: dict[int, int] = {}
        for node in root.nodes("header_unions", "header union"):
            kinds = node.lookup(types, node.raw("union_type"), "header union type")
            headers = tuple(node.lookup(by_id, item, "header id") for item in node.items("header_ids"))
            if not headers:
                node.fail("no headers")
            if [self.headers[header].type for header in headers] != kinds or len(set(headers)) < len(headers):
                node.fail("its headers are not those of its type")
            for header in headers:
                if self.headers[header].union is not None or self.headers[header].metadata:
                    node.fail(f"header {self.headers[header].name!r} is in two unions, or metadata")
                self.headers[header] = replace(self.headers[header], union=len(self.unions))
            unions[node.integer("id")] = self.union_index[node.text("name")] = len(self.unions)
            self.unions.append(headers)
        for node in root.nodes("header_union_stacks", "stack of header unions"):
            kinds = node.lookup(types, node.raw("union_type"), "header union type")
            elements = [self.unions[node.lookup(unions, item, "union id")] for item in node.items("header_union_ids")]
            if not elements or any([self.headers[item].type for item in headers] != kinds for headers in elements):
                node.fail("no unions, or unions of another type")
            self._union_stacks[node.text("name")] = str(node.raw("union_type")), len(self.stacks)
            members = tuple(range(len(self.stacks), len(self.stacks) + len(kinds)))
            for place, kind in enumerate(kinds):
                self._add_stack(node, node.text("name"), kind, [headers[place] for headers in elements], members)

    def add(self, kind: str, name: str) -> int:
        """Register the next object of a kind; its position."""
        table = self.objects.setdefault(kind, {})
        table[name] = len(table)
        return table[name]

    def find(self, kind: str, name: object, node: JsonNode) -> int:
        """Position of a named object."""
        table = self.objects.get(kind, {})
        if not isinstance(name, str) or name not in table:
            node.fail(f"unknown {kind} {name!r}")
        return table[name]

    def header(self, name: object, node: JsonNode) -> int:
        """Position of a header."""
        if not isinstance(name, str) or name not in self.header_index:
            node.fail(f"unknown header {name!r}")
        return self.header_index[name]

    def stack(self, name: object, node: JsonNode) -> int:
        """Position of a header stack."""
        if not isinstance(name, str) or name not in self.stack_index:
            node.fail(f"unknown header stack {name!r}")
        return self.stack_index[name]

    def union(self, name: object, node: JsonNode) -> tuple[HeaderExpr, ...]:
        """The members of a header union."""
        return tuple(HeaderRef(header) for header in self.unions[node.lookup(self.union_index, name, "header union")])

    def union_stack(self, name: object, node: JsonNode) -> int:
        """Position of the stack of the first member of a stack of header unions."""
        return node.lookup(self._union_stacks, name, "stack of header unions")[1]

    def union_stack_member(self, name: object, member: object, node: JsonNode) -> int:
        """Position of the stack of a member, by its name, of a stack of header unions."""
        kind, first = node.lookup(self._union_stacks, name, "stack of header unions")
        return first + node.lookup(self._union_members[kind], member, "member")

    def type_of(self, header: HeaderExpr) -> HeaderType:
        """Type of a header expression."""
        if isinstance(header, HeaderRef):
            return self.types[self.headers[header.header].type]
        return self.types[self.stacks[header.stack].type]

    def member(self, header: HeaderExpr, field: str, node: JsonNode) -> FieldRef | ValidBit:
        """A field of a header by name, that is a number."""
        found = self.any_member(header, field, node)
        if self.is_varbit(found):
            node.unsupported(f"varbit field {field!r} where a number is needed")
        return found

    def any_member(self, header: HeaderExpr, field: str, node: JsonNode) -> FieldRef | ValidBit:
        """A field of a header by name, which may be a varbit one."""
        if field == VALID:
            return ValidBit(header)
        for position, item in enumerate(self.type_of(header).fields):
            if item.name == field:
                return FieldRef(header, position)
        return node.fail(f"unknown field {field!r} of header type {self.type_of(header).name!r}")

    def is_varbit(self, ref: FieldRef | ValidBit) -> bool:
        """Whether a field is a varbit one."""
        return isinstance(ref, FieldRef) and self.type_of(ref.header).varbit == ref.field

    def any_field(self, value: object, node: JsonNode) -> FieldRef | ValidBit:
        """A [header, field] pair, which may be a varbit field."""
        header, field = node.pair(value)
        return self.any_member(HeaderRef(self.header(header, node)), field, node)

    def field(self, value: object, node: JsonNode) -> FieldRef | ValidBit:
        """A [header, field] pair that is a number."""
        header, field = node.pair(value)
        return self.member(HeaderRef(self.header(header, node)), field, node)

    def width(self, ref: FieldRef | ValidBit) -> int:
        """Width of a field in bits."""
        return 1 if isinstance(ref, ValidBit) else self.type_of(ref.header).fields[ref.field].width


def _header_type(node: JsonNode, fields: list[Field], width: int) -> HeaderType:
    """A header type, with the length of its varbit field, which has no width of its own."""
    places = [position for position, field in enumerate(fields) if field.width == 0]
    if not places:
        return HeaderType(node.text("name"), tuple(fields), width)
    place = places[0]
    if len(places) > 1:
        node.unsupported(f"second varbit field {fields[places[1]].name!r}")
    if node.has("length_exp"):
        node.unsupported(f"varbit field {fields[place].name!r} with a length of the header type (length_exp)")
    most = node.integer("max_length") - width // 8
    if not 1 <= most <= limits.MAX_HEADERS_BYTES:
        node.fail(f"bad max_length for varbit field {fields[place].name!r}")
    fields[place] = replace(fields[place], max_bytes=most)
    return HeaderType(node.text("name"), tuple(fields), width, place)
