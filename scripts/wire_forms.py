"""Other forms of the table of header fields (``mrc_host.wire.fields``): ``python -m scripts.wire_forms`` writes them.

Wireshark's dissector has the rows of its headers, docs/protocol.md a table of all fields, the datapath in C the places
of a SACK's fields, and Python its value with the functions that pack and parse it, each between two lines that mark
them as generated. A test sees that they are current.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mrc_host.wire.fields import BTH, CCSTATE, HEADERS, SETH, VALUES, WireField, numbers

ROOT = Path(__file__).resolve().parents[1]
DISSECTOR = ROOT / "mrc_host" / "captures" / "mrc.lua"
PAGE = ROOT / "docs" / "protocol.md"
SACK = ROOT / "mrc_host" / "datapath" / "sack.h"
CONTROL = ROOT / "mrc_host" / "wire" / "control.py"
_BYTES = 64  # bits; a longer field is bytes
_WIDTH = 118
_OMITTED = ("EETH.reserved", "EETH.reserved2")  # around the operation of an endpoint response, whose place is a setting


def names() -> Iterator[str]:
    """Tables of the names of values, in Lua."""
    for table, known in VALUES.items():
        yield f"local {table} = {{"
        yield from _filled([f'[0x{value:02X}] = "{name}",' for value, name in known.items()])
        yield "}"


def rows() -> Iterator[str]:
    """Headers and their fields, in Lua: {name, kind, offset, label, display or length, names, mask}.

    Without fields whose kind depends on another field.
    """
    for header in HEADERS:
        given = f'"{header.title}", "{header.prefix}", {header.length}'
        yield f"local {header.name} = header({given}, {{ -- §{header.section}"
        shown = [
            field.name for field in header.fields if not field.also[0] and f"{header.name}.{field.name}" not in _OMITTED
        ]
        placed = [each for each in header.placed() if each[0].name in shown]
        yield from _filled([f"{{{', '.join(_row(*each))}}}," for each in placed])
        yield "})"


def _filled(parts: list[str]) -> Iterator[str]:
    """Lines with as many of the parts as fit."""
    line = " "
    for part in parts:
        if len(line) + 1 + len(part) > _WIDTH:
            yield line
            line = " "
        line += f" {part}"
    yield line


def _row(field: WireField, offset: int, length: int, mask: int) -> Iterator[str]:
    yield from (f'"{field.name}"', f'"{_kind(field, length)}"', str(offset), f'"{field.label}"')
    if field.bits > _BYTES:
        yield str(length)
        return
    yield "HEX" if field.hex else "DEC"
    if field.values or mask:
        yield field.values or "nil"
    if mask:
        yield f"0x{mask:0{2 * length}X}"


def _kind(field: WireField, length: int) -> str:
    return "bytes" if field.bits > _BYTES else f"{'' if field.signed else 'u'}int{8 * length}"


def page() -> Iterator[str]:
    """A table of all fields, in Markdown."""
    yield "| header | byte | bits | field | meaning |"
    yield "|---|---|---|---|---|"
    for header in HEADERS:
        for number, (field, offset, length, mask) in enumerate(header.placed()):
            where = str(offset) if length == 1 else f"{offset}-{offset + length - 1}"
            low = (mask & -mask).bit_length() - 1 if mask else 0
            bits = str(field.bits) if not mask else str(low) if field.bits == 1 else f"{low + field.bits - 1}:{low}"
            name = f"`{field.name}`" + (f" or `{field.also[0]}`" if field.also[0] else "")
            label = field.label + ("; " + field.also[1][0].lower() + field.also[1][1:] if field.also[0] else "")
            title = f"{header.title}, {header.length} bytes (§{header.section})" if number == 0 else ""
            yield f"| {title} | {where} | {bits} | {name} | {label} |"


def places() -> Iterator[str]:
    """Places of the fields of a SACK, in C: offset and length of the bytes with the field, its lowest bit, its bits."""
    start = 0
    for header in (BTH, SETH, CCSTATE):
        for field, offset, length, mask in header.placed():
            lowest = (mask & -mask).bit_length() - 1 if mask else 0
            if not field.name.startswith("reserved"):
                yield f"#define {header.name}_{field.name.upper()} {start + offset}, {length}, {lowest}, {field.bits}"
        start += header.length
    yield f"#define {header.name}_END {start}"


_ZERO = {"bool": "False", "int": "0"}  # by type
_CONSTANT = ("type", "nh", "cc_type", "cc_flags")  # in every SACK what their default says


def codec() -> Iterator[str]:
    """The value of a SACK and the functions that pack and parse it, in Python."""
    groups = [fields for header in (SETH, CCSTATE) for _, fields in numbers(header)]
    parts = [(fields, _number(place, fields)) for place, fields in enumerate(groups)]
    shown = [field for fields, _ in parts for field in fields if _is_shown(field)]
    yield from ("", "", *_SACK_CLASS.strip().splitlines(), "")
    yield "    __slots__ = ("
    yield from (f'        "{name}",' for name in sorted(map(_attribute, shown)))
    yield "    )"
    yield ""
    yield "    def __init__("
    yield "        self,"
    yield "        *,"
    yield from (f"        {_attribute(field)}: {_type(field)} = {_ZERO[_type(field)]}," for field in shown)
    yield "    ) -> None:"
    yield from (f"        self.{_attribute(field)}: Final = {_attribute(field)}" for field in shown)
    yield ""
    yield ""
    yield "def pack_sack(qpn: int, sack: Sack) -> bytes:"
    length = BTH.length + SETH.length + CCSTATE.length
    yield f'    """SACK ({length} bytes) to `qpn`; the BTH\'s PSN is cack_psn."""'
    yield "    return _pack_sack("
    yield from (f"        {word}," for word in ("opcodes.SACK", "0", "PKEY", "qpn", "sack.cack_psn"))
    yield from (f"        {_packed(fields)}," for fields, _ in parts)
    yield "    )"
    yield ""
    yield ""
    yield "def parse_sack(buffer: bytes | memoryview, offset: int) -> Sack:"
    yield '    """SETH and CC_STATE at `offset`; struct.error when too short."""'
    yield from (f"    {name}: int  # struct returns Any" for fields, name in parts if _is_shared(fields))
    yield "    ("
    yield from (f"        {name}," for _, name in parts)
    yield "    ) = _unpack_sack(buffer, offset)"
    yield "    return Sack("
    for fields, name in parts:
        yield from (f"        {word}," for word in _parsed(fields, name))
    yield "    )"
    yield from ("", "")


_SACK_CLASS = '''
class Sack:
    """SETH and CC_STATE. PSNs are 24 bit; `ack_offset` is the probe id when `probe` is set. Fields not given are 0.

    A class with slots, since it is created and read for every few packets: compiled, a named tuple would take twice as
    long as everything else in packing and parsing.
    """
'''


def _number(place: int, fields: tuple[WireField, ...]) -> str:
    """The variable for a number of a SACK: of one field it is the field's."""
    shown = [field for field in fields if _is_shown(field)]
    return _attribute(shown[0]) if len(fields) == 1 and shown else f"number{place}" if shown else f"_{place}"


def _is_shared(fields: tuple[WireField, ...]) -> bool:
    return len(fields) > 1 and any(map(_is_shown, fields))


def _attribute(field: WireField) -> str:
    return field.attribute or field.name


def _is_shown(field: WireField) -> bool:
    return not field.name.startswith("reserved") and field.name not in _CONSTANT


def _type(field: WireField) -> str:
    return "bool" if field.bits == 1 else "int"


def _lowest(fields: tuple[WireField, ...]) -> Iterator[tuple[WireField, int]]:
    """Each field of a number with the place of its lowest bit."""
    place = sum(field.bits for field in fields)
    for field in fields:
        place -= field.bits
        yield field, place


def _packed(fields: tuple[WireField, ...]) -> str:
    """The number of these fields, from the attributes of a SACK."""
    terms = []
    for field, place in _lowest(fields):
        if _is_shown(field):
            masked = field.bits > 1 and len(fields) > 1
            value = f"sack.{_attribute(field)}" + (f" & 0x{(1 << field.bits) - 1:X}" if masked else "")
            shifted = f"({value})" if masked and place else value
            terms.append(f"{shifted} << {place}" if place else value)
        elif field.default:
            terms.append(str(field.default << place))
    return " | ".join(terms) or "0"


def _parsed(fields: tuple[WireField, ...], number: str) -> Iterator[str]:
    """The values of these fields in their number, by name."""
    for field, place in _lowest(fields):
        if _is_shown(field):
            value = f"{number} >> {place}" if place else number
            if field.bits == 1:
                value = f"bool({value} & 1)"
            elif len(fields) > 1:
                value = f"{value} & 0x{(1 << field.bits) - 1:X}"
            yield f"{_attribute(field)}={value}"


FORMS: Mapping[tuple[Path, str], Callable[[], Iterator[str]]] = {
    (DISSECTOR, "names of values"): names,
    (DISSECTOR, "headers"): rows,
    (PAGE, "fields"): page,
    (SACK, "fields of a SACK"): places,
    (CONTROL, "SACKs"): codec,
}


def written(file: Path, part: str, lines: Iterator[str]) -> str:
    """The text of `file` with these lines as its generated `part`."""
    text = file.read_text("utf-8")
    begin, end = (f"generated by scripts/wire_forms.py: {part}", f"end of {part}")
    head, found, rest = text.partition(begin)
    line_end = rest.index("\n") + 1
    last = rest.index(end)
    last = rest.rindex("\n", 0, last) + 1
    assert found
    return head + found + rest[:line_end] + "\n".join(lines) + "\n" + rest[last:]


if __name__ == "__main__":
    for (file, part), lines in FORMS.items():
        file.write_text(written(file, part, lines()), "utf-8")
