"""The key `sizes` of a selection: flows above one size and up to another, as in ``0..100K``.

Ranges that meet, such as ``0..100K`` and ``100K..10M``, have no size in common. An end that is left out has no limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrc_common import units
from mrc_common.declared.field_types import JsonSchema, Scalar, shown


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Sizes above `above` bytes and up to `most` (None: without limit)."""

    above: int
    most: int | None

    def __contains__(self, size: int) -> bool:
        return self.above < size and (self.most is None or size <= self.most)

    def __str__(self) -> str:
        most = "" if self.most is None else units.size_word(self.most)
        return f"{units.size_word(self.above)}..{most}"


class SizeRangeType(Scalar):
    """A range of sizes: two of them with .. between."""

    def check(self, found: object, written: str = "") -> SizeRange:
        """The range."""
        if not isinstance(found, SizeRange):
            raise ValueError(f"must be a range of sizes such as 0..100K, not {shown(str, found)!r}")
        if found.most is not None and found.most <= found.above:
            raise ValueError(f"is {written or found}, which has no size: the first must be less than the second")
        return found

    def _parse(self, word: str) -> SizeRange:
        least, dots, most = (part.strip() for part in word.partition(".."))
        if not dots or not (least or most):
            raise ValueError(f"must be a range of sizes such as 0..100K or 10M.., not {word[:80]!r}")
        above = units.parse_size(least) if least else 0
        if above < 0:
            raise ValueError(f"is {word[:80]}, but no size is less than 0")
        return SizeRange(above, units.parse_size(most) if most else None)

    def schema(self) -> JsonSchema:
        """A string."""
        number = units.NUMBER_PATTERN + units.SIZE.pattern
        pattern = rf"^({number})?\s*\.\.\s*({number})?\s*$"
        return {"title": "range of sizes", "type": "string", "pattern": pattern, "examples": ["0..100K", "10M.."]}
