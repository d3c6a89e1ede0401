"""What one request may cost, and all of a kind together: RESOURCE_EXHAUSTED beyond."""

from __future__ import annotations

from p4runtime_shim import limits
from p4runtime_shim.server.errors import exhausted


class Reading:
    """All Reads under way in the process."""

    def __init__(self) -> None:
        self.cells = 0


class ReadBudget:
    """What one Read may still find; `close` gives back what it took of `reading`."""

    def __init__(self, reading: Reading, cells: int | None = None) -> None:
        self._reading = reading
        self._cells = limits.MAX_READ_CELLS if cells is None else cells
        self._taken = 0

    def take(self, cells: int, what: str) -> None:
        """So many cells or entries are copied."""
        if self._taken + cells > self._cells:
            raise exhausted(
                f"{what}: with its {cells} entries or cells the read would find more than {self._cells};"
                " read less at a time"
            )
        if self._reading.cells + cells > limits.MAX_READING_CELLS:
            raise exhausted("other clients are reading too much at the moment; try again later")
        self._taken += cells
        self._reading.cells += cells

    def close(self) -> None:
        """The client has it all, or has gone."""
        self._reading.cells -= self._taken
        self._taken = 0


def unlimited() -> ReadBudget:
    """For the switch's own reading."""
    return ReadBudget(Reading(), limits.MAX_READING_CELLS)


class WriteBudget:
    """What one Write may still do with wildcards of arrays, whose cells are many though the request is small."""

    def __init__(self) -> None:
        self._filled = limits.MAX_FILLED_CELLS
        self._undo = limits.MAX_UNDO_CELLS

    def fill(self, cells: int, what: str) -> None:
        """So many cells are set."""
        self._filled -= cells
        if self._filled < 0:
            raise exhausted(f"{what}: one Write may set {limits.MAX_FILLED_CELLS} cells of arrays; send several")

    def undo(self, cells: int, what: str) -> None:
        """So many cells are remembered."""
        self._undo -= cells
        if self._undo < 0:
            raise exhausted(
                f"{what}: one Write can restore {limits.MAX_UNDO_CELLS} cells of arrays;"
                " set them one by one in several, or with CONTINUE_ON_ERROR"
            )
