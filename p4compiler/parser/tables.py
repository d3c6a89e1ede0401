"""Tables: keys, actions, entries and other properties."""

from __future__ import annotations

from p4compiler import lexer, tree
from p4compiler.parser.annotations import parse_annotations
from p4compiler.parser.cursor import Cursor
from p4compiler.parser.expressions import ExpressionParser


class TableParser:
    """Parses tables."""

    def __init__(self, cursor: Cursor, expressions: ExpressionParser) -> None:
        self._cursor = cursor
        self._expressions = expressions

    def table(self, notes: tree.Annotations) -> tree.TableDeclaration:
        """``table name { properties }``."""
        self._cursor.take()
        name = self._cursor.name("the name of a table")
        self._cursor.declare(name.text)
        self._cursor.expect("{", f"of the properties of table {name.text!r}")
        keys: tuple[tree.TableKey, ...] | None = None
        actions: tuple[tree.ActionReference, ...] | None = None
        entries: tree.DeclaredEntries | None = None
        properties: list[tree.TableProperty] = []
        while not self._cursor.sees("}") and self._cursor.token.kind != lexer.END:
            with self._cursor.recovering():
                inner = parse_annotations(self._cursor)
                is_const = bool(self._cursor.accept("const"))
                prop = self._cursor.name("a property of the table")
                self._cursor.expect("=", f"after {prop.text!r}")
                if prop.text == "key":
                    keys = self._keys()
                elif prop.text == "actions":
                    actions = self._actions()
                elif prop.text == "entries":
                    if keys is None:
                        self._cursor.diagnostics.error("the entries of a table must be after its key", prop.span)
                    entries = tree.DeclaredEntries(prop.span, self._entries(), is_const)
                else:
                    value = self._expressions.expression()
                    self._cursor.expect(";", f"after {prop.text!r}")
                    properties.append(tree.TableProperty(prop.span, prop.text, value, is_const, inner))
        self._cursor.expect("}", f"at the end of table {name.text!r}")
        return tree.TableDeclaration(name.span, name.text, notes, keys, actions, entries, tuple(properties))

    def _keys(self) -> tuple[tree.TableKey, ...]:
        self._cursor.expect("{", "of the keys")
        out: list[tree.TableKey] = []
        while not self._cursor.accept("}"):
            expression = self._expressions.expression()
            self._cursor.expect(":", "and a match kind after a key")
            kind = self._cursor.name("a match kind")
            notes = parse_annotations(self._cursor)
            self._cursor.expect(";", "after a key")
            out.append(tree.TableKey(expression.span, expression, tree.Name(kind.span, kind.text), notes))
        self._cursor.accept(";")
        return tuple(out)

    def _actions(self) -> tuple[tree.ActionReference, ...]:
        self._cursor.expect("{", "of the actions")
        out: list[tree.ActionReference] = []
        while not self._cursor.accept("}"):
            out.append(self._action_reference(parse_annotations(self._cursor)))
            self._cursor.expect(";", "after an action")
        self._cursor.accept(";")
        return tuple(out)

    def _action_reference(self, notes: tree.Annotations) -> tree.ActionReference:
        absolute = bool(self._cursor.accept("."))
        name = self._cursor.name("the name of an action")
        arguments = self._expressions.arguments() if self._cursor.sees("(") else None
        return tree.ActionReference(name.span, tree.Name(name.span, name.text, absolute), arguments, notes)

    def _entries(self) -> tuple[tree.DeclaredEntry, ...]:
        self._cursor.expect("{", "of the entries")
        out: list[tree.DeclaredEntry] = []
        while not self._cursor.accept("}"):
            is_const = bool(self._cursor.accept("const"))
            priority: tree.Expression | None = None
            if self._cursor.sees("priority") and self._cursor.ahead().text == "=":
                self._cursor.take()
                self._cursor.take()
                priority = self._expressions.expression()
                self._cursor.expect(":", "after the priority of an entry")
            keys = self._expressions.key_set()
            self._cursor.expect(":", "and an action after the keys of an entry")
            action = self._action_reference(())
            notes = parse_annotations(self._cursor)
            self._cursor.expect(";", "after an entry")
            out.append(tree.DeclaredEntry(keys.span, keys, action, priority, is_const, notes))
        self._cursor.accept(";")
        return tuple(out)
