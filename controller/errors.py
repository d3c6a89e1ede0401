"""The one error of this room: a sentence for the user."""

from __future__ import annotations


class ControllerError(Exception):
    """The controller could not do what it was asked; the message says why and what to do."""


class BusyError(ControllerError):
    """There is too much of something already."""
