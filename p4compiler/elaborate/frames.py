"""Frames: the values of declarations, and the types of type parameters, while code is elaborated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from p4compiler import tree
from p4compiler.types import Type

if TYPE_CHECKING:
    from p4compiler.elaborate.values import Value


class Frame:
    """The values that are bound in a body, in front of those around it."""

    def __init__(self, parent: Frame | None = None, types: Mapping[tree.TypeParameter, Type] | None = None) -> None:
        self.parent = parent
        self.values: dict[tree.Declaration, Value] = {}
        self.types: dict[tree.TypeParameter, Type] = {**(parent.types if parent else {}), **(types or {})}

    def find(self, declaration: tree.Declaration) -> Value | None:
        """The value of a declaration, if it has one here."""
        frame: Frame | None = self
        while frame is not None:
            if declaration in frame.values:
                return frame.values[declaration]
            frame = frame.parent
        return None
