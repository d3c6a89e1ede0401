"""Tokens under the parser's hand: looking ahead, taking, expecting, and finding the way after an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from p4compiler import lexer
from p4compiler.diagnostics import Diagnostics, Refusal, did_you_mean
from p4compiler.lexer import Token
from p4compiler.sources import SourceSpan

MAX_NESTING = 200  # of constructs in each other

_WORDS = """
    abstract action actions apply bit bool break const continue control default else entries enum error exit extern
    false for header header_union if in inout int key list match_kind out package parser pragma priority return select
    state string struct switch table this transition true tuple type typedef value_set varbit void _
"""
KEYWORDS = frozenset(_WORDS.split())
SOFT_KEYWORDS = frozenset({"apply", "key", "actions", "state", "entries", "type", "list", "priority", "pragma"})


class Cursor:
    """A position in the tokens, and which names are types there."""

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics) -> None:
        self.tokens = tokens
        self.diagnostics = diagnostics
        self.at = 0
        self._depth = 0
        self._scopes: list[dict[str, bool]] = [{}]  # name -> is it a type; `(a) - b` depends on it

    # --- looking and taking ---

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    def ahead(self, distance: int = 1) -> Token:
        """A token after the next."""
        return self.tokens[min(self.at + distance, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The next token, which is passed; END never is."""
        token = self.tokens[self.at]
        if token.kind == lexer.BAD:
            raise Refusal(lexer.why_bad(token), token.span)
        if token.kind != lexer.END:
            self.at += 1
        return token

    def sees(self, text: str) -> bool:
        """Whether the next token is this keyword or operator."""
        token = self.tokens[self.at]
        return token.text == text and token.kind in (lexer.OP, lexer.NAME)

    def accept(self, text: str) -> Token | None:
        """The next token if it is this keyword or operator; it is passed."""
        if not self.sees(text):
            return None
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, text: str, where: str = "") -> Token:
        """As `accept`, but anything else is an error; `where` says after what, or in what."""
        token = self.accept(text)
        if token is None:
            self.fail(f"{text!r}{' ' + where if where else ''}")
        return token

    def is_name(self, token: Token) -> bool:
        """Whether the token may be the name of something."""
        return token.kind == lexer.NAME and (token.text not in KEYWORDS or token.text in SOFT_KEYWORDS)

    def name(self, what: str = "a name") -> Token:
        """The next token, which is a name."""
        if not self.is_name(self.token):
            self.fail(what)
        return self.take()

    def close_angle(self) -> Token:
        """The ``>`` that ends type arguments; ``>=`` after them is cut."""
        token = self.token
        if token.text == ">=" and token.kind == lexer.OP:
            span = token.span
            first = token._replace(text=">", span=span._replace(end=span.start + 1))
            second = token._replace(text="=", span=span._replace(start=span.start + 1), glued=True)
            self.tokens[self.at : self.at + 1] = [first, second]
        return self.expect(">", "after the arguments of a type")

    # --- errors ---

    def fail(self, wanted: str) -> NoReturn:
        """Refuse the next token; `wanted` should stand there."""
        token = self.token
        if token.kind == lexer.BAD:
            raise Refusal(lexer.why_bad(token), token.span)
        found = "the end of the file" if token.kind == lexer.END else f"{token.text!r}"
        if token.kind == lexer.NAME and token.text in KEYWORDS:
            found = f"keyword {found}"
        hint = ""
        if self.is_name(token) and wanted.startswith("a declaration"):
            hint = did_you_mean(token.text, KEYWORDS)
        span = token.span
        if wanted.startswith("';'") and token.starts_line and self.at:  # the place where it is missing
            before = self.tokens[self.at - 1].span
            span = SourceSpan(before.source, before.end, before.end + 1, before.origin)
        raise Refusal(f"syntax error: {wanted} expected, found {found}{hint}", span)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Count the depth of constructs in each other; too many are an error that ends the run."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.diagnostics.error(f"nested more than {MAX_NESTING} deep", self.token.span)
            self.diagnostics.stop_on_errors()
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """Record an error that is raised inside, and go on after it."""
        try:
            yield
        except Refusal as refusal:
            self.diagnostics.add(refusal.diagnostic)
            self._skip()

    def _skip(self) -> None:
        """Go behind the ``;`` or the balanced braces that follow, or before an unbalanced ``}``."""
        depth = 0
        while self.token.kind != lexer.END:
            text = self.token.text if self.token.kind == lexer.OP else ""
            if text == "}" and depth == 0:
                return
            self.at += 1
            depth += (text == "{") - (text == "}")
            if depth == 0 and text in (";", "}"):
                return

    # --- names of types ---

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names that are declared inside are forgotten after."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def declare(self, name: str, *, is_type: bool = False) -> None:
        """From here on the name is a type, or is not."""
        self._scopes[-1][name] = is_type

    def is_type(self, name: str) -> bool:
        """Whether the name is that of a type."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return False
