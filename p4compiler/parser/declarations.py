"""Declarations: types, externs, functions, parsers, controls and what they hold."""

from __future__ import annotations

from p4compiler import lexer, tree
from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.parser.statements import StatementParser
from p4compiler.parser.tables import TableParser

_STRUCTS = ("struct", "header", "header_union")


class DeclarationParser(TableParser, StatementParser):
    """Parses a program."""

    def program(self) -> tree.SyntaxTree:
        """All declarations; those with errors are left out."""
        out: list[tree.Declaration] = []
        while self.token.kind != lexer.END:
            if self.accept(";"):
                continue
            with self.recovering():
                if self.sees("}"):
                    token = self.take()
                    raise Refusal("'}' without '{'", token.span)
                out.append(self.declaration())
        return tree.SyntaxTree(tuple(out), self.token.span)

    def declaration(self) -> tree.Declaration:
        """A declaration at the top of a program."""
        notes = self.annotations()
        token = self.token
        word = token.text if token.kind == lexer.NAME else ""
        if word in _STRUCTS:
            return self._struct(notes)
        if word in ("error", "match_kind") and self.ahead().text == "{":
            return self._names(notes)
        if word in ("typedef", "type") and self.ahead().kind == lexer.NAME:
            return self._typedef(notes)
        handlers = {
            "const": self.constant,
            "extern": self._extern,
            "action": self._action,
            "parser": self._parser,
            "control": self._control,
            "enum": self._enum,
            "package": self._package,
        }
        if word in handlers:
            return handlers[word](notes)
        if not self.starts_type():
            self.fail("a declaration")
        return self._function_or_instance(notes)

    # --- functions and instances ---

    def type_parameters(self) -> tuple[tree.TypeParameter, ...]:
        """``<T, U>``, or nothing."""
        out: list[tree.TypeParameter] = []
        if self.accept("<"):
            while True:
                name = self.name("a type parameter")
                self.declare(name.text, is_type=True)
                out.append(tree.TypeParameter(name.span, name.text, ()))
                if not self.accept(","):
                    break
            self.close_angle()
        return tuple(out)

    def parameters(self) -> tuple[tree.Parameter, ...]:
        """``(parameters)``."""
        self.expect("(")
        out: list[tree.Parameter] = []
        while not self.sees(")"):
            notes = self.annotations()
            direction = self.take().text if self.token.text in ("in", "out", "inout") else ""
            type_ = self.type()
            name = self.name("the name of a parameter")
            type_ = self.array(type_)
            default = self.expression() if self.accept("=") else None
            out.append(tree.Parameter(name.span, name.text, notes, direction, type_, default))
            if not self.accept(","):
                break
        self.expect(")", "after the parameters")
        for parameter in out:
            self.declare(parameter.name)
        return tuple(out)

    def _function_or_instance(self, notes: tree.Annotations) -> tree.Declaration:
        type_ = self.type()
        if self.sees("("):
            return self.instance(type_, notes)
        name = self.name("a declaration: the name of a function or an instance")
        if not (self.sees("(") or self.sees("<")):
            self.fail("'(' of a function or an instance")
        return self._function(type_, name, notes)

    def _function(self, returns: tree.TypeNode, name: Token, notes: tree.Annotations) -> tree.Declaration:
        self.declare(name.text)
        with self.scope():
            types = self.type_parameters()
            parameters = self.parameters()
            if self.accept(";"):
                raise Refusal(f"function {name.text!r} has no body", name.span)
            return tree.FunctionDeclaration(name.span, name.text, notes, returns, types, parameters, self.block())

    def member_of_instance(self) -> tree.Declaration:
        """A function or an instance in the body of an instance."""
        return self._function_or_instance(self.annotations())

    def _action(self, notes: tree.Annotations) -> tree.ActionDeclaration:
        self.take()
        name = self.name("the name of an action")
        self.declare(name.text)
        with self.scope():
            return tree.ActionDeclaration(name.span, name.text, notes, self.parameters(), self.block())

    # --- externs ---

    def _extern(self, notes: tree.Annotations) -> tree.Declaration:
        self.take()
        if self.is_name(self.token) and self._declares_object():
            return self._extern_object(notes)
        out = self._prototype(notes)
        self.expect(";", "after an extern function")
        return out

    def _declares_object(self) -> bool:
        """Whether it is an object rather than a function."""
        start = self.at
        try:
            self.take()
            with self.scope():
                self.type_parameters()
            return self.sees("{") or self.sees(";")
        except Refusal:
            return False
        finally:
            self.at = start

    def _extern_object(self, notes: tree.Annotations) -> tree.ExternDeclaration:
        name = self.take()
        self.declare(name.text, is_type=True)
        methods: list[tree.Prototype] = []
        with self.scope():
            types = self.type_parameters()
            if not self.accept(";"):
                self.expect("{")
                while not self.accept("}"):
                    methods.append(self._method(name.text))
        return tree.ExternDeclaration(name.span, name.text, notes, types, tuple(methods))

    def _method(self, owner: str) -> tree.Prototype:
        notes = self.annotations()
        is_abstract = bool(self.accept("abstract"))
        if self.token.text == owner and self.ahead().text == "(":
            name = self.take()
            with self.scope():
                out = tree.Prototype(name.span, owner, notes, None, (), self.parameters())
        else:
            out = self._prototype(notes, is_abstract)
        self.expect(";", "after a method")
        return out

    def _prototype(self, notes: tree.Annotations, is_abstract: bool = False) -> tree.Prototype:
        returns = self.type()
        name = self.name("the name of a function")
        self.declare(name.text)
        with self.scope():
            types = self.type_parameters()
            parameters = self.parameters()
        return tree.Prototype(name.span, name.text, notes, returns, types, parameters, is_abstract)

    # --- types ---

    def _struct(self, notes: tree.Annotations) -> tree.StructDeclaration:
        kind = self.take().text
        name = self.name(f"the name of a {kind}")
        self.declare(name.text, is_type=True)
        fields: list[tree.FieldDeclaration] = []
        with self.scope():
            types = self.type_parameters()
            self.expect("{", f"of the fields of {kind} {name.text!r}")
            while not self.sees("}") and self.token.kind != lexer.END:
                with self.recovering():
                    fields.append(self._field())
        self.expect("}")
        return tree.StructDeclaration(name.span, name.text, notes, kind, types, tuple(fields))

    def _field(self) -> tree.FieldDeclaration:
        notes = self.annotations()
        type_ = self.type()
        name = self.name("the name of a field")
        type_ = self.array(type_)
        self.expect(";", f"after field {name.text!r}")
        return tree.FieldDeclaration(name.span, name.text, notes, type_)

    def _enum(self, notes: tree.Annotations) -> tree.EnumDeclaration:
        self.take()
        base = None if self.is_name(self.token) and self.ahead().text == "{" else self.type()
        name = self.name("the name of an enum")
        self.declare(name.text, is_type=True)
        return tree.EnumDeclaration(name.span, name.text, notes, base, self._members())

    def _names(self, notes: tree.Annotations) -> tree.Names:
        word = self.take()
        return tree.Names(word.span, word.text, notes, self._members())

    def _members(self) -> tuple[tree.EnumMemberDeclaration, ...]:
        self.expect("{")
        out: list[tree.EnumMemberDeclaration] = []
        while not self.sees("}"):
            notes = self.annotations()
            name = self.name("a name")
            out.append(
                tree.EnumMemberDeclaration(name.span, name.text, notes, self.expression() if self.accept("=") else None)
            )
            if not self.accept(","):
                break
        self.expect("}", "after the names")
        return tuple(out)

    def _typedef(self, notes: tree.Annotations) -> tree.TypedefDeclaration:
        is_new = self.take().text == "type"
        inner = self.annotations()
        type_: tree.TypeNode | tree.StructDeclaration | tree.EnumDeclaration
        if self.token.text in _STRUCTS:
            type_ = self._struct(inner)
        elif self.sees("enum"):
            type_ = self._enum(inner)
        else:
            type_ = self.type()
        name = self.name("the name of a type")
        if isinstance(type_, tree.TypeNode):
            type_ = self.array(type_)
        self.expect(";", "after the definition of a type")
        self.declare(name.text, is_type=True)
        return tree.TypedefDeclaration(name.span, name.text, notes, is_new, type_)

    def _package(self, notes: tree.Annotations) -> tree.PackageDeclaration:
        self.take()
        name = self.name("the name of a package")
        self.declare(name.text, is_type=True)
        with self.scope():
            types = self.type_parameters()
            parameters = self.parameters()
        self.expect(";", "after a package")
        return tree.PackageDeclaration(name.span, name.text, notes, types, parameters)

    # --- parsers and controls ---

    def _parser(self, notes: tree.Annotations) -> tree.ParserDeclaration:
        self.take()
        name = self.name("the name of a parser")
        self.declare(name.text, is_type=True)
        with self.scope():
            types = self.type_parameters()
            parameters = self.parameters()
            if self.accept(";"):
                return tree.ParserDeclaration(name.span, name.text, notes, types, parameters, (), (), None)
            constructor = self.parameters() if self.sees("(") else ()
            self.expect("{", f"of the body of parser {name.text!r}")
            locals_: list[tree.Declaration] = []
            states: list[tree.StateDeclaration] = []
            while not self.sees("}") and self.token.kind != lexer.END:
                with self.recovering():
                    inner = self.annotations()
                    if self.sees("state") and self.is_name(self.ahead()) and self.ahead(2).text == "{":
                        states.append(self._state(inner))
                    else:
                        locals_.append(self._local(inner))
            self.expect("}", f"at the end of parser {name.text!r}")
        return tree.ParserDeclaration(
            name.span, name.text, notes, types, parameters, constructor, tuple(locals_), tuple(states)
        )

    def _state(self, notes: tree.Annotations) -> tree.StateDeclaration:
        self.take()
        name = self.name("the name of a state")
        self.expect("{")
        with self.scope():
            statements = self.statements("}", "transition")
            transition = self._transition() if self.sees("transition") else None
        self.expect("}", f"at the end of state {name.text!r}")
        return tree.StateDeclaration(name.span, name.text, notes, statements, transition)

    def _transition(self) -> tree.Name | tree.Select:
        self.take()
        if not self.sees("select"):
            name = self.name("the name of a state")
            self.expect(";", "after a transition")
            return tree.Name(name.span, name.text)
        word = self.take()
        self.expect("(", "after 'select'")
        keys: list[tree.Expression] = []
        while not self.sees(")"):
            keys.append(self.expression())
            if not self.accept(","):
                break
        self.expect(")", "after the keys of a select")
        self.expect("{", "of the cases of a select")
        cases: list[tree.SelectBranch] = []
        while not self.accept("}"):
            set_ = self.key_set()
            self.expect(":", "after the values of a case")
            name = self.name("the name of a state")
            self.expect(";", "after a case")
            cases.append(tree.SelectBranch(set_.span, set_, tree.Name(name.span, name.text)))
        self.accept(";")
        return tree.Select(word.span, tuple(keys), tuple(cases))

    def _control(self, notes: tree.Annotations) -> tree.ControlDeclaration:
        self.take()
        name = self.name("the name of a control")
        self.declare(name.text, is_type=True)
        with self.scope():
            types = self.type_parameters()
            parameters = self.parameters()
            if self.accept(";"):
                return tree.ControlDeclaration(name.span, name.text, notes, types, parameters, (), (), None)
            constructor = self.parameters() if self.sees("(") else ()
            self.expect("{", f"of the body of control {name.text!r}")
            locals_: list[tree.Declaration] = []
            body: tree.BlockStatement | None = None
            while body is None:
                if self.sees("}") or self.token.kind == lexer.END:
                    if self.diagnostics.has_errors():  # of what was to be the apply block, perhaps
                        body = tree.BlockStatement(name.span, (), name.span)
                        break
                    self.fail(f"'apply {{ ... }}' in control {name.text!r}")
                with self.recovering():
                    inner = self.annotations()
                    if self.sees("apply") and self.ahead().text in ("{", "@"):
                        self.take()
                        body = self.block()
                    else:
                        locals_.append(self._local(inner))
            self.expect("}", "after the apply block, which ends a control,")
        return tree.ControlDeclaration(
            name.span, name.text, notes, types, parameters, constructor, tuple(locals_), body
        )

    def _local(self, notes: tree.Annotations) -> tree.Declaration:
        """A declaration in a parser or control."""
        if self.sees("const"):
            return self.constant(notes)
        if self.sees("action"):
            return self._action(notes)
        if self.sees("table"):
            return self.table(notes)
        if self.sees("value_set"):
            return self._value_set(notes)
        if self.sees("state") or not self.starts_type():
            self.fail("a declaration")
        type_ = self.type()
        if self.sees("("):
            return self.instance(type_, notes)
        out = self.variable(type_, notes)
        self.expect(";", f"after the declaration of {out.name!r}")
        return out

    def _value_set(self, notes: tree.Annotations) -> tree.ValueSetDeclaration:
        self.take()
        types = self.type_arguments()
        self.expect("(")
        size = self.expression()
        self.expect(")")
        name = self.name("the name of a value set")
        self.expect(";", "after a value set")
        self.declare(name.text)
        if len(types) != 1:
            raise Refusal(f"a value set has one type, not {len(types)}", name.span)
        return tree.ValueSetDeclaration(name.span, name.text, notes, types[0], size)
