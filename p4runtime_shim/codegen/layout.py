"""The C representation of a program's values: names and struct layout.

Every identifier is a kind and a position (`h_3.f_1`). Every text of the program that the log or the trace prints is in
`ProgramLayout.texts`, which the engine gets as data when the program is loaded (sw_load), so a program's author cannot
influence the text that the C compiler reads.

Fields are the smallest native unsigned integer that holds them (unsigned __int128 up to 128 bits), or a wN_t of 64-bit
limbs (engine/wide.h). Signed fields are stored as two's complement and sign-extended when read. Every header struct
ends in `valid`; a stack is an array of structs and a count `n_<stack>`.
"""

from __future__ import annotations

from p4runtime_shim.codegen.c_integers import limbs
from p4runtime_shim.codegen.cost import Costs
from p4runtime_shim.program.model.expressions import FieldRef, HeaderExpr, HeaderRef, StackItem, StackLast
from p4runtime_shim.program.model.program import Program

MAX_TEXT = 900  # characters of a printed text; log records are truncated at 1000 bytes (SW_MAX_LOG_RECORD)


def printable(text: str) -> str:
    """A text of the program for a log record: at most MAX_TEXT characters, with unprintable ones escaped."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:MAX_TEXT])
    return escaped[:MAX_TEXT]


class ProgramLayout:
    """C names of a program's headers, fields, stacks, actions, tables; and its texts."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.wide: set[int] = set()
        self.texts: list[str] = []
        self.costs = Costs(program)
        self.types = [f"t_{position}" for position in range(len(program.types))]
        self.stacks = [f"s_{position}" for position in range(len(program.stacks))]
        self.headers = [
            f"{self.stacks[item.stack]}[{item.index}]" if item.stack is not None else f"h_{position}"
            for position, item in enumerate(program.headers)
        ]
        self.fields = [[f"f_{position}" for position in range(len(kind.fields))] for kind in program.types]
        for kind in program.types:
            for field in kind.fields:
                self.note(field.width)
        self.actions = [f"a_{position}" for position in range(len(program.actions))]
        self.action_texts = [self.text(item.name) for item in program.actions]
        self.table_texts = [self.text(item.name) for item in program.tables]
        for register in program.registers:
            self.note(register.width)
        for action in program.actions:
            for param in action.params:
                self.note(param.width)

    def text(self, value: str) -> int:
        """Add a text for the log or the trace; returns its index (`s->texts[...]`)."""
        self.texts.append(printable(value))
        return len(self.texts) - 1

    def note(self, bits: int) -> None:
        """Record that a wN_t of this size is needed."""
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
