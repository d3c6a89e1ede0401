"""What the parts of elaboration share: the program, its storage, where the walk is, and the code that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p4compiler import ir, tree
from p4compiler.check.result import Checked
from p4compiler.diagnostics import Diagnostics, Note, Refusal
from p4compiler.elaborate.frames import Frame
from p4compiler.elaborate.storage import Storage
from p4compiler.elaborate.values import ActionValue, BlockInstance, Location, TableValue, Value
from p4compiler.sources import SourceSpan
from p4compiler.types import INTEGER, BitsType, Type, substitute

if TYPE_CHECKING:
    from p4compiler.elaborate.parser_states import LoweredParser

MAX_STATEMENTS = 50_000
MAX_CALL_DEPTH = 64
MAX_INSTANCES = 20_000


@dataclass(eq=False)
class Body:
    """A body that is being elaborated, which ``return`` leaves."""

    label: int
    result: Location | None = None
    copies_out: list[tuple[Location, Value, SourceSpan]] = field(default_factory=list)  # due when it ends
    is_action: bool = False


@dataclass
class Found:
    """What elaboration has met, in the order in which it did; the JSON and the P4Info list it."""

    actions: dict[str, ActionValue] = field(default_factory=dict)  # called, or in a table
    action_users: dict[str, str] = field(default_factory=dict)  # the block that used an action first
    tables: dict[str, object] = field(default_factory=dict)  # LoweredTable by name
    externs: list[object] = field(default_factory=list)  # ExternInstance
    digests: dict[str, tuple[Type, tuple[Value, ...]]] = field(default_factory=dict)  # by name, with their fields
    unnamed_digests: dict[SourceSpan, str] = field(default_factory=dict)  # of tuples: the names of the calls
    field_lists: dict[int, list[ir.FieldValue]] = field(default_factory=dict)
    calls_extern_function: bool = False  # in a control
    value_sets: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ElaborationPasses:
    """The parts that need each other in turn, as a call in an expression runs statements, whose values are expressions.

    They know each other by this, so that their modules import each other one way.
    """

    call: Callable[[Elaborator, tree.CallExpression], Value | None]
    run_statements: Callable[[Elaborator, Sequence[tree.StatementNode | tree.Declaration]], None]
    apply_table: Callable[..., None]
    lower_parser: Callable[[Elaborator, BlockInstance, Frame, str], LoweredParser]


class Elaborator:
    """The state of an elaboration."""

    def __init__(self, checked: Checked, diagnostics: Diagnostics, parts: ElaborationPasses) -> None:
        self.parts = parts
        self.checked = checked
        self.diagnostics = diagnostics
        self.storage = Storage()
        self.found = Found()
        self.globals = Frame()
        self.frame = self.globals
        self.mode = "control"  # or parser, action, checksum, deparser
        self.block = ""  # the name of the pipeline's part that is elaborated
        self.instance: BlockInstance | None = None  # the parser or control that is elaborated
        self.pipeline = ""  # ingress or egress, while one of them is elaborated
        self.table: TableValue | None = None  # of whose actions one is elaborated
        self.prefix = ""  # of the names of its variables
        self.bodies: list[Body] = []
        self.loops: list[tuple[int, int]] = []  # labels: the end of the loop, the end of its body
        self.spans: list[SourceSpan] = []  # of the calls that are elaborated
        self._code: list[ir.Statement] = []
        self._labels = 0
        self._emitted = 0
        self._instances = 0

    # --- code ---

    def emit(self, *statements: ir.Statement) -> None:
        """Add statements to the code."""
        self._code += statements
        self._emitted += len(statements)
        if self._emitted > MAX_STATEMENTS:
            raise Refusal(
                f"the program has more than {MAX_STATEMENTS:,} statements after inlining",
                self.spans[0] if self.spans else None,
            )

    @contextmanager
    def collecting(self) -> Iterator[list[ir.Statement]]:
        """Code that is emitted inside goes into a list of its own."""
        outer, self._code = self._code, []
        try:
            yield self._code
        finally:
            self._code = outer

    def count_instance(self, span: SourceSpan) -> None:
        """Count an instance, since instances in instances may double at each level."""
        self._instances += 1
        if self._instances > MAX_INSTANCES:
            raise Refusal(f"the program has more than {MAX_INSTANCES:,} instances", span)

    def new_label(self) -> int:
        """A label that no block has."""
        self._labels += 1
        return self._labels

    # --- where the walk is ---

    @contextmanager
    def within(self, frame: Frame) -> Iterator[None]:
        """Code whose names are in a frame."""
        outer, self.frame = self.frame, frame
        try:
            yield
        finally:
            self.frame = outer

    @contextmanager
    def called(self, span: SourceSpan) -> Iterator[None]:
        """The body of what is called at a place."""
        if len(self.spans) >= MAX_CALL_DEPTH:
            raise Refusal(f"calls nested more than {MAX_CALL_DEPTH} deep", span)
        self.spans.append(span)
        try:
            yield
        finally:
            self.spans.pop()

    @contextmanager
    def in_mode(self, mode: str) -> Iterator[None]:
        """Code of another kind of place."""
        outer, self.mode = self.mode, mode
        try:
            yield
        finally:
            self.mode = outer

    def use_action(self, action: ActionValue) -> None:
        """Note that an action is called, or in a table."""
        known = self.found.actions.setdefault(action.name, action)
        if known.declaration is not action.declaration:
            note = Note("the other is here", known.declaration.span)
            raise Refusal(f"conflicting control plane name: {action.name}", action.declaration.span, note)
        self.found.action_users.setdefault(action.name, self.block)

    # --- types and variables ---

    def type_of(self, node: tree.Expression) -> Type:
        """The type of an expression before conversion, with the present type arguments."""
        return substitute(self.checked.types[node], self.frame.types)

    def declared(self, node: tree.Declaration) -> Type:
        """The type of a variable, parameter or field."""
        return substitute(self.checked.declared[node], self.frame.types)

    def resolved(self, node: tree.TypeNode) -> Type:
        """The type that is written here."""
        return substitute(self.checked.type_nodes[node], self.frame.types)

    def variable(self, kind: Type, name: str, span: SourceSpan) -> Value:
        """A new variable."""
        return self.storage.make(BitsType(32) if kind == INTEGER else kind, f"{self.prefix}{name}", span)

    def saved(self, value: ir.Scalar, span: SourceSpan, name: str = "tmp") -> ir.FieldValue:
        """A new field that holds the value as it is now."""
        target = self.variable(value.type, name, span)
        assert isinstance(target, ir.FieldValue)
        self.emit(ir.AssignStep(target, value, span))
        return target

    @property
    def path(self) -> str:
        """The control plane's name of the instance that is elaborated."""
        return self.instance.name if self.instance is not None else ""

    def control_name(self, declaration: tree.Declaration, path: str) -> str:
        """The name that the control plane knows: @name's, which a dot makes absolute, after the instance's."""
        name = tree.string_annotation(declaration.annotations, "name") or declaration.name
        if name.startswith("."):
            return name[1:]
        return f"{path}.{name}" if path else name
