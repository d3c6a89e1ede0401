"""What the parts of the checker share: the scopes, where in the program they are, and the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from p4compiler import tree
from p4compiler.check.result import Checked
from p4compiler.check.scopes import Scope
from p4compiler.diagnostics import Diagnostics, Note, Refusal, did_you_mean
from p4compiler.sources import SourceSpan
from p4compiler.types import UNKNOWN, VOID, Type, base_of, is_scalar


@dataclass(frozen=True)
class CodePlace:
    """Where code stands: `kind` is top, parser, state, control (its apply block), action, function or table."""

    kind: str = "top"
    returns: Type = VOID
    loops: int = 0
    owner: str = ""


class Checker:
    """The state of a check."""

    def __init__(
        self,
        program: tree.SyntaxTree,
        diagnostics: Diagnostics,
        expression: Callable[[Checker, tree.Expression], Type],
        call: Callable[[Checker, tree.CallExpression], Type],
    ) -> None:
        """`expression` and `call` check these; given here, as their modules need others that need them."""
        self._expression = expression
        self._call = call
        self.program = program
        self.diagnostics = diagnostics
        self.checked = Checked(program)
        self.scope = Scope()
        self.place = CodePlace()
        self.locals: Sequence[tree.Declaration] = ()  # of the parser or control that is checked
        self.written: set[tree.VariableDeclaration] = set()  # by an assignment, a call or a loop

    def expression(self, node: tree.Expression) -> Type:
        """The type of an expression, which is checked."""
        return self._expression(self, node)

    def call(self, node: tree.CallExpression) -> Type:
        """The type of the result of a call, which is checked."""
        return self._call(self, node)

    # --- errors ---

    def error(self, message: str, span: SourceSpan, *notes: Note) -> Type:
        """Record an error; the type to go on with."""
        self.diagnostics.error(message, span, *notes)
        return UNKNOWN

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record a Refusal that is raised inside, and go on after."""
        try:
            yield
        except Refusal as refusal:
            self.diagnostics.add(refusal.diagnostic)

    # --- scopes ---

    @contextmanager
    def inside(self, *, is_body: bool = False) -> Iterator[Scope]:
        """A scope in the present one."""
        outer = self.scope
        self.scope = Scope(outer, is_body=is_body)
        try:
            yield self.scope
        finally:
            self._warn_of_unused(self.scope)
            self.scope = outer

    @contextmanager
    def at(self, kind: str, returns: Type = VOID, owner: str = "") -> Iterator[None]:
        """Code of a kind of place."""
        outer = self.place
        self.place = CodePlace(kind, returns, 0, owner)
        try:
            yield
        finally:
            self.place = outer

    @contextmanager
    def loop(self) -> Iterator[None]:
        """The body of a loop."""
        outer = self.place
        self.place = replace(outer, loops=outer.loops + 1)
        try:
            yield
        finally:
            self.place = outer

    def declare(self, declaration: tree.Declaration, name: str | None = None) -> None:
        """Give a name its meaning in the present scope."""
        scope, name = self.scope, name or declaration.name
        old = scope.names.get(name)
        if old is not None:
            is_function = isinstance(declaration, tree.Prototype | tree.FunctionDeclaration)
            if is_function and isinstance(old, tree.Prototype | tree.FunctionDeclaration):
                self._overload(declaration, old, scope)
                return
            if not _declares_type_of(old, declaration):
                self.error(
                    f"{name!r} is declared twice (duplicates declaration)",
                    declaration.span,
                    Note("the other is here", old.span),
                )
                return
        scope.names[name] = declaration
        if isinstance(declaration, tree.Prototype | tree.FunctionDeclaration):
            scope.overloads[name] = [declaration]
        self._warn_of_shadowing(declaration, name)

    def _overload(self, declaration: tree.Declaration, old: tree.Declaration, scope: Scope) -> None:
        assert isinstance(declaration, tree.Prototype | tree.FunctionDeclaration)
        others = scope.overloads[declaration.name]
        for other in others:
            if same_names(other, declaration):
                self.error(
                    f"{declaration.name!r} is declared twice with the same parameters (duplicates declaration)",
                    declaration.span,
                    Note("the other is here", other.span),
                )
                return
        others.append(declaration)

    def lookup(self, name: str, span: SourceSpan, *, absolute: bool = False, what: str = "") -> tree.Declaration | None:
        """The declaration of a name; None after an error."""
        scope = self.scope.outermost if absolute else self.scope
        found = scope.find(name)
        if found is None:
            later = next((item for item in (*self.locals, *self.program.declarations) if item.name == name), None)
            if later is not None and later.span.source is span.source and later.span.start < span.start:
                text = f"{what}{name!r} cannot be used in its own declaration (not found)"
                self.error(text, span, Note("which is here", later.span))
            elif later is not None and not isinstance(later, tree.Names):
                note = Note("its declaration comes later", later.span)
                self.error(f"{what}{name!r} is used before it is declared (not found)", span, note)
            else:
                known = [item for item in scope.known() if what != "action " or self._is_action(item)]
                self.error(f"{what}{name!r} is not declared{did_you_mean(name, known)}", span)
            return None
        return found[1]

    def _is_action(self, name: str) -> bool:
        found = self.scope.find(name)
        return found is not None and isinstance(found[1], tree.ActionDeclaration)

    # --- warnings ---

    def _warn_of_unused(self, scope: Scope) -> None:
        if self.diagnostics.has_errors():
            return
        for name, declaration in scope.names.items():
            if name in scope.used and self._is_without_value(declaration):
                text = f"variable {name!r} is read, and nothing ever gives it a value"
                self.diagnostics.warning("uninitialized", text, declaration.span)
            if name in scope.used or _may_be_unused(declaration):
                continue
            kind = tree.noun(declaration)
            self.diagnostics.warning("unused", f"{kind} {name!r} is unused", declaration.span)

    def _is_without_value(self, declaration: tree.Declaration) -> bool:
        """Whether it is a variable that has no value anywhere; headers are invalid then, which is a value."""
        return (
            isinstance(declaration, tree.VariableDeclaration)
            and declaration.value is None
            and declaration not in self.written
            and is_scalar(base_of(self.checked.declared.get(declaration, UNKNOWN)))
        )

    def _warn_of_shadowing(self, declaration: tree.Declaration, name: str) -> None:
        scope = self.scope.parent
        if isinstance(declaration, tree.TypeParameter | tree.Parameter):
            return
        while scope is not None and scope.parent is not None:
            old = scope.names.get(name)
            if old is not None:
                note = Note("the shadowed one is here", old.span)
                self.diagnostics.warning("shadow", f"{name!r} shadows another declaration", declaration.span, note)
                return
            scope = scope.parent


def _may_be_unused(declaration: tree.Declaration) -> bool:
    if isinstance(declaration, tree.Parameter | tree.TypeParameter | tree.FieldDeclaration):
        return True
    if isinstance(declaration, tree.StateDeclaration):
        return True  # unreachable ones have a warning of their own
    ignored = tree.annotation(declaration.annotations, "noWarn")
    return ignored is not None and any(token.text == '"unused"' for token in ignored.body)


def _declares_type_of(old: tree.Declaration, new: tree.Declaration) -> bool:
    """Whether one is the type (without a body) of the other, a parser or control."""
    for a, b in ((old, new), (new, old)):
        if (
            isinstance(a, tree.ParserDeclaration)
            and isinstance(b, tree.ParserDeclaration)
            and a.states is None
            and b.states is not None
        ):
            return True
        if (
            isinstance(a, tree.ControlDeclaration)
            and isinstance(b, tree.ControlDeclaration)
            and a.body is None
            and b.body is not None
        ):
            return True
    return False


def same_names(a: tree.Prototype | tree.FunctionDeclaration, b: tree.Prototype | tree.FunctionDeclaration) -> bool:
    """Whether no call can choose between two functions, by the number and names of parameters."""
    return len(a.parameters) == len(b.parameters) and all(
        x.name == y.name for x, y in zip(a.parameters, b.parameters, strict=True)
    )
