"""How the program's values are kept in C: names, struct layout, and which C type holds how many bits.

Fields are the smallest native unsigned integer that holds them (unsigned __int128 up to 128 bits), beyond that a wN_t
of 64-bit limbs (engine/wide.h). Signed fields are stored as their two's complement bits and sign-extended when read.
Every header struct ends in `valid`; a stack is an array of structs and a count `n_<stack>`.
"""

from __future__ import annotations

import re

from p4runtime_shim.program.model.expressions import FieldRef, HeaderExpr, HeaderRef, StackItem, StackLast
from p4runtime_shim.program.model.program import Program


def clean(name: str) -> str:
    """A P4 name as a piece of a C identifier."""
    text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    return text[:60] or "x"


def limbs(bits: int) -> int:
    """64-bit words that hold so many bits."""
    return (bits + 63) // 64


def storage(bits: int) -> str:
    """C type of a stored value."""
    for size in (8, 16, 32, 64):
        if bits <= size:
            return f"uint{size}_t"
    return "u128" if bits <= 128 else f"w{limbs(bits)}_t"


def storage_bytes(bits: int) -> int:
    """Size of `storage(bits)`."""
    for size in (8, 16, 32, 64, 128):
        if bits <= size:
            return size // 8
    return limbs(bits) * 8


def quote(text: str) -> str:
    """A C string literal."""
    out = []
    for byte in text.encode():
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= byte < 127 and char != "?":
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


class Layout:
    """C names of a program's headers, fields, stacks, actions, tables."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.wide: set[int] = set()
        used: set[str] = set()

        def unique(prefix: str, name: str) -> str:
            base = prefix + clean(name)
            text, count = base, 1
            while text in used:
                text, count = f"{base}_{count}", count + 1
            used.add(text)
            return text

        self.types = [unique("t_", item.name) for item in program.types]
        self.stacks = [unique("s_", item.name) for item in program.stacks]
        self.headers = [
            f"{self.stacks[item.stack]}[{item.index}]" if item.stack is not None else unique("h_", item.name)
            for item in program.headers
        ]
        self.fields: list[list[str]] = []
        for kind in program.types:
            names: list[str] = []
            for field in kind.fields:
                text, count = "f_" + clean(field.name), 1
                while text in names:
                    text, count = f"f_{clean(field.name)}_{count}", count + 1
                names.append(text)
            self.fields.append(names)
            for field in kind.fields:
                self.note(field.width)
        self.actions = [unique("a_", item.name) for item in program.actions]
        self.tables = [unique("l_", item.name) for item in program.tables]
        for register in program.registers:
            self.note(register.width)
        for action in program.actions:
            for param in action.params:
                self.note(param.width)

    def note(self, bits: int) -> None:
        """Remember that a wN_t of this size is needed."""
        if bits > 128:
            self.wide.add(limbs(bits))

    def type_index(self, header: HeaderExpr) -> int:
        """Position of the type of a header expression."""
        if isinstance(header, HeaderRef):
            return self.program.headers[header.header].type
        return self.program.stacks[header.stack].type

    def header(self, header: HeaderExpr, index: str = "") -> str:
        """The C lvalue of a header; `index` is the C text of a run-time stack index."""
        if isinstance(header, HeaderRef):
            return f"h->{self.headers[header.header]}"
        stack = self.stacks[header.stack]
        if isinstance(header, StackLast):
            return f"(*at_{stack}(h, (uint64_t)h->n_{stack} - 1))"
        assert isinstance(header, StackItem)
        return f"(*at_{stack}(h, {index}))"

    def field(self, ref: FieldRef, index: str = "") -> str:
        """The C lvalue of a field."""
        return f"{self.header(ref.header, index)}.{self.fields[self.type_index(ref.header)][ref.field]}"

    def param_words(self, action: int) -> list[int]:
        """Word offset of each parameter of an action, and the total at the end."""
        offsets = [0]
        for param in self.program.actions[action].params:
            offsets.append(offsets[-1] + limbs(param.width))
        return offsets
