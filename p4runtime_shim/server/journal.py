"""How a batch is undone (atomicity ROLLBACK_ON_ERROR).

A family of entities that changes something adds to the journal a function that puts the old state back. Families get
None instead of a journal when nobody will ask, and then need not look the old state up.
"""

from __future__ import annotations

from collections.abc import Callable

Journal = list[Callable[[], None]]


def roll_back(journal: Journal) -> None:
    """Undo everything, the last change first."""
    while journal:
        journal.pop()()
