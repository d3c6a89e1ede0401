"""Declarations: types, externs, functions, parsers, controls and what they hold."""

from __future__ import annotations

from p4compiler import lexer, tree
from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.parser.annotations import parse_annotations
from p4compiler.parser.cursor import Cursor
from p4compiler.parser.expressions import ExpressionParser
from p4compiler.parser.statements import StatementParser
from p4compiler.parser.tables import TableParser

_STRUCTS = ("struct", "header", "header_union")


class DeclarationParser:
    """Parses a program."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._expressions = ExpressionParser(cursor)
        self._statements = StatementParser(cursor, self._expressions, self._member_of_instance)
        self._tables = TableParser(cursor, self._expressions)

    def program(self) -> tree.SyntaxTree:
        """All declarations; those with errors are left out."""
        out: list[tree.Declaration] = []
        while self._cursor.token.kind != lexer.END:
            if self._cursor.accept(";"):
                continue
            with self._cursor.recovering():
                if self._cursor.sees("}"):
                    token = self._cursor.take()
                    raise Refusal("'}' without '{'", token.span)
                out.append(self.declaration())
        return tree.SyntaxTree(tuple(out), self._cursor.token.span)

    def declaration(self) -> tree.Declaration:
        """A declaration at the top of a program."""
        notes = parse_annotations(self._cursor)
        token = self._cursor.token
        word = token.text if token.kind == lexer.NAME else ""
        if word in _STRUCTS:
            return self._struct(notes)
        if word in ("error", "match_kind") and self._cursor.ahead().text == "{":
            return self._names(notes)
        if word in ("typedef", "type") and self._cursor.ahead().kind == lexer.NAME:
            return self._typedef(notes)
        handlers = {
            "const": self._statements.constant,
            "extern": self._extern,
            "action": self._action,
            "parser": self._parser,
            "control": self._control,
            "enum": self._enum,
            "package": self._package,
        }
        if word in handlers:
            return handlers[word](notes)
        if not self._expressions.starts_type():
            self._cursor.fail("a declaration")
        return self._function_or_instance(notes)

    # --- functions and instances ---

    def type_parameters(self) -> tuple[tree.TypeParameter, ...]:
        """``<T, U>``, or nothing."""
        out: list[tree.TypeParameter] = []
        if self._cursor.accept("<"):
            while True:
                name = self._cursor.name("a type parameter")
                self._cursor.declare(name.text, is_type=True)
                out.append(tree.TypeParameter(name.span, name.text, ()))
                if not self._cursor.accept(","):
                    break
            self._cursor.close_angle()
        return tuple(out)

    def parameters(self) -> tuple[tree.Parameter, ...]:
        """``(parameters)``."""
        self._cursor.expect("(")
        out: list[tree.Parameter] = []
        while not self._cursor.sees(")"):
            notes = parse_annotations(self._cursor)
            direction = self._cursor.take().text if self._cursor.token.text in ("in", "out", "inout") else ""
            type_ = self._expressions.type()
            name = self._cursor.name("the name of a parameter")
            type_ = self._expressions.array(type_)
            default = self._expressions.expression() if self._cursor.accept("=") else None
            out.append(tree.Parameter(name.span, name.text, notes, direction, type_, default))
            if not self._cursor.accept(","):
                break
        self._cursor.expect(")", "after the parameters")
        for parameter in out:
            self._cursor.declare(parameter.name)
        return tuple(out)

    def _function_or_instance(self, notes: tree.Annotations) -> tree.Declaration:
        type_ = self._expressions.type()
        if self._cursor.sees("("):
            return self._statements.instance(type_, notes)
        name = self._cursor.name("a declaration: the name of a function or an instance")
        if not (self._cursor.sees("(") or self._cursor.sees("<")):
            self._cursor.fail("'(' of a function or an instance")
        return self._function(type_, name, notes)

    def _function(self, returns: tree.TypeNode, name: Token, notes: tree.Annotations) -> tree.Declaration:
        self._cursor.declare(name.text)
        with self._cursor.scope():
            types = self.type_parameters()
            parameters = self.parameters()
            if self._cursor.accept(";"):
                raise Refusal(f"function {name.text!r} has no body", name.span)
            return tree.FunctionDeclaration(
                name.span, name.text, notes, returns, types, parameters, self._statements.block()
            )

    def _member_of_instance(self) -> tree.Declaration:
        """A function or an instance in the body of an instance."""
        return self._function_or_instance(parse_annotations(self._cursor))

    def _action(self, notes: tree.Annotations) -> tree.ActionDeclaration:
        self._cursor.take()
        name = self._cursor.name("the name of an action")
        self._cursor.declare(name.text)
        with self._cursor.scope():
            return tree.ActionDeclaration(name.span, name.text, notes, self.parameters(), self._statements.block())

    # --- externs ---

    def _extern(self, notes: tree.Annotations) -> tree.Declaration:
        self._cursor.take()
        if self._cursor.is_name(self._cursor.token) and self._declares_object():
            return self._extern_object(notes)
        out = self._prototype(notes)
        self._cursor.expect(";", "after an extern function")
        return out

    def _declares_object(self) -> bool:
        """Whether it is an object rather than a function."""
        start = self._cursor.at
        try:
            self._cursor.take()
            with self._cursor.scope():
                self.type_parameters()
            return self._cursor.sees("{") or self._cursor.sees(";")
        except Refusal:
            return False
        finally:
            self._cursor.at = start

    def _extern_object(self, notes: tree.Annotations) -> tree.ExternDeclaration:
        name = self._cursor.take()
        self._cursor.declare(name.text, is_type=True)
        methods: list[tree.Prototype] = []
        with self._cursor.scope():
            types = self.type_parameters()
            if not self._cursor.accept(";"):
                self._cursor.expect("{")
                while not self._cursor.accept("}"):
                    methods.append(self._method(name.text))
        return tree.ExternDeclaration(name.span, name.text, notes, types, tuple(methods))

    def _method(self, owner: str) -> tree.Prototype:
        notes = parse_annotations(self._cursor)
        is_abstract = bool(self._cursor.accept("abstract"))
        if self._cursor.token.text == owner and self._cursor.ahead().text == "(":
            name = self._cursor.take()
            with self._cursor.scope():
                out = tree.Prototype(name.span, owner, notes, None, (), self.parameters())
        else:
            out = self._prototype(notes, is_abstract)
        self._cursor.expect(";", "after a method")
        return out

    def _prototype(self, notes: tree.Annotations, is_abstract: bool = False) -> tree.Prototype:
        returns = self._expressions.type()
        name = self._cursor.name("the name of a function")
        self._cursor.declare(name.text)
        with self._cursor.scope():
            types = self.type_parameters()
            parameters = self.parameters()
        return tree.Prototype(name.span, name.text, notes, returns, types, parameters, is_abstract)

    # --- types ---

    def _struct(self, notes: tree.Annotations) -> tree.StructDeclaration:
        kind = self._cursor.take().text
        name = self._cursor.name(f"the name of a {kind}")
        self._cursor.declare(name.text, is_type=True)
        fields: list[tree.FieldDeclaration] = []
        with self._cursor.scope():
            types = self.type_parameters()
            self._cursor.expect("{", f"of the fields of {kind} {name.text!r}")
            while not self._cursor.sees("}") and self._cursor.token.kind != lexer.END:
                with self._cursor.recovering():
                    fields.append(self._field())
        self._cursor.expect("}")
        return tree.StructDeclaration(name.span, name.text, notes, kind, types, tuple(fields))

    def _field(self) -> tree.FieldDeclaration:
        notes = parse_annotations(self._cursor)
        type_ = self._expressions.type()
        name = self._cursor.name("the name of a field")
        type_ = self._expressions.array(type_)
        self._cursor.expect(";", f"after field {name.text!r}")
        return tree.FieldDeclaration(name.span, name.text, notes, type_)

    def _enum(self, notes: tree.Annotations) -> tree.EnumDeclaration:
        self._cursor.take()
        base = (
            None
            if self._cursor.is_name(self._cursor.token) and self._cursor.ahead().text == "{"
            else self._expressions.type()
        )
        name = self._cursor.name("the name of an enum")
        self._cursor.declare(name.text, is_type=True)
        return tree.EnumDeclaration(name.span, name.text, notes, base, self._members())

    def _names(self, notes: tree.Annotations) -> tree.Names:
        word = self._cursor.take()
        return tree.Names(word.span, word.text, notes, self._members())

    def _members(self) -> tuple[tree.EnumMemberDeclaration, ...]:
        self._cursor.expect("{")
        out: list[tree.EnumMemberDeclaration] = []
        while not self._cursor.sees("}"):
            notes = parse_annotations(self._cursor)
            name = self._cursor.name("a name")
            out.append(
                tree.EnumMemberDeclaration(
                    name.span, name.text, notes, self._expressions.expression() if self._cursor.accept("=") else None
                )
            )
            if not self._cursor.accept(","):
                break
        self._cursor.expect("}", "after the names")
        return tuple(out)

    def _typedef(self, notes: tree.Annotations) -> tree.TypedefDeclaration:
        is_new = self._cursor.take().text == "type"
        inner = parse_annotations(self._cursor)
        type_: tree.TypeNode | tree.StructDeclaration | tree.EnumDeclaration
        if self._cursor.token.text in _STRUCTS:
            type_ = self._struct(inner)
        elif self._cursor.sees("enum"):
            type_ = self._enum(inner)
        else:
            type_ = self._expressions.type()
        name = self._cursor.name("the name of a type")
        if isinstance(type_, tree.TypeNode):
            type_ = self._expressions.array(type_)
        self._cursor.expect(";", "after the definition of a type")
        self._cursor.declare(name.text, is_type=True)
        return tree.TypedefDeclaration(name.span, name.text, notes, is_new, type_)

    def _package(self, notes: tree.Annotations) -> tree.PackageDeclaration:
        self._cursor.take()
        name = self._cursor.name("the name of a package")
        self._cursor.declare(name.text, is_type=True)
        with self._cursor.scope():
            types = self.type_parameters()
            parameters = self.parameters()
        self._cursor.expect(";", "after a package")
        return tree.PackageDeclaration(name.span, name.text, notes, types, parameters)

    # --- parsers and controls ---

    def _parser(self, notes: tree.Annotations) -> tree.ParserDeclaration:
        self._cursor.take()
        name = self._cursor.name("the name of a parser")
        self._cursor.declare(name.text, is_type=True)
        with self._cursor.scope():
            types = self.type_parameters()
            parameters = self.parameters()
            if self._cursor.accept(";"):
                return tree.ParserDeclaration(name.span, name.text, notes, types, parameters, (), (), None)
            constructor = self.parameters() if self._cursor.sees("(") else ()
            self._cursor.expect("{", f"of the body of parser {name.text!r}")
            locals_: list[tree.Declaration] = []
            states: list[tree.StateDeclaration] = []
            while not self._cursor.sees("}") and self._cursor.token.kind != lexer.END:
                with self._cursor.recovering():
                    inner = parse_annotations(self._cursor)
                    if (
                        self._cursor.sees("state")
                        and self._cursor.is_name(self._cursor.ahead())
                        and self._cursor.ahead(2).text == "{"
                    ):
                        states.append(self._state(inner))
                    else:
                        locals_.append(self._local(inner))
            self._cursor.expect("}", f"at the end of parser {name.text!r}")
        return tree.ParserDeclaration(
            name.span, name.text, notes, types, parameters, constructor, tuple(locals_), tuple(states)
        )

    def _state(self, notes: tree.Annotations) -> tree.StateDeclaration:
        self._cursor.take()
        name = self._cursor.name("the name of a state")
        self._cursor.expect("{")
        with self._cursor.scope():
            statements = self._statements.statements("}", "transition")
            transition = self._transition() if self._cursor.sees("transition") else None
        self._cursor.expect("}", f"at the end of state {name.text!r}")
        return tree.StateDeclaration(name.span, name.text, notes, statements, transition)

    def _transition(self) -> tree.Name | tree.Select:
        self._cursor.take()
        if not self._cursor.sees("select"):
            name = self._cursor.name("the name of a state")
            self._cursor.expect(";", "after a transition")
            return tree.Name(name.span, name.text)
        word = self._cursor.take()
        self._cursor.expect("(", "after 'select'")
        keys: list[tree.Expression] = []
        while not self._cursor.sees(")"):
            keys.append(self._expressions.expression())
            if not self._cursor.accept(","):
                break
        self._cursor.expect(")", "after the keys of a select")
        self._cursor.expect("{", "of the cases of a select")
        cases: list[tree.SelectBranch] = []
        while not self._cursor.accept("}"):
            set_ = self._expressions.key_set()
            self._cursor.expect(":", "after the values of a case")
            name = self._cursor.name("the name of a state")
            self._cursor.expect(";", "after a case")
            cases.append(tree.SelectBranch(set_.span, set_, tree.Name(name.span, name.text)))
        self._cursor.accept(";")
        return tree.Select(word.span, tuple(keys), tuple(cases))

    def _control(self, notes: tree.Annotations) -> tree.ControlDeclaration:
        self._cursor.take()
        name = self._cursor.name("the name of a control")
        self._cursor.declare(name.text, is_type=True)
        with self._cursor.scope():
            types = self.type_parameters()
            parameters = self.parameters()
            if self._cursor.accept(";"):
                return tree.ControlDeclaration(name.span, name.text, notes, types, parameters, (), (), None)
            constructor = self.parameters() if self._cursor.sees("(") else ()
            self._cursor.expect("{", f"of the body of control {name.text!r}")
            locals_: list[tree.Declaration] = []
            body: tree.BlockStatement | None = None
            while body is None:
                if self._cursor.sees("}") or self._cursor.token.kind == lexer.END:
                    if self._cursor.diagnostics.has_errors():  # of what was to be the apply block, perhaps
                        body = tree.BlockStatement(name.span, (), name.span)
                        break
                    self._cursor.fail(f"'apply {{ ... }}' in control {name.text!r}")
                with self._cursor.recovering():
                    inner = parse_annotations(self._cursor)
                    if self._cursor.sees("apply") and self._cursor.ahead().text in ("{", "@"):
                        self._cursor.take()
                        body = self._statements.block()
                    else:
                        locals_.append(self._local(inner))
            self._cursor.expect("}", "after the apply block, which ends a control,")
        return tree.ControlDeclaration(
            name.span, name.text, notes, types, parameters, constructor, tuple(locals_), body
        )

    def _local(self, notes: tree.Annotations) -> tree.Declaration:
        """A declaration in a parser or control."""
        if self._cursor.sees("const"):
            return self._statements.constant(notes)
        if self._cursor.sees("action"):
            return self._action(notes)
        if self._cursor.sees("table"):
            return self._tables.table(notes)
        if self._cursor.sees("value_set"):
            return self._value_set(notes)
        if self._cursor.sees("state") or not self._expressions.starts_type():
            self._cursor.fail("a declaration")
        type_ = self._expressions.type()
        if self._cursor.sees("("):
            return self._statements.instance(type_, notes)
        out = self._statements.variable(type_, notes)
        self._cursor.expect(";", f"after the declaration of {out.name!r}")
        return out

    def _value_set(self, notes: tree.Annotations) -> tree.ValueSetDeclaration:
        self._cursor.take()
        types = self._expressions.type_arguments()
        self._cursor.expect("(")
        size = self._expressions.expression()
        self._cursor.expect(")")
        name = self._cursor.name("the name of a value set")
        self._cursor.expect(";", "after a value set")
        self._cursor.declare(name.text)
        if len(types) != 1:
            raise Refusal(f"a value set has one type, not {len(types)}", name.span)
        return tree.ValueSetDeclaration(name.span, name.text, notes, types[0], size)
