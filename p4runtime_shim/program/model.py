"""A v1model program as typed, frozen values: the BMv2 JSON with names resolved and nothing left to interpret.

References are positions (a field is header position + field position, a table its position in `Program.tables`), so
the code generator never looks a name up. Expressions are trees of the small classes below, each of one of three
kinds: data (integers of unbounded range, as in BMv2, made finite only where they are stored), booleans, and headers.
Everything that this switch does not execute is refused by the loader, so code that walks a Program needs no "else".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """Where in the P4 source something is; line 0 when the JSON does not tell."""

    file: str | None = None
    line: int = 0
    fragment: str = ""


# --- headers ---


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header type: width in bits, offset in bits from the start of the header."""

    name: str
    width: int
    signed: bool
    offset: int


@dataclass(frozen=True, slots=True)
class HeaderType:
    """A header type; `width` is the sum of its fields, a multiple of 8 for what goes on the wire."""

    name: str
    fields: tuple[Field, ...]
    width: int


@dataclass(frozen=True, slots=True)
class Header:
    """A header or metadata instance. `stack` and `index` say which stack element it is, if any."""

    name: str
    type: int
    metadata: bool
    stack: int | None = None
    index: int = 0


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack; `headers` are positions of its elements."""

    name: str
    type: int
    headers: tuple[int, ...]


# --- expressions ---


@dataclass(frozen=True, slots=True)
class Const:
    """An integer, possibly negative."""

    value: int


@dataclass(frozen=True, slots=True)
class BoolConst:
    """true or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class HeaderRef:
    """A header instance."""

    header: int


@dataclass(frozen=True, slots=True)
class StackItem:
    """The element of a stack at a run-time index; out of range gives an invalid header that swallows writes."""

    stack: int
    index: Expr


@dataclass(frozen=True, slots=True)
class StackLast:
    """The last extracted element of a stack."""

    stack: int


HeaderExpr = HeaderRef | StackItem | StackLast


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A field of a header; data."""

    header: HeaderExpr
    field: int


@dataclass(frozen=True, slots=True)
class ValidBit:
    """The validity of a header as data, 0 or 1 (BMv2's hidden field $valid$)."""

    header: HeaderExpr


@dataclass(frozen=True, slots=True)
class Local:
    """An action parameter."""

    index: int


@dataclass(frozen=True, slots=True)
class RegisterCell:
    """A cell of a register array; reads as 0 out of range."""

    register: int
    index: Expr


@dataclass(frozen=True, slots=True)
class StackCount:
    """How many elements of a stack were extracted or pushed (`size_stack`); lastIndex is this minus 1."""

    stack: int
    minus_one: bool


@dataclass(frozen=True, slots=True)
class Unary:
    """`~`, `-`, `not`, `d2b` (data to boolean), `b2d`."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, comparison, `and`/`or`, `two_comp_mod`, `sat_cast`, `usat_cast` (right is then a constant width)."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Choice:
    """`condition ? yes : no`."""

    condition: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True)
class HeaderEqual:
    """Both valid, of one type and all fields equal; a boolean."""

    left: HeaderExpr
    right: HeaderExpr
    negated: bool


Expr = (
    Const | BoolConst | FieldRef | ValidBit | Local | RegisterCell | StackCount | Unary | Binary | Choice | HeaderEqual
)

BOOLEAN_OPS = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "d2b"})


# --- parser ---


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Bits of the packet not yet extracted: offset and width in bits."""

    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class Extract:
    """Extract one header."""

    header: int


@dataclass(frozen=True, slots=True)
class ExtractNext:
    """Extract into the next element of a stack."""

    stack: int


@dataclass(frozen=True, slots=True)
class ParserSet:
    """Assign to a field in a parser state."""

    target: FieldRef | ValidBit
    value: Expr | Lookahead


@dataclass(frozen=True, slots=True)
class Verify:
    """Fail with an error code unless the condition holds."""

    condition: Expr
    error: Expr


@dataclass(frozen=True, slots=True)
class Advance:
    """Skip bits of the packet."""

    bits: Expr


@dataclass(frozen=True, slots=True)
class ParserCall:
    """A primitive called from a parser state."""

    primitive: Primitive


ParserOp = Extract | ExtractNext | ParserSet | Verify | Advance | ParserCall


@dataclass(frozen=True, slots=True)
class Case:
    """One select case: for each key component (value, mask); None as next state is accept."""

    values: tuple[int, ...]
    masks: tuple[int, ...]
    next_state: int | None


@dataclass(frozen=True, slots=True)
class ParserState:
    """A parser state; cases are tried in order, then `default`."""

    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[FieldRef | ValidBit | Lookahead, ...]
    cases: tuple[Case, ...]
    default: int | None


@dataclass(frozen=True, slots=True)
class Parser:
    """The parser of v1model; `start` None means that nothing is parsed."""

    states: tuple[ParserState, ...]
    start: int | None


# --- actions ---


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive call: name and arguments, checked and resolved by program/primitives.py."""

    op: str
    args: tuple[Arg, ...]
    source: Source


@dataclass(frozen=True, slots=True)
class HeaderArg:
    """A header argument."""

    header: HeaderExpr


@dataclass(frozen=True, slots=True)
class StackArg:
    """A header stack argument."""

    stack: int


@dataclass(frozen=True, slots=True)
class ObjectArg:
    """A counter, meter, register or calculation argument, by position."""

    kind: str
    index: int


@dataclass(frozen=True, slots=True)
class TextArg:
    """A string argument (log_msg)."""

    text: str


@dataclass(frozen=True, slots=True)
class ListArg:
    """A list of expressions (log_msg)."""

    items: tuple[Expr, ...]


Arg = Expr | HeaderArg | StackArg | ObjectArg | TextArg | ListArg


@dataclass(frozen=True, slots=True)
class Param:
    """An action parameter."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Action:
    """An action: parameters and primitives in order (jumps name positions)."""

    name: str
    params: tuple[Param, ...]
    primitives: tuple[Primitive, ...]
    source: Source


# --- control ---

NodeRef = tuple[str, int]  # ("table" | "condition" | "call", position)


@dataclass(frozen=True, slots=True)
class Key:
    """A key field of a table. `kind` is exact, lpm, ternary, range, optional or valid; `mask` a static mask or None."""

    name: str
    kind: str
    source: FieldRef | ValidBit
    width: int
    mask: int | None


@dataclass(frozen=True, slots=True)
class FixedCall:
    """An action with constant arguments."""

    action: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FixedEntry:
    """A const entry: per key (value, mask or prefix length or high bound), BMv2 priority (lower wins)."""

    match: tuple[tuple[int, int], ...]
    call: FixedCall
    priority: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `kind` is exact, lpm, ternary or range; `profile` the position of its action profile or None."""

    name: str
    keys: tuple[Key, ...]
    kind: str
    profile: int | None
    size: int
    counters: bool
    meter: int | None
    actions: tuple[int, ...]
    next_by_action: tuple[tuple[int, NodeRef | None], ...]
    next_hit: NodeRef | None
    next_miss: NodeRef | None
    by_hit: bool  # the next node depends on hit or miss, not on the action
    default: FixedCall | None
    default_const: bool
    entries: tuple[FixedEntry, ...]
    entries_const: bool
    base_next: NodeRef | None
    source: Source


@dataclass(frozen=True, slots=True)
class Condition:
    """A branch of a control."""

    name: str
    expr: Expr
    yes: NodeRef | None
    no: NodeRef | None
    source: Source


@dataclass(frozen=True, slots=True)
class Call:
    """An action called from a control outside of any table."""

    name: str
    action: int
    next: NodeRef | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Ingress or egress."""

    name: str
    start: NodeRef | None
    tables: tuple[int, ...]
    conditions: tuple[int, ...]
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """An action profile, or selector when `algorithm` is not None."""

    name: str
    size: int
    algorithm: str | None
    inputs: tuple[FieldRef | ValidBit, ...]


# --- stateful objects ---


@dataclass(frozen=True, slots=True)
class Counter:
    """An indirect counter array."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Meter:
    """A meter array, or the direct meter of `table` with its result field."""

    name: str
    size: int
    packets: bool
    table: str | None
    result: FieldRef | None


@dataclass(frozen=True, slots=True)
class Register:
    """A register array."""

    name: str
    size: int
    width: int


# --- calculations ---


@dataclass(frozen=True, slots=True)
class Bits:
    """Constant bits of a calculation's input."""

    value: int
    width: int


@dataclass(frozen=True, slots=True)
class Payload:
    """What follows the parsed headers, as input of a calculation."""


CalcInput = FieldRef | ValidBit | HeaderRef | Bits | Payload


@dataclass(frozen=True, slots=True)
class Calculation:
    """A hash or checksum over fields."""

    name: str
    algorithm: str
    inputs: tuple[CalcInput, ...]


@dataclass(frozen=True, slots=True)
class Checksum:
    """A field kept equal to a calculation: verified after the parser, updated before the deparser."""

    name: str
    target: FieldRef
    calculation: int
    verify: bool
    update: bool
    condition: Expr | None


@dataclass(frozen=True, slots=True)
class FieldList:
    """Fields that survive clone, resubmit or recirculate; or the values of a digest. `id` as the primitives name it."""

    id: int
    name: str
    fields: tuple[FieldRef | ValidBit, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Everything."""

    name: str
    types: tuple[HeaderType, ...]
    headers: tuple[Header, ...]
    stacks: tuple[Stack, ...]
    errors: tuple[tuple[str, int], ...]
    parser: Parser
    deparser: tuple[int, ...]
    actions: tuple[Action, ...]
    tables: tuple[Table, ...]
    conditions: tuple[Condition, ...]
    calls: tuple[Call, ...]
    ingress: Pipeline
    egress: Pipeline
    profiles: tuple[Profile, ...]
    counters: tuple[Counter, ...]
    meters: tuple[Meter, ...]
    registers: tuple[Register, ...]
    calculations: tuple[Calculation, ...]
    checksums: tuple[Checksum, ...]
    field_lists: tuple[FieldList, ...]
    digests: tuple[FieldList, ...]
    intrinsic: dict[str, FieldRef]  # BMv2 name ("standard_metadata.egress_spec") -> field

    def field(self, ref: FieldRef) -> Field:
        """The field that `ref` names."""
        return self.type_of(ref.header).fields[ref.field]

    def type_of(self, header: HeaderExpr) -> HeaderType:
        """The type of a header expression."""
        if isinstance(header, HeaderRef):
            return self.types[self.headers[header.header].type]
        return self.types[self.stacks[header.stack].type]

    def error(self, name: str, default: int = 0) -> int:
        """The code of a parser error."""
        return next((code for text, code in self.errors if text == name), default)
