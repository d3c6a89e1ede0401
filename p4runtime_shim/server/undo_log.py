"""Rollback of a batch (atomicity ROLLBACK_ON_ERROR).

For each change, a function that restores the old state is added to the log. Without rollback the log is None, and the
old state need not be read.
"""

from __future__ import annotations

from collections.abc import Callable

UndoLog = list[Callable[[], None]]


def roll_back(undo_log: UndoLog) -> None:
    """Undo everything, the last change first."""
    while undo_log:
        undo_log.pop()()
