"""Limits for untrusted YAML: depth, size, aliases.

A few lines can name each other so that they stand for billions (aliases of aliases), or for themselves; and PyYAML lets
more escape than its own errors where a tag says what a value is not (``!!bool y``, ``!!int ''``, month 13).
"""

from __future__ import annotations

import yaml

CONSTRUCTION_ERRORS = (yaml.YAMLError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError)
"""What PyYAML raises for a document or value that cannot be made."""


def is_larger_than(node: yaml.Node | None, most: int) -> bool:
    """Tell whether a document has more than `most` pieces when every alias is written out; one in itself has."""
    count = 0
    left = [] if node is None else [node]
    while left:
        count += 1
        if count > most:
            return True
        piece = left.pop()
        if isinstance(piece, yaml.MappingNode):
            left += [part for pair in piece.value for part in pair]
        elif isinstance(piece, yaml.SequenceNode):
            left += piece.value
    return False
