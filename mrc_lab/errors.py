"""The error for users of experiments: a message that says what is wrong, and a hint at what to do."""

from __future__ import annotations


class ExperimentError(Exception):
    """Base of every error of this package that the user can fix, here or in the environment.

    `hint` says what to do, and is empty if the message already does.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class RendezvousError(ExperimentError):
    """The out-of-band exchange between ranks failed: a rank is missing, doubled, or left."""


class TransferError(ExperimentError):
    """A work request of a collective completed with an error; the ring cannot be used any more."""


class FileError(ExperimentError):
    """An experiment file is wrong; the message begins with the file and, where there is one, the line and the key."""
