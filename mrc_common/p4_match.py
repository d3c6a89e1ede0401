"""Parts of a P4 table entry, as P4Runtime has them: match kinds, and references to an action profile.

The neutral entries of a fabric (``topologies.entries``) and those of the embedded switch (``p4runtime_shim.entities``)
consist of them. Numbers are plain ints, of fields of any width.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exact:
    """All bits must match."""

    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    """Longest-prefix match: the upper `prefix_len` bits must match; 0 matches everything. The others are zero."""

    value: int
    prefix_len: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """The bits set in `mask` must match; mask 0 matches everything. The others of `value` are zero."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    """Matches if low <= key <= high."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Optional:
    """All bits must match, or anything matches if `value` is None."""

    value: int | None


Match = Exact | Lpm | Ternary | Range | Optional


@dataclass(frozen=True, slots=True)
class MemberRef:
    """A table entry's reference to a single member of the table's action profile or selector."""

    member_id: int


@dataclass(frozen=True, slots=True)
class GroupRef:
    """A table entry's reference to a group of the table's action selector."""

    group_id: int
