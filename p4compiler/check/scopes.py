"""Scopes: which declaration a name stands for, and which declarations nobody has named."""

from __future__ import annotations

from p4compiler import tree

Overloads = list[tree.Prototype | tree.FunctionDeclaration]  # of one name, with different parameters


class Scope:
    """The names of a construct, and those around it."""

    def __init__(self, parent: Scope | None = None, *, is_body: bool = False) -> None:
        self.parent = parent
        self.is_body = is_body  # of something that is called: what is declared in it may be unused
        self.names: dict[str, tree.Declaration] = {}
        self.overloads: dict[str, Overloads] = {}
        self.used: set[str] = set()

    def find(self, name: str) -> tuple[Scope, tree.Declaration] | None:
        """The declaration of a name, and its scope; of overloaded functions the first."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                scope.used.add(name)
                return scope, found
            scope = scope.parent
        return None

    def known(self) -> list[str]:
        """All names that can be used here, the nearest first."""
        out: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            out += scope.names
            scope = scope.parent
        return out

    @property
    def outermost(self) -> Scope:
        """The program's scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope
