"""Tables: keys, actions, entries and other properties."""

from __future__ import annotations

from p4compiler import lexer, tree
from p4compiler.parser.statements import StatementParser


class TableParser(StatementParser):
    """Parses tables."""

    def table(self, notes: tree.Annotations) -> tree.TableDeclaration:
        """``table name { properties }``."""
        self.take()
        name = self.name("the name of a table")
        self.declare(name.text)
        self.expect("{", f"of the properties of table {name.text!r}")
        keys: tuple[tree.TableKey, ...] | None = None
        actions: tuple[tree.ActionReference, ...] | None = None
        entries: tree.DeclaredEntries | None = None
        properties: list[tree.TableProperty] = []
        while not self.sees("}") and self.token.kind != lexer.END:
            with self.recovering():
                inner = self.annotations()
                is_const = bool(self.accept("const"))
                prop = self.name("a property of the table")
                self.expect("=", f"after {prop.text!r}")
                if prop.text == "key":
                    keys = self._keys()
                elif prop.text == "actions":
                    actions = self._actions()
                elif prop.text == "entries":
                    if keys is None:
                        self.diagnostics.error("the entries of a table must be after its key", prop.span)
                    entries = tree.DeclaredEntries(prop.span, self._entries(), is_const)
                else:
                    value = self.expression()
                    self.expect(";", f"after {prop.text!r}")
                    properties.append(tree.TableProperty(prop.span, prop.text, value, is_const, inner))
        self.expect("}", f"at the end of table {name.text!r}")
        return tree.TableDeclaration(name.span, name.text, notes, keys, actions, entries, tuple(properties))

    def _keys(self) -> tuple[tree.TableKey, ...]:
        self.expect("{", "of the keys")
        out: list[tree.TableKey] = []
        while not self.accept("}"):
            expression = self.expression()
            self.expect(":", "and a match kind after a key")
            kind = self.name("a match kind")
            notes = self.annotations()
            self.expect(";", "after a key")
            out.append(tree.TableKey(expression.span, expression, tree.Name(kind.span, kind.text), notes))
        self.accept(";")
        return tuple(out)

    def _actions(self) -> tuple[tree.ActionReference, ...]:
        self.expect("{", "of the actions")
        out: list[tree.ActionReference] = []
        while not self.accept("}"):
            out.append(self._action_reference(self.annotations()))
            self.expect(";", "after an action")
        self.accept(";")
        return tuple(out)

    def _action_reference(self, notes: tree.Annotations) -> tree.ActionReference:
        absolute = bool(self.accept("."))
        name = self.name("the name of an action")
        arguments = self.arguments() if self.sees("(") else None
        return tree.ActionReference(name.span, tree.Name(name.span, name.text, absolute), arguments, notes)

    def _entries(self) -> tuple[tree.DeclaredEntry, ...]:
        self.expect("{", "of the entries")
        out: list[tree.DeclaredEntry] = []
        while not self.accept("}"):
            is_const = bool(self.accept("const"))
            priority: tree.Expression | None = None
            if self.sees("priority") and self.ahead().text == "=":
                self.take()
                self.take()
                priority = self.expression()
                self.expect(":", "after the priority of an entry")
            keys = self.key_set()
            self.expect(":", "and an action after the keys of an entry")
            action = self._action_reference(())
            notes = self.annotations()
            self.expect(";", "after an entry")
            out.append(tree.DeclaredEntry(keys.span, keys, action, priority, is_const, notes))
        self.accept(";")
        return tuple(out)
