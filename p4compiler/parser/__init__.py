"""A recursive-descent parser for the whole of P4_16's syntax.

The parser is one object, put together from layers of which each adds a kind of construct: :mod:`cursor` (tokens and
errors), :mod:`type_parser`, :mod:`expressions`, :mod:`statements`, :mod:`declarations`. After an error it goes on
behind the next ``;`` or ``}``, so that a run shows several.
"""

from p4compiler.diagnostics import Diagnostics
from p4compiler.lexer import Token
from p4compiler.parser.declarations import DeclarationParser
from p4compiler.tree import SyntaxTree


def parse(tokens: list[Token], diagnostics: Diagnostics) -> SyntaxTree:
    """The syntax tree of a program; raises P4Error if there were errors."""
    program = DeclarationParser(tokens, diagnostics).program()
    diagnostics.stop_on_errors()
    return program
