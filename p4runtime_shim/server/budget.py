"""Budgets of Read and Write requests, per request and for the process; RESOURCE_EXHAUSTED when exceeded."""

from __future__ import annotations

from p4runtime_shim import limits
from p4runtime_shim.server.rpc_errors import exhausted


class ReadsInProgress:
    """Cells held by all Reads in progress in the process."""

    def __init__(self) -> None:
        self.cells = 0


class ReadBudget:
    """The remaining budget of one Read; `close` returns what it took of `reading`."""

    def __init__(self, reading: ReadsInProgress, cells: int | None = None) -> None:
        self._reading = reading
        self._cells = limits.MAX_READ_CELLS if cells is None else cells
        self._taken = 0

    def take(self, cells: int, what: str) -> None:
        """Take the budget of a number of cells or entries."""
        if self._taken + cells > self._cells:
            raise exhausted(
                f"{what}: with its {cells} entries or cells, the read would exceed {self._cells}; read less at a time"
            )
        if self._reading.cells + cells > limits.MAX_READING_CELLS:
            raise exhausted("other clients are reading too much at the moment; try again later")
        self._taken += cells
        self._reading.cells += cells

    def close(self) -> None:
        """The client has received everything, or disconnected."""
        self._reading.cells -= self._taken
        self._taken = 0


def unlimited() -> ReadBudget:
    """The budget of the switch's own reads."""
    return ReadBudget(ReadsInProgress(), limits.MAX_READING_CELLS)


class WriteBudget:
    """The remaining budget of one Write for array wildcards, where a small request affects many cells."""

    def __init__(self) -> None:
        self._filled = limits.MAX_FILLED_CELLS
        self._undo = limits.MAX_UNDO_CELLS

    def fill(self, cells: int, what: str) -> None:
        """Take the budget of setting cells."""
        self._filled -= cells
        if self._filled < 0:
            raise exhausted(f"{what}: one Write may set {limits.MAX_FILLED_CELLS} cells of arrays; send several")

    def undo(self, cells: int, what: str) -> None:
        """Take the budget of saving cells for rollback."""
        self._undo -= cells
        if self._undo < 0:
            raise exhausted(
                f"{what}: one Write can restore {limits.MAX_UNDO_CELLS} cells of arrays;"
                " split the write, or use CONTINUE_ON_ERROR"
            )
