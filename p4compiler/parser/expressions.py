"""Types and expressions (in one layer, since each holds the other), sets of select and entries, arguments."""

from __future__ import annotations

import re

from p4compiler import lexer, tree
from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.parser.cursor import Cursor
from p4compiler.sources import SourceSpan

MAX_OPERANDS = 500  # in a chain without parentheses
MAX_NUMBER_DIGITS = 1_000
MAX_WIDTH = 65_536  # bits of a number

_LEVELS = {
    op: level
    for level, ops in enumerate(
        ("||", "&&", "== !=", "< > <= >=", "|", "^", "&", "<< >>", "++ + - |+| |-|", "* / %")  # by rising precedence
    )
    for op in ops.split()
}
_PLAIN_TYPES = frozenset(["bool", "error", "string", "void", "match_kind", "_"])
_SIZED_TYPES = frozenset(["bit", "int", "varbit"])
_NUMBER = re.compile(r"(?:(?P<width>[0-9]+)(?P<sign>[ws]))?(?P<digits>0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|.+)")
_BASES = {"0x": 16, "0b": 2, "0o": 8, "0d": 10}
_STARTS_OPERAND = frozenset(["(", "{", "!", "~", "-", "+", ".", "{#}"])


class ExpressionParser(Cursor):
    """Parses types and expressions."""

    # --- types ---

    def starts_type(self) -> bool:
        """Whether a type can stand here."""
        token = self.token
        if token.text == ".":
            return True
        known = token.text in _PLAIN_TYPES or token.text in _SIZED_TYPES or token.text == "tuple"
        return token.kind == lexer.NAME and (known or self.is_name(token))

    def type(self) -> tree.TypeNode:
        """A type, with ``[size]`` after it."""
        with self.nested():
            return self.array(self._single_type())

    def array(self, element: tree.TypeNode) -> tree.TypeNode:
        """What ``[size]`` after a type, or after the name that it is the type of, makes of it."""
        while self.accept("["):
            size = self.expression()
            end = self.expect("]", "after the size of a stack")
            element = tree.StackTypeNode(element.span.to(end.span), element, size)
        return element

    def _single_type(self) -> tree.TypeNode:
        token = self.token
        if token.kind == lexer.NAME and token.text in _SIZED_TYPES:
            self.take()
            if not self.sees("<"):
                return tree.PlainTypeNode(token.span, "int") if token.text == "int" else self._without_width(token)
            self.take()
            if self.accept("("):
                width = self.expression()
                self.expect(")")
            else:
                width = self._binary(_LEVELS["++"])
            end = self.close_angle()
            return tree.SizedTypeNode(token.span.to(end.span), token.text, width)
        if token.kind == lexer.NAME and token.text in _PLAIN_TYPES:
            self.take()
            return tree.PlainTypeNode(token.span, token.text)
        if token.kind == lexer.NAME and token.text in ("tuple", "list") and self.ahead().text == "<":
            self.take()
            items = self.type_arguments()
            span = token.span.to(self.tokens[self.at - 1].span)
            if token.text == "tuple":
                return tree.TupleTypeNode(span, items)
            if len(items) != 1:
                raise Refusal(f"a list has one type of elements, not {len(items)}", span)
            return tree.ListTypeNode(span, items[0])
        absolute = bool(self.accept("."))
        name = self.name("a type")
        arguments = self.type_arguments() if self.sees("<") else ()
        return tree.NamedTypeNode(name.span, name.text, arguments, absolute)

    def _without_width(self, token: Token) -> tree.TypeNode:
        if token.text == "varbit":
            raise Refusal("varbit needs a greatest width: varbit<N>", token.span)
        return tree.SizedTypeNode(token.span, token.text, None)

    def type_arguments(self) -> tuple[tree.TypeNode, ...]:
        """``<types>``."""
        self.expect("<")
        out: list[tree.TypeNode] = []
        while not self.sees(">"):
            out.append(self.type())
            if not self.accept(","):
                break
        self.close_angle()
        return tuple(out)

    # --- expressions ---

    def expression(self) -> tree.Expression:
        """An expression."""
        with self.nested():
            condition = self._binary(0)
            if not self.accept("?"):
                return condition
            yes = self.expression()
            self.expect(":", "between the two values of '?'")
            no = self.expression()
            return tree.ChoiceExpression(condition.span.to(no.span), condition, yes, no)

    def _operator(self) -> str:
        token = self.token
        if token.kind != lexer.OP:
            return ""
        if token.text == ">" and self.ahead().glued and self.ahead().kind == lexer.OP:
            following = self.ahead().text
            if following == ">":
                return ">>"
            if following == ">=":
                return ">>="
        return token.text

    def _binary(self, level: int) -> tree.Expression:
        left = self._unary()
        operands = 1
        while (op_level := _LEVELS.get(op := self._operator(), -1)) >= level:
            self.at += 2 if op == ">>" else 1
            with self.nested():
                right = self._binary(op_level + 1)
            left = tree.BinaryExpression(left.span.to(right.span), op, left, right)
            operands += 1
            if operands > MAX_OPERANDS:
                self.diagnostics.error(f"more than {MAX_OPERANDS} operands in one expression", right.span)
                self.diagnostics.stop_on_errors()
        return left

    def _unary(self) -> tree.Expression:
        token = self.token
        if token.kind == lexer.OP:
            if token.text in ("!", "~", "-", "+"):
                self.take()
                with self.nested():
                    operand = self._unary()
                return tree.UnaryExpression(token.span.to(operand.span), token.text, operand)
            if token.text == "(":
                cast = self._cast()
                if cast is not None:
                    return cast
        return self.postfix()

    def _cast(self) -> tree.Expression | None:
        """``(type) operand``, if that is what stands here."""
        start, first = self.at, self.ahead()
        certain = first.kind == lexer.NAME and (
            first.text in _SIZED_TYPES or first.text in _PLAIN_TYPES or first.text == "tuple"
        )
        if not certain and not (self.is_name(first) or first.text == "."):
            return None
        if first.text == "error" and self.ahead(2).text == ".":
            return None
        opening = self.take()
        try:
            type_ = self.type()
            closed = bool(self.accept(")"))
        except Refusal:
            if certain:
                raise
            closed = False
        if closed and (certain or self._operand_follows(first)):
            with self.nested():
                operand = self._unary()
            return tree.CastExpression(opening.span.to(operand.span), type_, operand)
        self.at = start
        return None

    def _operand_follows(self, first: Token) -> bool:
        """Whether what follows a name in parentheses makes it a cast."""
        token = self.token
        if token.kind in (lexer.INT, lexer.STRING):
            return True
        if token.kind == lexer.NAME:
            return self.is_name(token) or token.text in ("true", "false", "error", "bit", "int", "this")
        if token.text in ("-", "+"):
            return first.text == "." or self.is_type(first.text)
        return token.text in _STARTS_OPERAND and token.text != "."

    def postfix(self) -> tree.Expression:
        """A primary expression, with members, indices, slices and calls after it."""
        out = self._primary()
        length = 0
        while True:
            length += 1
            if length > MAX_OPERANDS:
                self.diagnostics.error(f"more than {MAX_OPERANDS} members and calls after each other", self.token.span)
                self.diagnostics.stop_on_errors()
            if self.accept("."):
                name = self.name("the name of a member")
                out = tree.MemberExpression(out.span.to(name.span), out, name.text, name.span)
            elif self.accept("["):
                out = self._index(out)
            elif self.sees("("):
                arguments = self.arguments()
                out = tree.CallExpression(out.span.to(self.tokens[self.at - 1].span), out, (), arguments)
            elif self.sees("<") and isinstance(out, tree.Name | tree.MemberExpression) and self._generic_call():
                types = self.type_arguments()
                if self.accept("."):
                    self.at -= 1
                    assert isinstance(out, tree.Name)
                    out = tree.TypeExpression(out.span, tree.NamedTypeNode(out.span, out.name, types, out.absolute))
                    continue
                arguments = self.arguments()
                out = tree.CallExpression(out.span.to(self.tokens[self.at - 1].span), out, types, arguments)
            else:
                return out

    def _generic_call(self) -> bool:
        """Whether type arguments and then a parenthesis follow, rather than a comparison."""
        start = self.at
        try:
            self.type_arguments()
            return self.sees("(") or (self.sees(".") and self.tokens[start - 1].kind == lexer.NAME)
        except Refusal:
            return False
        finally:
            self.at = start

    def _index(self, base: tree.Expression) -> tree.Expression:
        first = self.expression()
        if self.accept("+:"):
            second = self.expression()
            end = self.expect("]", "after a slice")
            return tree.SliceExpression(base.span.to(end.span), base, first, second, True)
        if self.accept(":"):
            second = self.expression()
            end = self.expect("]", "after a slice")
            return tree.SliceExpression(base.span.to(end.span), base, first, second, False)
        end = self.expect("]", "after an index")
        return tree.IndexExpression(base.span.to(end.span), base, first)

    def _primary(self) -> tree.Expression:
        token = self.token
        if token.kind == lexer.INT:
            return self.number()
        if token.kind == lexer.STRING:
            self.take()
            text = tree.unquoted(token.text)
            while self.token.kind == lexer.STRING:
                text += tree.unquoted(self.take().text)
            return tree.StringLiteral(token.span, text)
        if token.kind == lexer.NAME:
            if token.text in ("true", "false"):
                self.take()
                return tree.BooleanLiteral(token.span, token.text == "true")
            if token.text == "this":
                self.take()
                return tree.Name(token.span, "this")
            if token.text in _SIZED_TYPES or token.text in ("error", "tuple", "bool"):
                type_ = self.type()
                return tree.TypeExpression(type_.span, type_)
        elif token.text == "(":
            self.take()
            inner = self.expression()
            self.expect(")")
            return inner
        elif token.text == "{":
            return self._literal()
        elif token.text == "{#}":
            self.take()
            return tree.InvalidHeader(token.span)
        elif token.text == "...":
            self.take()
            return tree.DefaultLiteral(token.span)
        elif token.text == ".":
            self.take()
            name = self.name()
            return tree.Name(name.span, name.text, True)
        name = self.name("an expression")
        return tree.Name(name.span, name.text)

    def number(self) -> tree.NumberLiteral:
        """A whole number."""
        token = self.take()
        match = _NUMBER.fullmatch(token.text)
        assert match is not None
        digits = match["digits"].replace("_", "")
        base = _BASES.get(digits[:2].lower(), 10)
        if base != 10 or digits[:2].lower() == "0d":
            digits = digits[2:]
        if len(digits) > MAX_NUMBER_DIGITS:
            raise Refusal(f"a number of more than {MAX_NUMBER_DIGITS} digits", token.span)
        try:
            value = int(digits, base)
        except ValueError:
            raise Refusal(f"{token.text!r} is not a number", token.span) from None
        width = None
        if match["width"]:
            width = int(match["width"][:9])
            if width > MAX_WIDTH:
                raise Refusal(f"a number of more than {MAX_WIDTH} bits", token.span)
        return tree.NumberLiteral(token.span, value, width, match["sign"] == "s", token.text)

    def _literal(self) -> tree.Expression:
        start = self.take()
        items: list[tree.Expression] = []
        fields: list[tree.NamedValue] = []
        rest = False
        while not self.sees("}"):
            if self.sees("...") and self.ahead().text in ("}", ","):
                self.take()
                rest = True
            elif self.is_name(self.token) and self.ahead().text == "=":
                name = self.take()
                self.take()
                fields.append(tree.NamedValue(name.span, name.text, self.expression()))
            else:
                items.append(self.expression())
            if not self.accept(","):
                break
        end = self.expect("}", "after the values of a list")
        span = start.span.to(end.span)
        if fields and items:
            raise Refusal("a list with values both with and without names", span)
        if fields or (rest and not items):
            return tree.RecordLiteral(span, tuple(fields), rest)
        return tree.ListLiteral(span, tuple(items), rest)

    def arguments(self) -> tuple[tree.Argument, ...]:
        """``(arguments)``."""
        self.expect("(")
        out: list[tree.Argument] = []
        with self.nested():
            while not self.sees(")"):
                out.append(self._argument())
                if not self.accept(","):
                    break
        self.expect(")", "after the arguments")
        return tuple(out)

    def _argument(self) -> tree.Argument:
        token = self.token
        name = None
        if self.is_name(token) and self.ahead().text == "=":
            name = self.take().text
            self.take()
        if self.sees("_"):
            return tree.Argument(self.take().span, name, None)
        value = self.expression()
        span: SourceSpan = value.span if name is None else token.span
        return tree.Argument(span, name, value)

    # --- sets ---

    def key_set(self) -> tree.Expression:
        """The set of a select case or an entry; SetTuple where it is for several keys."""
        if self.sees("("):
            start = self.at
            opening = self.take()
            items = [self.simple_set()]
            while self.accept(",") and not self.sees(")"):
                items.append(self.simple_set())
            if (close := self.accept(")")) and (len(items) > 1 or self.sees(":")):
                return tree.SetTuple(opening.span.to(close.span), tuple(items))
            self.at = start
        return self.simple_set()

    def simple_set(self) -> tree.Expression:
        """A value, ``a &&& b``, ``a .. b``, ``default`` or ``_``."""
        token = self.token
        if self.sees("default") or self.sees("_"):
            self.take()
            return tree.AnyValue(token.span, token.text == "default")
        value = self.expression()
        if self.accept("&&&"):
            mask = self.expression()
            return tree.MaskExpression(value.span.to(mask.span), value, mask)
        if self.accept(".."):
            high = self.expression()
            return tree.RangeExpression(value.span.to(high.span), value, high)
        return value
