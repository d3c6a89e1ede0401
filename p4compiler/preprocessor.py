"""The preprocessor: obeys directives (``#include``, ``#define``, ``#if`` and the rest) and expands macros.

It works on tokens, line by line. Tokens between two directives are collected and expanded together, since the arguments
of a macro may go over several lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from p4compiler import conditions, lexer
from p4compiler.diagnostics import Diagnostics, P4Error, Refusal, did_you_mean
from p4compiler.lexer import Token
from p4compiler.macros import Macros
from p4compiler.sources import MAX_FILE_BYTES, Includes, NotReadableError, SourceSpan, SourceText

MAX_INCLUDE_DEPTH = 64
MAX_INCLUDES = 2_000
MAX_INCLUDED_BYTES = 4 * MAX_FILE_BYTES

_DIRECTIVES = ("include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error", "warning")
_IGNORED = ("pragma", "line")
_CONDITION = re.compile(r"[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|else|endif)\b")


@dataclass
class _Branch:
    """An open ``#if``: whether it is in a part that counts, a branch was taken, and this branch is taken."""

    directive: SourceSpan
    outer: bool
    taken: bool
    on: bool
    has_else: bool = False


class Preprocessor:
    """The state of one run: macros, and how much was included."""

    def __init__(self, includes: Includes, defines: Mapping[str, str], diagnostics: Diagnostics) -> None:
        self._includes = includes
        self._diagnostics = diagnostics
        self._macros = Macros()
        self._files = 0
        self._characters = 0
        self._read = 0  # tokens of all files
        self._out: list[Token] = []
        for name, value in defines.items():
            self._define(name, value)

    def _define(self, name: str, value: str) -> None:
        try:
            self._macros.define_text(name, value)
        except Refusal as refusal:
            self._diagnostics.add(refusal.diagnostic)

    def run(self, source: SourceText) -> list[Token]:
        """The tokens of a program, the last of kind END; raises P4Error if there were errors."""
        self._file(source, 0)
        self._out.append(Token(lexer.END, "", SourceSpan(source, len(source.text), len(source.text)), starts_line=True))
        self._diagnostics.stop_on_errors()
        return self._out

    def _file(self, source: SourceText, depth: int) -> None:
        try:
            tokens = lexer.tokens(source, lexer.MAX_TOKENS - self._read)
        except Refusal as refusal:
            self._diagnostics.add(refusal.diagnostic)
            raise P4Error(self._diagnostics.all()) from None
        self._read += len(tokens)
        branches: list[_Branch] = []
        text: list[Token] = []
        at = 0
        while tokens[at].kind != lexer.END:
            token = tokens[at]
            at += 1
            if not (token.text == "#" and token.starts_line):
                if not branches or branches[-1].on:
                    text.append(self._string(token, source, depth) if token.kind == lexer.STRING else token)
                continue
            start = at
            while not tokens[at].starts_line:
                at += 1
            self._flush(text)
            text = []
            try:
                self._directive(token, tokens[start:at], branches, source, depth)
            except Refusal as refusal:
                self._diagnostics.add(refusal.diagnostic)
        self._flush(text)
        for branch in branches:
            self._diagnostics.error("#if without #endif", branch.directive)

    def _string(self, token: Token, source: SourceText, depth: int) -> Token:
        """A string over several lines, in which conditions are obeyed: C, which p4c leaves this to, has none such."""
        lines = source.text[token.span.start : token.span.end].split("\n")
        if not any(map(_CONDITION.match, lines[1:])):
            return token
        branches: list[_Branch] = []
        out = lines[:1]
        start = token.span.start + len(lines[0]) + 1
        for line in lines[1:]:
            end = start + len(line)
            if _CONDITION.match(line):
                mark, *words = lexer.scan(source, start, end)[:-1]
                try:
                    self._directive(mark, words, branches, source, depth)
                except Refusal as refusal:
                    self._diagnostics.add(refusal.diagnostic)
                line = ""
            out.append(line if not branches or branches[-1].on else "")
            start = end + 1
        for branch in branches:
            self._diagnostics.error("#if without #endif in the string that it is in", branch.directive)
        return token._replace(text="\n".join(out))

    def _flush(self, text: list[Token]) -> None:
        try:
            self._out += self._macros.expand(text)
        except Refusal as refusal:
            self._diagnostics.add(refusal.diagnostic)

    def _directive(
        self, mark: Token, line: list[Token], branches: list[_Branch], source: SourceText, depth: int
    ) -> None:
        if not line:
            return
        word, rest = line[0].text, line[1:]
        span = mark.span.to(line[0].span)
        on = not branches or branches[-1].on
        if word in ("if", "ifdef", "ifndef"):
            branch = _Branch(span, on, taken=True, on=False)  # after an error in the condition no part counts
            branches.append(branch)
            branch.taken = branch.on = on and self._condition(word, rest, span)
        elif word in ("elif", "else", "endif"):
            self._branch(word, rest, branches, span)
        elif not on or line[0].kind == lexer.INT or word in _IGNORED:
            return
        elif word == "define":
            self._macros.define(rest, span)
        elif word == "undef":
            if not rest:
                raise Refusal("#undef needs a name", span)
            self._macros.defined.pop(rest[0].text, None)
        elif word == "include":
            self._include(rest, source, span, depth)
        elif word in ("error", "warning"):
            self._message(word, rest, source, span)
        else:
            raise Refusal(f"#{word} is not a directive{did_you_mean(word, _DIRECTIVES)}", span)

    def _message(self, word: str, rest: list[Token], source: SourceText, span: SourceSpan) -> None:
        text = source.text[rest[0].span.start : rest[-1].span.end] if rest else ""
        if word == "error":
            raise Refusal(f"#error {text}".rstrip(), span)
        self._diagnostics.warning("user", f"#warning {text}".rstrip(), span)

    def _branch(self, word: str, rest: list[Token], branches: list[_Branch], span: SourceSpan) -> None:
        if not branches:
            raise Refusal(f"#{word} without #if", span)
        branch = branches[-1]
        if word == "endif":
            branches.pop()
            return
        if branch.has_else:
            raise Refusal(f"#{word} after #else", span)
        branch.has_else = word == "else"
        branch.on = branch.outer and not branch.taken and (word == "else" or self._condition("if", rest, span))
        branch.taken = branch.taken or branch.on

    def _condition(self, word: str, rest: list[Token], span: SourceSpan) -> bool:
        if word != "if":
            if not rest or rest[0].kind != lexer.NAME:
                raise Refusal(f"#{word} needs a name", span)
            return (rest[0].text in self._macros.defined) == (word == "ifdef")
        tokens: list[Token] = []
        at = 0
        while at < len(rest):
            if rest[at].text == "defined":
                in_parentheses = at + 1 < len(rest) and rest[at + 1].text == "("
                at += 2 if in_parentheses else 1
                if at >= len(rest):
                    raise Refusal("'defined' needs a name", span)
                value = str(int(rest[at].text in self._macros.defined))
                tokens.append(rest[at]._replace(kind=lexer.INT, text=value))
                at += 1
                if in_parentheses:
                    at += 1
            else:
                tokens.append(rest[at])
                at += 1
        return bool(conditions.evaluate(self._macros.expand(tokens), span))

    def _include(self, rest: list[Token], source: SourceText, span: SourceSpan, depth: int) -> None:
        if rest and rest[0].kind == lexer.NAME:
            rest = self._macros.expand(rest)
        if rest and rest[0].kind == lexer.STRING:
            name, quoted = rest[0].text[1:-1], True
        elif len(rest) > 2 and rest[0].text == "<":
            close = next((i for i, token in enumerate(rest) if token.text == ">"), None)
            if close is None:
                raise Refusal("'>' expected after the name of a file", rest[0].span)
            name, quoted = "".join(token.text for token in rest[1:close]), False
        else:
            raise Refusal('#include needs "file" or <file>', span)
        place = span.to(rest[-1].span)
        self._files += 1
        if depth >= MAX_INCLUDE_DEPTH:
            raise Refusal(
                f"files that include each other more than {MAX_INCLUDE_DEPTH} deep; is a guard missing?", place
            )
        if self._files > MAX_INCLUDES:
            raise Refusal(f"more than {MAX_INCLUDES:,} files are included", place)
        try:
            found = self._includes.find(name, source, quoted=quoted)
        except NotReadableError as error:
            raise Refusal(str(error), place) from None
        self._characters += len(found.text)
        if self._characters > MAX_INCLUDED_BYTES:
            raise Refusal(f"more than {MAX_INCLUDED_BYTES >> 20} MiB are included", place)
        self._file(found, depth + 1)
