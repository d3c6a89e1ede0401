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


class ExpressionParser:
    """Parses types and expressions."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    # --- types ---

    def starts_type(self) -> bool:
        """Whether a type can stand here."""
        token = self._cursor.token
        if token.text == ".":
            return True
        known = token.text in _PLAIN_TYPES or token.text in _SIZED_TYPES or token.text == "tuple"
        return token.kind == lexer.NAME and (known or self._cursor.is_name(token))

    def type(self) -> tree.TypeNode:
        """A type, with ``[size]`` after it."""
        with self._cursor.nested():
            return self.array(self._single_type())

    def array(self, element: tree.TypeNode) -> tree.TypeNode:
        """What ``[size]`` after a type, or after the name that it is the type of, makes of it."""
        while self._cursor.accept("["):
            size = self.expression()
            end = self._cursor.expect("]", "after the size of a stack")
            element = tree.StackTypeNode(element.span.to(end.span), element, size)
        return element

    def _single_type(self) -> tree.TypeNode:
        token = self._cursor.token
        if token.kind == lexer.NAME and token.text in _SIZED_TYPES:
            self._cursor.take()
            if not self._cursor.sees("<"):
                return tree.PlainTypeNode(token.span, "int") if token.text == "int" else self._without_width(token)
            self._cursor.take()
            if self._cursor.accept("("):
                width = self.expression()
                self._cursor.expect(")")
            else:
                width = self._binary(_LEVELS["++"])
            end = self._cursor.close_angle()
            return tree.SizedTypeNode(token.span.to(end.span), token.text, width)
        if token.kind == lexer.NAME and token.text in _PLAIN_TYPES:
            self._cursor.take()
            return tree.PlainTypeNode(token.span, token.text)
        if token.kind == lexer.NAME and token.text in ("tuple", "list") and self._cursor.ahead().text == "<":
            self._cursor.take()
            items = self.type_arguments()
            span = token.span.to(self._cursor.tokens[self._cursor.at - 1].span)
            if token.text == "tuple":
                return tree.TupleTypeNode(span, items)
            if len(items) != 1:
                raise Refusal(f"a list has one type of elements, not {len(items)}", span)
            return tree.ListTypeNode(span, items[0])
        absolute = bool(self._cursor.accept("."))
        name = self._cursor.name("a type")
        arguments = self.type_arguments() if self._cursor.sees("<") else ()
        return tree.NamedTypeNode(name.span, name.text, arguments, absolute)

    def _without_width(self, token: Token) -> tree.TypeNode:
        if token.text == "varbit":
            raise Refusal("varbit needs a greatest width: varbit<N>", token.span)
        return tree.SizedTypeNode(token.span, token.text, None)

    def type_arguments(self) -> tuple[tree.TypeNode, ...]:
        """``<types>``."""
        self._cursor.expect("<")
        out: list[tree.TypeNode] = []
        while not self._cursor.sees(">"):
            out.append(self.type())
            if not self._cursor.accept(","):
                break
        self._cursor.close_angle()
        return tuple(out)

    # --- expressions ---

    def expression(self) -> tree.Expression:
        """An expression."""
        with self._cursor.nested():
            condition = self._binary(0)
            if not self._cursor.accept("?"):
                return condition
            yes = self.expression()
            self._cursor.expect(":", "between the two values of '?'")
            no = self.expression()
            return tree.ChoiceExpression(condition.span.to(no.span), condition, yes, no)

    def operator(self) -> str:
        """The operator that stands here, which may be of two tokens; "" for anything else."""
        token = self._cursor.token
        if token.kind != lexer.OP:
            return ""
        if token.text == ">" and self._cursor.ahead().glued and self._cursor.ahead().kind == lexer.OP:
            following = self._cursor.ahead().text
            if following == ">":
                return ">>"
            if following == ">=":
                return ">>="
        return token.text

    def _binary(self, level: int) -> tree.Expression:
        left = self._unary()
        operands = 1
        while (op_level := _LEVELS.get(op := self.operator(), -1)) >= level:
            self._cursor.at += 2 if op == ">>" else 1
            with self._cursor.nested():
                right = self._binary(op_level + 1)
            left = tree.BinaryExpression(left.span.to(right.span), op, left, right)
            operands += 1
            if operands > MAX_OPERANDS:
                self._cursor.diagnostics.error(f"more than {MAX_OPERANDS} operands in one expression", right.span)
                self._cursor.diagnostics.stop_on_errors()
        return left

    def _unary(self) -> tree.Expression:
        token = self._cursor.token
        if token.kind == lexer.OP:
            if token.text in ("!", "~", "-", "+"):
                self._cursor.take()
                with self._cursor.nested():
                    operand = self._unary()
                return tree.UnaryExpression(token.span.to(operand.span), token.text, operand)
            if token.text == "(":
                cast = self._cast()
                if cast is not None:
                    return cast
        return self.postfix()

    def _cast(self) -> tree.Expression | None:
        """``(type) operand``, if that is what stands here."""
        start, first = self._cursor.at, self._cursor.ahead()
        certain = first.kind == lexer.NAME and (
            first.text in _SIZED_TYPES or first.text in _PLAIN_TYPES or first.text == "tuple"
        )
        if not certain and not (self._cursor.is_name(first) or first.text == "."):
            return None
        if first.text == "error" and self._cursor.ahead(2).text == ".":
            return None
        opening = self._cursor.take()
        try:
            type_ = self.type()
            closed = bool(self._cursor.accept(")"))
        except Refusal:
            if certain:
                raise
            closed = False
        if closed and (certain or self._operand_follows(first)):
            with self._cursor.nested():
                operand = self._unary()
            return tree.CastExpression(opening.span.to(operand.span), type_, operand)
        self._cursor.at = start
        return None

    def _operand_follows(self, first: Token) -> bool:
        """Whether what follows a name in parentheses makes it a cast."""
        token = self._cursor.token
        if token.kind in (lexer.INT, lexer.STRING):
            return True
        if token.kind == lexer.NAME:
            return self._cursor.is_name(token) or token.text in ("true", "false", "error", "bit", "int", "this")
        if token.text in ("-", "+"):
            return first.text == "." or self._cursor.is_type(first.text)
        return token.text in _STARTS_OPERAND and token.text != "."

    def postfix(self) -> tree.Expression:
        """A primary expression, with members, indices, slices and calls after it."""
        out = self._primary()
        length = 0
        while True:
            length += 1
            if length > MAX_OPERANDS:
                self._cursor.diagnostics.error(
                    f"more than {MAX_OPERANDS} members and calls after each other", self._cursor.token.span
                )
                self._cursor.diagnostics.stop_on_errors()
            if self._cursor.accept("."):
                name = self._cursor.name("the name of a member")
                out = tree.MemberExpression(out.span.to(name.span), out, name.text, name.span)
            elif self._cursor.accept("["):
                out = self._index(out)
            elif self._cursor.sees("("):
                arguments = self.arguments()
                out = tree.CallExpression(
                    out.span.to(self._cursor.tokens[self._cursor.at - 1].span), out, (), arguments
                )
            elif self._cursor.sees("<") and isinstance(out, tree.Name | tree.MemberExpression) and self._generic(out):
                types = self.type_arguments()
                if isinstance(out, tree.Name) and self._cursor.sees("."):
                    out = tree.TypeExpression(out.span, tree.NamedTypeNode(out.span, out.name, types, out.absolute))
                    continue
                arguments = self.arguments()
                out = tree.CallExpression(
                    out.span.to(self._cursor.tokens[self._cursor.at - 1].span), out, types, arguments
                )
            else:
                return out

    def _generic(self, of: tree.Expression) -> bool:
        """Whether type arguments of a function, method or type follow, rather than a comparison."""
        start = self._cursor.at
        try:
            self.type_arguments()
            return self._cursor.sees("(") or (isinstance(of, tree.Name) and self._cursor.sees("."))
        except Refusal:
            return False
        finally:
            self._cursor.at = start

    def _index(self, base: tree.Expression) -> tree.Expression:
        first = self.expression()
        if self._cursor.accept("+:"):
            second = self.expression()
            end = self._cursor.expect("]", "after a slice")
            return tree.SliceExpression(base.span.to(end.span), base, first, second, True)
        if self._cursor.accept(":"):
            second = self.expression()
            end = self._cursor.expect("]", "after a slice")
            return tree.SliceExpression(base.span.to(end.span), base, first, second, False)
        end = self._cursor.expect("]", "after an index")
        return tree.IndexExpression(base.span.to(end.span), base, first)

    def _primary(self) -> tree.Expression:
        token = self._cursor.token
        if token.kind == lexer.INT:
            return self.number()
        if token.kind == lexer.STRING:
            self._cursor.take()
            text = tree.unquoted(token.text)
            while self._cursor.token.kind == lexer.STRING:
                text += tree.unquoted(self._cursor.take().text)
            return tree.StringLiteral(token.span, text)
        if token.kind == lexer.NAME:
            if token.text in ("true", "false"):
                self._cursor.take()
                return tree.BooleanLiteral(token.span, token.text == "true")
            if token.text == "this":
                self._cursor.take()
                return tree.Name(token.span, "this")
            if token.text in _SIZED_TYPES or token.text in ("error", "tuple", "bool"):
                type_ = self.type()
                return tree.TypeExpression(type_.span, type_)
        elif token.text == "(":
            self._cursor.take()
            inner = self.expression()
            self._cursor.expect(")")
            return inner
        elif token.text == "{":
            return self._literal()
        elif token.text == "{#}":
            self._cursor.take()
            return tree.InvalidHeader(token.span)
        elif token.text == "...":
            self._cursor.take()
            return tree.DefaultLiteral(token.span)
        elif token.text == ".":
            self._cursor.take()
            name = self._cursor.name()
            return tree.Name(name.span, name.text, True)
        name = self._cursor.name("an expression")
        return tree.Name(name.span, name.text)

    def number(self) -> tree.NumberLiteral:
        """A whole number."""
        token = self._cursor.take()
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
        start = self._cursor.take()
        items: list[tree.Expression] = []
        fields: list[tree.NamedValue] = []
        rest = False
        while not self._cursor.sees("}"):
            if self._cursor.sees("...") and self._cursor.ahead().text in ("}", ","):
                self._cursor.take()
                rest = True
            elif self._cursor.is_name(self._cursor.token) and self._cursor.ahead().text == "=":
                name = self._cursor.take()
                self._cursor.take()
                fields.append(tree.NamedValue(name.span, name.text, self.expression()))
            else:
                items.append(self.expression())
            if not self._cursor.accept(","):
                break
        end = self._cursor.expect("}", "after the values of a list")
        span = start.span.to(end.span)
        if fields and items:
            raise Refusal("a list with values both with and without names", span)
        if fields or (rest and not items):
            return tree.RecordLiteral(span, tuple(fields), rest)
        return tree.ListLiteral(span, tuple(items), rest)

    def arguments(self) -> tuple[tree.Argument, ...]:
        """``(arguments)``."""
        self._cursor.expect("(")
        out: list[tree.Argument] = []
        with self._cursor.nested():
            while not self._cursor.sees(")"):
                out.append(self._argument())
                if not self._cursor.accept(","):
                    break
        self._cursor.expect(")", "after the arguments")
        return tuple(out)

    def _argument(self) -> tree.Argument:
        token = self._cursor.token
        name = None
        if self._cursor.is_name(token) and self._cursor.ahead().text == "=":
            name = self._cursor.take().text
            self._cursor.take()
        if self._cursor.sees("_"):
            return tree.Argument(self._cursor.take().span, name, None)
        value = self.expression()
        span: SourceSpan = value.span if name is None else token.span
        return tree.Argument(span, name, value)

    # --- sets ---

    def key_set(self) -> tree.Expression:
        """The set of a select case or an entry; SetTuple where it is for several keys."""
        if self._cursor.sees("("):
            start = self._cursor.at
            opening = self._cursor.take()
            items = [self.simple_set()]
            while self._cursor.accept(",") and not self._cursor.sees(")"):
                items.append(self.simple_set())
            if (close := self._cursor.accept(")")) and (len(items) > 1 or self._cursor.sees(":")):
                return tree.SetTuple(opening.span.to(close.span), tuple(items))
            self._cursor.at = start
        return self.simple_set()

    def simple_set(self) -> tree.Expression:
        """A value, ``a &&& b``, ``a .. b``, ``default`` or ``_``."""
        token = self._cursor.token
        if self._cursor.sees("default") or self._cursor.sees("_"):
            self._cursor.take()
            return tree.AnyValue(token.span, token.text == "default")
        value = self.expression()
        if self._cursor.accept("&&&"):
            mask = self.expression()
            return tree.MaskExpression(value.span.to(mask.span), value, mask)
        if self._cursor.accept(".."):
            high = self.expression()
            return tree.RangeExpression(value.span.to(high.span), value, high)
        return value
