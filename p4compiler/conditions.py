"""Conditions of ``#if`` and ``#elif``: whole numbers with C's operators."""

from __future__ import annotations

import re
from collections.abc import Callable

from p4compiler import lexer
from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.sources import SourceSpan

_MAX_DEPTH = 100
_LEVELS: dict[str, int] = {
    op: level
    for level, ops in enumerate(("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"))
    for op in ops.split()
}
_APPLY: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << min(max(b, 0), 64),
    ">>": lambda a, b: a >> min(max(b, 0), 64),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
}


def evaluate(tokens: list[Token], directive: SourceSpan) -> int:
    """The value of a condition whose macros are expanded and whose ``defined`` are numbers; raises Refusal."""
    reader = _Reader(tokens, directive)
    value = reader.choice(0)
    if reader.at < len(tokens):
        raise Refusal("this does not belong to a condition", tokens[reader.at].span)
    return value


class _Reader:
    def __init__(self, tokens: list[Token], directive: SourceSpan) -> None:
        self.tokens = tokens
        self.directive = directive
        self.at = 0

    def _text(self) -> str:
        if self.at >= len(self.tokens):
            return ""
        token = self.tokens[self.at]
        if token.text == ">" and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].text == ">":
            return ">>" if self.tokens[self.at + 1].glued else ">"
        return token.text

    def _take(self) -> None:
        self.at += 2 if self._text() == ">>" else 1

    def choice(self, depth: int) -> int:
        value = self.binary(0, depth)
        if self._text() != "?":
            return value
        self._take()
        yes = self.choice(depth + 1)
        self._expect(":")
        no = self.choice(depth + 1)
        return yes if value else no

    def binary(self, level: int, depth: int) -> int:
        if depth > _MAX_DEPTH:
            raise Refusal("a condition nested too deeply", self.directive)
        left = self.unary(depth)
        while _LEVELS.get(self._text(), -1) >= level:
            op = self._text()
            self._take()
            left = _APPLY[op](left, self.binary(_LEVELS[op] + 1, depth + 1))
            if abs(left) >> 256:
                raise Refusal("a number too large for a condition", self.directive)
        return left

    def unary(self, depth: int) -> int:
        if depth > _MAX_DEPTH:
            raise Refusal("a condition nested too deeply", self.directive)
        if self.at >= len(self.tokens):
            raise Refusal("a condition that ends too early", self.directive)
        token = self.tokens[self.at]
        self.at += 1
        if token.text == "!":
            return int(not self.unary(depth + 1))
        if token.text in ("-", "+", "~"):
            value = self.unary(depth + 1)
            return -value if token.text == "-" else ~value if token.text == "~" else value
        if token.text == "(":
            value = self.choice(depth + 1)
            self._expect(")")
            return value
        if token.kind == lexer.INT:
            if re.fullmatch(r"[uUlL]+", self._text()) and self.tokens[self.at].glued:
                self.at += 1
            return _number(token)
        if token.kind == lexer.NAME:
            return 1 if token.text == "true" else 0
        raise Refusal("a number expected in a condition", token.span)

    def _expect(self, text: str) -> None:
        if self._text() != text:
            span = self.tokens[self.at].span if self.at < len(self.tokens) else self.directive
            raise Refusal(f"{text!r} expected in a condition", span)
        self.at += 1


def _number(token: Token) -> int:
    text = token.text.replace("_", "")
    if len(text) > 80:
        raise Refusal("a number too large for a condition", token.span)
    try:
        return int(text, 8) if re.fullmatch(r"0[0-7]+", text) else int(text, 0)
    except ValueError:
        raise Refusal("a number expected in a condition", token.span) from None
