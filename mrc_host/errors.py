"""Errors that a caller of the NIC can cause.

Each carries one sentence that says what is wrong and, where it is not obvious, what to do. Nothing that arrives from
the network raises any of these: packets are dropped and counted instead.
"""

from __future__ import annotations


class MrcError(Exception):
    """Base of every error raised by ``mrc_host``.

    `posted`: of the requests of a ``post_send`` of several that raised this, how many, the first ones, were posted all
    the same (the others were not; verbs give the first of those as ``bad_wr``).
    """

    posted: int = 0


class InvalidArgumentError(MrcError, ValueError):
    """An argument is outside its documented range."""


class UnknownDestinationError(MrcError, ValueError):
    """The NIC was told of no destination with this address."""


class NotFoundError(MrcError, LookupError):
    """A queue pair, completion queue, protection domain or memory region with this number does not exist."""


class StateError(MrcError):
    """The object is not in a state that allows the command."""


class ResourceExhaustedError(MrcError):
    """A queue is full or no number is left; the command may be tried again once something has completed."""
