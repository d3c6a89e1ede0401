"""The error of this room: a message for the user who wrote the fabric file or gave the numbers."""

from __future__ import annotations


class FabricError(ValueError):
    """A fabric cannot be described, found or built as asked; the message says what is wrong and what to do."""


class FaultLimitError(FabricError):
    """There are too many faults already, or they would change too much."""


class UnknownFaultError(FabricError):
    """There is no such fault (any more)."""
