"""Header types, header instances, metadata instances, stacks and unions of a program.

References are positions: a field is a position in its `HeaderType`, a header is a position in `Program.headers`, and
stack elements and members of unions are ordinary headers. Offsets and widths are in bits.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header type: width in bits, offset in bits from the start of the header.

    A varbit field has width 0, and holds `max_bytes` at most; offsets of the fields behind it are without its bytes.
    """

    name: str
    width: int
    signed: bool
    offset: int
    max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HeaderType:
    """A header type; `width` is the sum of its fields but the varbit one, a multiple of 8 for headers on the wire.

    `varbit` is the position of its varbit field.
    """

    name: str
    fields: tuple[Field, ...]
    width: int
    varbit: int | None = None

    @property
    def max_width(self) -> int:
        """The width with the longest varbit field."""
        return self.width + 8 * sum(field.max_bytes for field in self.fields)


@dataclass(frozen=True, slots=True)
class Header:
    """A header or metadata instance.

    `stack` and `index` say which stack element it is, if any; `union` of which union it is a member.
    """

    name: str
    type: int
    metadata: bool
    stack: int | None = None
    index: int = 0
    union: int | None = None


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack; `headers` are positions of its elements.

    A stack of unions is one such stack for each member of the union; they have the same `members`, which are their
    positions, and one count of elements.
    """

    name: str
    type: int
    headers: tuple[int, ...]
    members: tuple[int, ...] = ()
