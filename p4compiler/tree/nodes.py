"""What all constructs of the syntax tree are kinds of, and their annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from p4compiler.diagnostics import Refusal
from p4compiler.lexer import Token
from p4compiler.sources import SourceSpan

_ESCAPE = re.compile(r'\\([n"\\])')


@dataclass(frozen=True, eq=False, slots=True)
class SyntaxNode:
    """Any construct."""

    span: SourceSpan


@dataclass(frozen=True, eq=False, slots=True)
class Annotation(SyntaxNode):
    """``@name(body)``; `structured` where it is ``@name[body]``."""

    name: str
    body: tuple[Token, ...]
    structured: bool


Annotations = tuple[Annotation, ...]


def is_same(left: object, right: object) -> bool:
    """Whether two parts of the tree are written alike, wherever they are."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    if not isinstance(left, SyntaxNode):
        return left == right
    names = [name for name in left.__dataclass_fields__ if "span" not in name]
    return type(left) is type(right) and all(is_same(getattr(left, name), getattr(right, name)) for name in names)


@dataclass(frozen=True, eq=False, slots=True)
class Expression(SyntaxNode):
    """Anything that has a value, and the sets of select and entries."""


@dataclass(frozen=True, eq=False, slots=True)
class TypeNode(SyntaxNode):
    """A type as it is written."""


@dataclass(frozen=True, eq=False, slots=True)
class StatementNode(SyntaxNode):
    """A statement."""


@dataclass(frozen=True, eq=False, slots=True)
class Declaration(SyntaxNode):
    """Anything that gives a name a meaning; the span is the name's."""

    name: str
    annotations: Annotations


def children(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """The nodes that a node is made of."""
    for name in node.__dataclass_fields__:
        part = getattr(node, name)
        if isinstance(part, SyntaxNode):
            yield part
        elif isinstance(part, tuple):
            yield from (item for item in part if isinstance(item, SyntaxNode))


def annotation(annotations: Annotations, name: str) -> Annotation | None:
    """The annotation of a name, if it is there."""
    return next((item for item in annotations if item.name == name), None)


def string_annotation(annotations: Annotations, name: str) -> str | None:
    """The text of ``@name("text")``."""
    found = annotation(annotations, name)
    if found is None or not found.body or not found.body[0].text.startswith('"'):
        return None
    return "".join(unquoted(token.text) for token in found.body)


def number_annotation(annotations: Annotations, name: str) -> int | None:
    """The number in ``@name(number)``; raises Refusal where there is another thing."""
    found = annotation(annotations, name)
    return number_in(found.body[:1], found.span) if found is not None else None


def number_in(tokens: Sequence[Token], span: SourceSpan) -> int:
    """The number that one token is, of an annotation at `span`; raises Refusal."""
    digits = tokens[0].text.replace("_", "").rpartition("w")[2].rpartition("s")[2] if len(tokens) == 1 else ""
    try:
        return int(digits, 0)
    except ValueError:
        raise Refusal("a number is expected in this annotation", tokens[0].span if tokens else span) from None


def unquoted(text: str) -> str:
    """What a string in quotes stands for."""
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text[1:-1])


def noun(node: SyntaxNode) -> str:
    """What the language calls a construct: ``table``, ``return``, ..."""
    return type(node).__name__.removesuffix("Declaration").removesuffix("Statement").lower()
