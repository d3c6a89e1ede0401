"""The error of this room: a message for the user who wrote the fabric file or gave the numbers."""

from __future__ import annotations


class FabricError(ValueError):
    """A fabric cannot be described, found or built as asked; the message says what is wrong and what to do."""
