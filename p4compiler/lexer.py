"""Tokens of a source text.

Nothing is refused here but too many tokens: text that is no token (a string or comment without end, a stray character)
becomes a token of kind ``bad``, which the parser reports if it gets there, since it may stand in a part that ``#if``
leaves out.

As in C a name or string goes on in the next line after a backslash at the end of one.

``>>`` is two tokens, of which the second is `glued`, so that ``stack<bit<8>>`` needs no care; the parser joins them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from p4compiler.diagnostics import Refusal
from p4compiler.sources import SourceSpan, SourceText

MAX_TOKENS = 300_000  # of a program, with what it includes
NAME, INT, STRING, OP, BAD, END = "name", "int", "string", "op", "bad", "end"

_TOKEN = re.compile(
    r"""
      (?P<newline>\n)
    | (?P<space>[ \t\r\f\v]+|\\\r?\n|//[^\n\\]*(?:\\(?:\r?\n|.)?[^\n\\]*)*|/\*(?s:.*?)\*/)
    | (?P<string>"[^"\\]*(?s:\\.[^"\\]*)*")
    | (?P<int>(?:[0-9]+[ws])?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[dD][0-9_]+|[0-9][0-9_]*))
    | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*(?:\\\r?\n[A-Za-z0-9_$]+)*)
    | (?P<bad>/\*(?s:.*)|"[^\n]*|[^\x00-\x7f]+|[\x00-\x1f\x7f'`\\$])
    | (?P<op>\{\#\}|\|\+\|=|\|-\|=|&&&=?|\.\.\.|<<=|\|\+\||\|-\||\+\+|\+:|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<|<=|>=|==|!=|&&
            |\|\||\.\.|\#\#|[!-~])
    """,
    re.X,
)
_CONTINUATION = re.compile(r"\\\r?\n")


class Token(NamedTuple):
    """A token; `glued`: no space before it; `starts_line`; `hidden`: macros that do not expand it again."""

    kind: str
    text: str
    span: SourceSpan
    glued: bool = False
    starts_line: bool = False
    hidden: frozenset[str] = frozenset()


def tokens(source: SourceText, limit: int = MAX_TOKENS) -> list[Token]:
    """All tokens of a source after its byte order mark; the last is of kind END. Refuses more than `limit`."""
    return scan(source, 1 if source.text.startswith("\ufeff") else 0, len(source.text), limit)


def scan(source: SourceText, start: int, end: int, limit: int = MAX_TOKENS) -> list[Token]:
    """The tokens of a part of a source, and END; raises Refusal at the first that is too many."""
    out: list[Token] = []
    glued, fresh = False, True
    for match in _TOKEN.finditer(source.text, start, end):
        kind = match.lastgroup
        if kind == "newline":
            glued, fresh = False, True
        elif kind == "space":
            glued = False
        else:
            assert kind is not None
            span, text = SourceSpan(source, match.start(), match.end()), match.group()
            if "\\" in text and kind in (NAME, STRING):
                text = _CONTINUATION.sub("", text)
            out.append(Token(kind, text, span, glued, fresh))
            if len(out) > limit:
                raise Refusal(f"a program of more than {MAX_TOKENS:,} tokens", span)
            glued, fresh = True, False
    out.append(Token(END, "", SourceSpan(source, end, end), starts_line=True))
    return out


def why_bad(token: Token) -> str:
    """What is wrong with a token of kind BAD."""
    if token.text.startswith("/*"):
        return "comment without end"
    if token.text.startswith('"'):
        return "string without end"
    return f"character {token.text[0]!r} is not part of the language"
