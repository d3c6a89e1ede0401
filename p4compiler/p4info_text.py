"""Protobuf's text format, and annotations and identifiers as P4Info has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from p4compiler import lexer, tree
from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.sources import SourceSpan

_EXPRESSIONS = frozenset({"deprecated", "field_list", "length", "match", "noWarn", "synchronous"})
_OWN_FIELDS = frozenset({"name", "id", "brief", "description"})  # annotations that are fields of their own


class ProtobufTextWriter:
    """Writes messages, line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def text(self) -> str:
        """All that was written."""
        return "".join(f"{line}\n" for line in self._lines)

    def _line(self, text: str) -> None:
        self._lines.append(f"{'  ' * self._depth}{text}")

    def number(self, name: str, value: int) -> None:
        """A number."""
        self._line(f"{name}: {value}")

    def flag(self, name: str) -> None:
        """A field that is true."""
        self._line(f"{name}: true")

    def word(self, name: str, value: str) -> None:
        """A value of an enum."""
        self._line(f"{name}: {value}")

    def string(self, name: str, value: str) -> None:
        """A string."""
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        self._line(f'{name}: "{escaped}"')

    def data(self, name: str, value: int, width: int) -> None:
        """Bytes: a number of a width in bits, the most significant byte first."""
        raw = value.to_bytes(max(1, (width + 7) // 8), "big")
        self._line(f'{name}: "{"".join(f"{chr(92)}{byte:03o}" for byte in raw)}"')

    @contextmanager
    def message(self, name: str) -> Iterator[None]:
        """A message in the message."""
        self._line(f"{name} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self._line("}")


# --- annotations ---


def write_annotations(out: ProtobufTextWriter, annotations: tree.Annotations, also_own: Iterable[str] = ()) -> None:
    """All annotations but those that are fields of their own."""
    skipped = _OWN_FIELDS | set(also_own)
    for item in annotations:
        if item.name not in skipped and not item.structured:
            out.string("annotations", _annotation_text(item))
    for item in annotations:
        if item.structured and item.name not in skipped:
            _write_structured(out, item)


def write_documentation(out: ProtobufTextWriter, annotations: tree.Annotations) -> None:
    """The brief and the full description."""
    brief = tree.string_annotation(annotations, "brief")
    description = tree.string_annotation(annotations, "description")
    if brief is None and description is None:
        return
    with out.message("doc"):
        if brief is not None:
            out.string("brief", brief)
        if description is not None:
            out.string("description", description)


def _annotation_text(item: tree.Annotation) -> str:
    """An annotation as p4c writes it: it knows some as expressions, and of the others no more than their tokens."""
    if not item.body:
        return f"@{item.name}"
    if item.name in _EXPRESSIONS:
        return f"@{item.name}({', '.join(''.join(token.text for token in part) for part in split(item.body))})"
    return f"@{item.name}({' '.join(token.text for token in item.body)})"


def _write_structured(out: ProtobufTextWriter, item: tree.Annotation) -> None:
    values = list(split(item.body))
    with out.message("structured_annotations"):
        out.string("name", item.name)
        if values and len(values[0]) > 1 and values[0][1].text == "=":
            with out.message("kv_pair_list"):
                for tokens in values:
                    with out.message("kv_pairs"):
                        out.string("key", tokens[0].text)
                        with out.message("value"):
                            _write_value(out, tokens[2:])
        elif values:
            with out.message("expression_list"):
                for tokens in values:
                    with out.message("expressions"):
                        _write_value(out, tokens)
        else:
            with out.message("expression_list"):
                pass


def _write_value(out: ProtobufTextWriter, tokens: Sequence[Token]) -> None:
    first = tokens[0] if tokens else None
    if first is None:
        return
    if first.kind == lexer.STRING:
        out.string("string_value", "".join(tree.unquoted(token.text) for token in tokens))
    elif first.text in ("true", "false"):
        out.word("bool_value", first.text)
    else:
        sign = -1 if first.text == "-" else 1
        out.number("int64_value", sign * tree.number_in(tokens[-1:], first.span))


def split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The tokens between commas."""
    part: list[Token] = []
    for token in tokens:
        if token.text == ",":
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def field_ids(items: Sequence[tree.Annotations]) -> list[int]:
    """The ids of the fields of a message: those of @id, and for the others the free ones from 1."""
    given = [tree.number_annotation(item, "id") for item in items]
    taken: set[int] = set()
    for item, number in zip(items, given, strict=True):
        if number in taken:
            raise _duplicate(item, number)
        taken |= {number} if number is not None else set()
    out: list[int] = []
    following = 1
    for number in given:
        if number is None:
            while following in taken:
                following += 1
            number = following
            taken.add(number)
        else:
            following += 1
        out.append(number)
    return out


# --- identifiers ---

_PREFIXES = {
    "action": 0x01,
    "table": 0x02,
    "value_set": 0x03,
    "controller_header": 0x04,
    "action_profile": 0x11,
    "counter": 0x12,
    "direct_counter": 0x13,
    "meter": 0x14,
    "direct_meter": 0x15,
    "register": 0x16,
    "digest": 0x17,
}


class Identifiers:
    """The ids and aliases of all objects, as p4c gives them, since controllers depend on them.

    An id is the kind's prefix and 24 bits of a hash of the name (Jenkins' one-at-a-time), or the next free one. An
    alias is the shortest end of the name that no other object's name ends in.
    """

    def __init__(self) -> None:
        self._names: dict[str, dict[str, int | None]] = {}
        self._ends: dict[tuple[str, ...], int] = {}
        self._given: set[int] = set()

    def add(self, kind: str, name: str, annotations: tree.Annotations) -> None:
        """An object; @id gives its id."""
        names = self._names.setdefault(kind, {})
        if name not in names:
            number = tree.number_annotation(annotations, "id")
            names[name] = None if number is None else self._with_prefix(kind, number, annotations)

    def _with_prefix(self, kind: str, number: int, annotations: tree.Annotations) -> int:
        prefix = _PREFIXES[kind] << 24
        if not 0 < number < 1 << 32 or number >> 24 not in (0, _PREFIXES[kind]):
            text = f"the id of this {kind} is from 1 to {0xFFFFFF:#x}, perhaps with {prefix:#x} added"
            raise Refusal(text, _id_span(annotations))
        number |= prefix
        if number in self._given:
            raise _duplicate(annotations, number)
        self._given.add(number)
        return number

    def assign(self) -> None:
        """Give ids and aliases to all objects that were added."""
        used = set(self._given)
        for kind in sorted(self._names, key=_PREFIXES.__getitem__):
            names = self._names[kind]
            for name in sorted(names):
                if names[name] is None:
                    names[name] = _free_id(_PREFIXES[kind], name, used)
        for name in {name for names in self._names.values() for name in names}:
            parts = name.split(".")
            for start in range(len(parts)):
                end = tuple(parts[start:])
                self._ends[end] = self._ends.get(end, 0) + 1

    def id(self, kind: str, name: str) -> int:
        """The id of an object."""
        number = self._names[kind][name]
        assert number is not None
        return number

    def alias(self, name: str) -> str:
        """The alias of an object."""
        parts = name.split(".")
        for start in reversed(range(len(parts))):
            if self._ends[tuple(parts[start:])] < 2:
                return ".".join(parts[start:])
        return name


def _id_span(annotations: tree.Annotations) -> SourceSpan | None:
    note = tree.annotation(annotations, "id")
    return note.span if note is not None else None


def _duplicate(annotations: tree.Annotations, number: int | None) -> Refusal:
    return Refusal(f"id {number:#x} is given twice", _id_span(annotations))


def _free_id(prefix: int, name: str, used: set[int]) -> int:
    value = _hash(name)
    while (number := prefix << 24 | value & 0xFFFFFF) in used:
        value += 1
    used.add(number)
    return number


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = value + byte & 0xFFFFFFFF
        value = value + (value << 10) & 0xFFFFFFFF
        value ^= value >> 6
    value = value + (value << 3) & 0xFFFFFFFF
    value ^= value >> 11
    return value + (value << 15) & 0xFFFFFFFF
