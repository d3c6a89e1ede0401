"""Statements, and the declarations that stand among statements."""

from __future__ import annotations

from collections.abc import Callable

from p4compiler import lexer, tree
from p4compiler.diagnostics import Refusal
from p4compiler.parser.annotations import parse_annotations
from p4compiler.parser.cursor import Cursor
from p4compiler.parser.expressions import ExpressionParser

_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|="])
_SIMPLE = {"exit": tree.ExitStatement, "break": tree.BreakStatement, "continue": tree.ContinueStatement}


class StatementParser:
    """Parses statements; `member` parses a declaration in the body of an instance."""

    def __init__(self, cursor: Cursor, expressions: ExpressionParser, member: Callable[[], tree.Declaration]) -> None:
        self._cursor = cursor
        self._expressions = expressions
        self._member = member

    # --- declarations among statements ---

    def constant(self, notes: tree.Annotations) -> tree.ConstantDeclaration:
        """``const type name = value;``."""
        self._cursor.expect("const")
        type_ = self._expressions.type()
        name = self._cursor.name("the name of a constant")
        type_ = self._expressions.array(type_)
        self._cursor.expect("=", f"and a value after 'const {name.text}'")
        value = self._expressions.expression()
        self._cursor.expect(";", "after the value of a constant")
        self._cursor.declare(name.text)
        return tree.ConstantDeclaration(name.span, name.text, notes, type_, value)

    def instance(self, type_: tree.TypeNode, notes: tree.Annotations) -> tree.InstanceDeclaration:
        """An instance, after its type."""
        arguments = self._expressions.arguments()
        name = self._cursor.name("the name of an instance")
        type_ = self._expressions.array(type_)
        body: tuple[tree.Declaration, ...] | None = None
        if self._cursor.accept("="):
            self._cursor.expect("{", "of the body of an instance")
            with self._cursor.scope():
                items: list[tree.Declaration] = []
                while not self._cursor.accept("}"):
                    items.append(self._member())
                body = tuple(items)
        self._cursor.expect(";", "after an instance")
        self._cursor.declare(name.text)
        return tree.InstanceDeclaration(name.span, name.text, notes, type_, arguments, body)

    def variable(self, type_: tree.TypeNode, notes: tree.Annotations) -> tree.VariableDeclaration:
        """A variable, after its type and without the semicolon."""
        name = self._cursor.name("the name of a variable")
        type_ = self._expressions.array(type_)
        value = self._expressions.expression() if self._cursor.accept("=") else None
        self._cursor.declare(name.text)
        return tree.VariableDeclaration(name.span, name.text, notes, type_, value)

    # --- statements ---

    def block(self) -> tree.BlockStatement:
        """Statements in braces."""
        parse_annotations(self._cursor)
        opening = self._cursor.expect("{")
        with self._cursor.scope():
            statements = self.statements("}")
        if self._cursor.token.kind == lexer.END:
            raise Refusal("'{' without '}'", opening.span)
        close = self._cursor.take()
        return tree.BlockStatement(opening.span, statements, close.span)

    def statements(self, *ends: str) -> tuple[tree.StatementNode | tree.Declaration, ...]:
        """Statements up to one of the words in `ends`; an error in one is recorded, and the next follows."""
        out: list[tree.StatementNode | tree.Declaration] = []
        while self._cursor.token.kind != lexer.END and not any(self._cursor.sees(end) for end in ends):
            with self._cursor.recovering():
                out.append(self.statement())
        return tuple(out)

    def statement(self) -> tree.StatementNode | tree.Declaration:
        """A statement or a declaration among statements."""
        with self._cursor.nested():
            token = self._cursor.token
            if self._cursor.accept(";"):
                return tree.EmptyStatement(token.span)
            notes = parse_annotations(self._cursor)
            token = self._cursor.token
            word = token.text if token.kind == lexer.NAME else ""
            if self._cursor.sees("{"):
                return self.block()
            if word == "if":
                return self._if()
            if word == "switch":
                return self._switch()
            if word == "for":
                return self._for(notes)
            if word == "const":
                return self.constant(notes)
            if word in _SIMPLE:
                self._cursor.take()
                self._cursor.expect(";", f"after {word!r}")
                return _SIMPLE[word](token.span)
            if word == "return":
                self._cursor.take()
                value = None if self._cursor.sees(";") else self._expressions.expression()
                self._cursor.expect(";", "after 'return'")
                return tree.ReturnStatement(token.span, value)
            out = self._simple(notes)
            if not isinstance(out, tree.InstanceDeclaration):
                self._cursor.expect(";", "after a statement")
            return out

    def _simple(self, notes: tree.Annotations) -> tree.StatementNode | tree.Declaration:
        """A declaration, an assignment or a call, without its semicolon (but for an instance)."""
        declared = self._declared_type()
        if declared is not None:
            return self.instance(declared, notes) if self._cursor.sees("(") else self.variable(declared, notes)
        target = self._expressions.postfix()
        op = self._expressions.operator()
        if op in _ASSIGNMENTS or op == ">>=":
            self._cursor.at += 2 if op == ">>=" else 1
            value = self._expressions.expression()
            return tree.AssignStatement(target.span, target, op[:-1], value)
        if not isinstance(target, tree.CallExpression):
            self._cursor.fail("'=' or a call")
        return tree.CallStatement(target.span, target)

    def _declared_type(self) -> tree.TypeNode | None:
        """The type of the declaration that stands here, if one does; it is passed."""
        if not self._expressions.starts_type() or (self._cursor.sees("error") and self._cursor.ahead().text == "."):
            return None
        start = self._cursor.at
        if (
            self._cursor.token.kind == lexer.NAME
            and not self._cursor.is_name(self._cursor.token)
            and self._cursor.token.text != "_"
        ):
            return self._expressions.type()  # a keyword: nothing but a type begins so
        try:
            type_ = self._expressions.type()
            if self._cursor.is_name(self._cursor.token):
                return type_
            if self._cursor.sees("("):  # an instance has a name after its arguments, a call has not
                here = self._cursor.at
                self._expressions.arguments()
                if self._cursor.is_name(self._cursor.token):
                    self._cursor.at = here
                    return type_
        except Refusal:
            pass
        self._cursor.at = start
        return None

    def _if(self) -> tree.IfStatement:
        word = self._cursor.take()
        self._cursor.expect("(", "after 'if'")
        condition = self._expressions.expression()
        self._cursor.expect(")", "after the condition")
        yes = self._branch()
        no = self._branch() if self._cursor.accept("else") else None
        return tree.IfStatement(word.span, condition, yes, no)

    def _branch(self) -> tree.StatementNode:
        with self._cursor.scope():
            out = self.statement()
        if isinstance(out, tree.Declaration):
            raise Refusal("a declaration is no branch; put it in braces", out.span)
        return out

    def _switch(self) -> tree.SwitchStatement:
        word = self._cursor.take()
        self._cursor.expect("(", "after 'switch'")
        subject = self._expressions.expression()
        self._cursor.expect(")")
        self._cursor.expect("{", "of the cases of a switch")
        cases: list[tree.SwitchCase] = []
        while not self._cursor.accept("}"):
            token = self._cursor.token
            label: tree.Expression
            if self._cursor.sees("default") or self._cursor.sees("_"):
                self._cursor.take()
                label = tree.AnyValue(token.span, True)
            else:
                label = self._expressions.expression()
            self._cursor.expect(":", "after the label of a case")
            body = self.block() if self._cursor.sees("{") else None
            cases.append(tree.SwitchCase(label.span, label, body))
        return tree.SwitchStatement(word.span, subject, tuple(cases))

    def _for(self, notes: tree.Annotations) -> tree.StatementNode:
        word = self._cursor.take()
        self._cursor.expect("(", "after 'for'")
        with self._cursor.scope():
            if (variable := self._loop_variable(notes)) is not None:
                collection = self._expressions.simple_set()
                self._cursor.expect(")")
                return tree.ForInStatement(word.span, variable, collection, self._branch())
            start = self._several(";")
            self._cursor.expect(";", "after the start of a loop")
            condition = self._expressions.expression()
            self._cursor.expect(";", "after the condition of a loop")
            step = self._several(")")
            self._cursor.expect(")")
            body = self._branch()
        steps = tuple(item for item in step if isinstance(item, tree.StatementNode))
        return tree.ForStatement(word.span, start, condition, steps, body)

    def _loop_variable(self, notes: tree.Annotations) -> tree.VariableDeclaration | None:
        """The variable of ``for (variable in collection)``, and the ``in``; None if it is another loop."""
        start = self._cursor.at
        notes = (*notes, *parse_annotations(self._cursor))
        if self._cursor.is_name(self._cursor.token) and self._cursor.ahead().text == "in":
            text = "syntax error, unexpected 'in': a loop over values declares its variable, as in 'bit<8> i in 1..6'"
            raise Refusal(text, self._cursor.ahead().span)
        declared = self._declared_type()
        if declared is not None and self._cursor.is_name(self._cursor.token) and self._cursor.ahead().text == "in":
            name = self._cursor.take()
            self._cursor.take()
            self._cursor.declare(name.text)
            return tree.VariableDeclaration(name.span, name.text, notes, declared, None)
        self._cursor.at = start
        return None

    def _several(self, end: str) -> tuple[tree.StatementNode | tree.Declaration, ...]:
        out: list[tree.StatementNode | tree.Declaration] = []
        while not self._cursor.sees(end):
            out.append(self._simple(parse_annotations(self._cursor)))
            if not self._cursor.accept(","):
                break
        return tuple(out)
