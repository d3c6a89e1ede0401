"""The C representation of a program's values: names and struct layout.

Every identifier is a kind and a position (`h_3.f_1`). Every text of the program that the log or the trace prints is in
`ProgramLayout.texts`, which the engine gets as data when the program is loaded (sw_load), so a program's author cannot
influence the text that the C compiler reads.

Fields are the smallest native unsigned integer that holds them (unsigned __int128 up to 128 bits), or a wN_t of 64-bit
limbs (engine/wide.h). Signed fields are stored as two's complement and sign-extended when read. Every header struct
ends in `valid`; a stack is an array of structs and a count `n_<stack>`; a stack of unions is an array for each
member. Fields that are variables of one pipeline
(``pipeline_variables``) are in no header but in a struct of their own, `locals`.
"""

from __future__ import annotations

from collections import Counter

from p4runtime_shim.codegen.c_integers import limbs
from p4runtime_shim.codegen.cost import Costs
from p4runtime_shim.codegen.pipeline_variables import pipeline_of, pipeline_variables
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
        self.variables = pipeline_variables(program)
        self._instances = Counter(instance.type for instance in program.headers)
        self._variables_of: list[Counter[int]] = [Counter() for _ in program.types]  # how many instances' field
        for header, position in self.variables:
            self._variables_of[program.headers[header].type][position] += 1
        self._pipelines: dict[int, str | None] = {}  # of parts of the program, by their `id`, whose variables they use
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
            return f"(*at_{stack}(h, (uint64_t)h->{self.count(header.stack)} - 1))"
        assert isinstance(header, StackItem)
        return f"(*at_{stack}(h, {index}))"

    def count(self, stack: int) -> str:
        """The member of `struct phv` that counts a stack's elements."""
        members = self.program.stacks[stack].members
        return f"n_{self.stacks[members[0] if members else stack]}"

    def in_packets(self, kind: int, field: int) -> bool:
        """Whether a field of a header type is part of packets."""
        return self._variables_of[kind].get(field, -1) != self._instances[kind]

    def variables_parameter(self, root: object) -> str:
        """The last parameter of the C function for a part of the program: variables of the pipeline, if it uses any."""
        part = self._pipeline(root)
        return f", struct {part}_variables *locals" if part else ""

    def variables_unused(self, root: object) -> str:
        """A statement for a function that has the parameter, but may have no use for it once it is simplified."""
        return "(void)locals;" if self._pipeline(root) else ""

    def variables_argument(self, root: object) -> str:
        """What is given for it."""
        return ", locals" if self._pipeline(root) else ""

    def _pipeline(self, root: object) -> str | None:
        if id(root) not in self._pipelines:
            self._pipelines[id(root)] = pipeline_of(self.program, self.variables, root)
        return self._pipelines[id(root)]

    def variable(self, header: int, field: int) -> str:
        """The name of a pipeline's variable in its struct."""
        return f"{self.headers[header]}_{self.fields[self.program.headers[header].type][field]}"

    def field(self, ref: FieldRef, index: str = "") -> str:
        """The C lvalue of a field."""
        if isinstance(ref.header, HeaderRef) and (ref.header.header, ref.field) in self.variables:
            return f"locals->{self.variable(ref.header.header, ref.field)}"
        return f"{self.header(ref.header, index)}.{self.fields[self.type_index(ref.header)][ref.field]}"

    def param_words(self, action: int) -> list[int]:
        """Word offset of each parameter of an action, and the total at the end."""
        offsets = [0]
        for param in self.program.actions[action].params:
            offsets.append(offsets[-1] + limbs(param.width))
        return offsets
