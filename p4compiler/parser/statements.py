"""Statements, annotations, and the declarations that stand among statements."""

from __future__ import annotations

from p4compiler import lexer, tree
from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.parser.expressions import ExpressionParser

_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|="])
_SIMPLE = {"exit": tree.ExitStatement, "break": tree.BreakStatement, "continue": tree.ContinueStatement}


class StatementParser(ExpressionParser):
    """Parses statements."""

    # --- annotations ---

    def annotations(self) -> tree.Annotations:
        """All annotations that stand here."""
        out: list[tree.Annotation] = []
        while self.sees("@"):
            out.append(self._annotation())
        return tuple(out)

    def _annotation(self) -> tree.Annotation:
        at = self.take()
        if self.token.kind != lexer.NAME:
            self.fail("the name of an annotation")
        name = self.take()
        span = at.span.to(name.span)
        if name.text == "pragma":
            name = self.take()
            words: list[Token] = []
            while not self.token.starts_line:
                words.append(self.take())
            return tree.Annotation(span, name.text, tuple(words), False, bool(words))
        if self.sees("(") or self.sees("["):
            opening = self.take()
            body = self._balanced(opening)
            return tree.Annotation(span, name.text, body, opening.text == "[", True)
        return tree.Annotation(span, name.text, (), False, False)

    def _balanced(self, opening: Token) -> tuple[Token, ...]:
        """The tokens before the parenthesis that belongs to `opening`, which is passed too."""
        open_ones, pairs = [opening.text], {"(": ")", "[": "]", "{": "}"}
        out: list[Token] = []
        while open_ones:
            token = self.token
            if token.kind == lexer.END:
                raise Refusal(f"annotation without {pairs[opening.text]!r}", opening.span)
            self.at += 1  # whatever it is: what is in annotations need not be of the language
            if token.kind == lexer.OP and token.text in pairs:
                open_ones.append(token.text)
            elif token.kind == lexer.OP and token.text == pairs[open_ones[-1]]:
                open_ones.pop()
            out.append(token)
        return tuple(out[:-1])

    # --- declarations among statements ---

    def constant(self, notes: tree.Annotations) -> tree.ConstantDeclaration:
        """``const type name = value;``."""
        self.expect("const")
        type_ = self.type()
        name = self.name("the name of a constant")
        type_ = self.array(type_)
        self.expect("=", f"and a value after 'const {name.text}'")
        value = self.expression()
        self.expect(";", "after the value of a constant")
        self.declare(name.text)
        return tree.ConstantDeclaration(name.span, name.text, notes, type_, value)

    def instance(self, type_: tree.TypeNode, notes: tree.Annotations) -> tree.InstanceDeclaration:
        """An instance, after its type."""
        arguments = self.arguments()
        name = self.name("the name of an instance")
        type_ = self.array(type_)
        body: tuple[tree.Declaration, ...] | None = None
        if self.accept("="):
            self.expect("{", "of the body of an instance")
            with self.scope():
                items: list[tree.Declaration] = []
                while not self.accept("}"):
                    items.append(self.member_of_instance())
                body = tuple(items)
        self.expect(";", "after an instance")
        self.declare(name.text)
        return tree.InstanceDeclaration(name.span, name.text, notes, type_, arguments, body)

    def member_of_instance(self) -> tree.Declaration:
        """A function or an instance in the body of an instance."""
        raise NotImplementedError

    def variable(self, type_: tree.TypeNode, notes: tree.Annotations) -> tree.VariableDeclaration:
        """A variable, after its type and without the semicolon."""
        name = self.name("the name of a variable")
        type_ = self.array(type_)
        value = self.expression() if self.accept("=") else None
        self.declare(name.text)
        return tree.VariableDeclaration(name.span, name.text, notes, type_, value)

    # --- statements ---

    def block(self) -> tree.BlockStatement:
        """Statements in braces."""
        self.annotations()
        opening = self.expect("{")
        with self.scope():
            statements = self.statements("}")
        if self.token.kind == lexer.END:
            raise Refusal("'{' without '}'", opening.span)
        close = self.take()
        return tree.BlockStatement(opening.span, statements, close.span)

    def statements(self, *ends: str) -> tuple[tree.StatementNode | tree.Declaration, ...]:
        """Statements up to one of the words in `ends`; an error in one is recorded, and the next follows."""
        out: list[tree.StatementNode | tree.Declaration] = []
        while self.token.kind != lexer.END and not any(self.sees(end) for end in ends):
            with self.recovering():
                out.append(self.statement())
        return tuple(out)

    def statement(self) -> tree.StatementNode | tree.Declaration:
        """A statement or a declaration among statements."""
        with self.nested():
            token = self.token
            if self.accept(";"):
                return tree.EmptyStatement(token.span)
            notes = self.annotations()
            token = self.token
            word = token.text if token.kind == lexer.NAME else ""
            if self.sees("{"):
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
                self.take()
                self.expect(";", f"after {word!r}")
                return _SIMPLE[word](token.span)
            if word == "return":
                self.take()
                value = None if self.sees(";") else self.expression()
                self.expect(";", "after 'return'")
                return tree.ReturnStatement(token.span, value)
            out = self._simple(notes)
            if not isinstance(out, tree.InstanceDeclaration):
                self.expect(";", "after a statement")
            return out

    def _simple(self, notes: tree.Annotations) -> tree.StatementNode | tree.Declaration:
        """A declaration, an assignment or a call, without its semicolon (but for an instance)."""
        declared = self._declared_type()
        if declared is not None:
            return self.instance(declared, notes) if self.sees("(") else self.variable(declared, notes)
        target = self.postfix()
        op = self._operator()
        if op in _ASSIGNMENTS or op == ">>=":
            self.at += 2 if op == ">>=" else 1
            value = self.expression()
            return tree.AssignStatement(target.span, target, op[:-1], value)
        if not isinstance(target, tree.CallExpression):
            self.fail("'=' or a call")
        return tree.CallStatement(target.span, target)

    def _declared_type(self) -> tree.TypeNode | None:
        """The type of the declaration that stands here, if one does; it is passed."""
        if not self.starts_type() or (self.sees("error") and self.ahead().text == "."):
            return None
        start = self.at
        if self.token.kind == lexer.NAME and not self.is_name(self.token) and self.token.text != "_":
            return self.type()  # a keyword: nothing but a type begins so
        try:
            type_ = self.type()
            if self.is_name(self.token):
                return type_
            if self.sees("("):  # an instance has a name after its arguments, a call has not
                here = self.at
                self.arguments()
                if self.is_name(self.token):
                    self.at = here
                    return type_
        except Refusal:
            pass
        self.at = start
        return None

    def _if(self) -> tree.IfStatement:
        word = self.take()
        self.expect("(", "after 'if'")
        condition = self.expression()
        self.expect(")", "after the condition")
        yes = self._branch()
        no = self._branch() if self.accept("else") else None
        return tree.IfStatement(word.span, condition, yes, no)

    def _branch(self) -> tree.StatementNode:
        with self.scope():
            out = self.statement()
        if isinstance(out, tree.Declaration):
            raise Refusal("a declaration is no branch; put it in braces", out.span)
        return out

    def _switch(self) -> tree.SwitchStatement:
        word = self.take()
        self.expect("(", "after 'switch'")
        subject = self.expression()
        self.expect(")")
        self.expect("{", "of the cases of a switch")
        cases: list[tree.SwitchCase] = []
        while not self.accept("}"):
            token = self.token
            label: tree.Expression
            if self.sees("default") or self.sees("_"):
                self.take()
                label = tree.AnyValue(token.span, True)
            else:
                label = self.expression()
            self.expect(":", "after the label of a case")
            body = self.block() if self.sees("{") else None
            cases.append(tree.SwitchCase(label.span, label, body))
        return tree.SwitchStatement(word.span, subject, tuple(cases))

    def _for(self, notes: tree.Annotations) -> tree.StatementNode:
        word = self.take()
        self.expect("(", "after 'for'")
        with self.scope():
            if (variable := self._loop_variable(notes)) is not None:
                collection = self.simple_set()
                self.expect(")")
                return tree.ForInStatement(word.span, variable, collection, self._branch())
            start = self._several(";")
            self.expect(";", "after the start of a loop")
            condition = self.expression()
            self.expect(";", "after the condition of a loop")
            step = self._several(")")
            self.expect(")")
            body = self._branch()
        steps = tuple(item for item in step if isinstance(item, tree.StatementNode))
        return tree.ForStatement(word.span, start, condition, steps, body)

    def _loop_variable(self, notes: tree.Annotations) -> tree.VariableDeclaration | None:
        """The variable of ``for (variable in collection)``, and the ``in``; None if it is another loop."""
        start = self.at
        if self.is_name(self.token) and self.ahead().text == "in":
            text = "syntax error, unexpected 'in': a loop over values declares its variable, as in 'bit<8> i in 1..6'"
            raise Refusal(text, self.ahead().span)
        declared = self._declared_type()
        if declared is not None and self.is_name(self.token) and self.ahead().text == "in":
            name = self.take()
            self.take()
            self.declare(name.text)
            return tree.VariableDeclaration(name.span, name.text, notes, declared, None)
        self.at = start
        return None

    def _several(self, end: str) -> tuple[tree.StatementNode | tree.Declaration, ...]:
        out: list[tree.StatementNode | tree.Declaration] = []
        while not self.sees(end):
            out.append(self._simple(()))
            if not self.accept(","):
                break
        return tuple(out)
