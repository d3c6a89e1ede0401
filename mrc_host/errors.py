"""Errors that a caller of the NIC can cause.

Each carries one sentence that says what is wrong and, where it is not obvious, what to do. Nothing received from the
network raises any of these: such packets are dropped and counted.
"""

from __future__ import annotations


class MrcError(Exception):
    """Base class of all errors raised by ``mrc_host``.

    `posted`: when a ``post_send`` of several requests raises this, the number of requests, from the first, that were
    posted (verbs return the next one as ``bad_wr``).
    """

    posted: int = 0


class InvalidArgumentError(MrcError, ValueError):
    """An argument is outside its documented range."""


class UnknownDestinationError(MrcError, ValueError):
    """The NIC has no destination with this address."""


class NotFoundError(MrcError, LookupError):
    """A queue pair, completion queue, protection domain or memory region with this number does not exist."""


class StateError(MrcError):
    """The object is not in a state that allows the command."""


class ResourceExhaustedError(MrcError):
    """A queue is full or no number is left; the command may be tried again once something has completed."""
