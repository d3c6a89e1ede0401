"""Annotations: what stands in them need not be of the language."""

from __future__ import annotations

from p4compiler import lexer, tree
from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.parser.cursor import Cursor


def parse_annotations(cursor: Cursor) -> tree.Annotations:
    """All annotations that stand here."""
    out: list[tree.Annotation] = []
    while cursor.sees("@"):
        out.append(_annotation(cursor))
    return tuple(out)


def _annotation(cursor: Cursor) -> tree.Annotation:
    at = cursor.take()
    if cursor.token.kind != lexer.NAME:
        cursor.fail("the name of an annotation")
    name = cursor.take()
    span = at.span.to(name.span)
    if name.text == "pragma":
        name = cursor.take()
        words: list[Token] = []
        while not cursor.token.starts_line:
            words.append(cursor.take())
        return tree.Annotation(span, name.text, tuple(words), False)
    if cursor.sees("(") or cursor.sees("["):
        opening = cursor.take()
        body = _balanced(cursor, opening)
        return tree.Annotation(span, name.text, body, opening.text == "[")
    return tree.Annotation(span, name.text, (), False)


def _balanced(cursor: Cursor, opening: Token) -> tuple[Token, ...]:
    """The tokens before the parenthesis that belongs to `opening`, which is passed too."""
    open_ones, pairs = [opening.text], {"(": ")", "[": "]", "{": "}"}
    out: list[Token] = []
    while open_ones:
        token = cursor.token
        if token.kind == lexer.END:
            raise Refusal(f"annotation without {pairs[opening.text]!r}", opening.span)
        cursor.at += 1  # any token: the body of an annotation need not be P4
        if token.kind == lexer.OP and token.text in pairs:
            open_ones.append(token.text)
        elif token.kind == lexer.OP and token.text == pairs[open_ones[-1]]:
            open_ones.pop()
        out.append(token)
    return tuple(out[:-1])
