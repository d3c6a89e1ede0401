"""A recursive-descent parser for the whole of P4_16's syntax.

A file for each kind of construct: :mod:`expressions` (and types), :mod:`annotations`, :mod:`statements`, :mod:`tables`,
:mod:`declarations`. Their parsers share a :mod:`cursor`, which is a position in the tokens. After an error it goes on
behind the next ``;`` or ``}``, so that a run shows several.
"""

from p4compiler.diagnostics import Diagnostics
from p4compiler.lexer import Token
from p4compiler.parser.cursor import Cursor
from p4compiler.parser.declarations import DeclarationParser
from p4compiler.tree import SyntaxTree


def parse(tokens: list[Token], diagnostics: Diagnostics) -> SyntaxTree:
    """The syntax tree of a program; raises P4Error if there were errors."""
    program = DeclarationParser(Cursor(tokens, diagnostics)).program()
    diagnostics.stop_on_errors()
    return program
