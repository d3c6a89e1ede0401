"""Errors between an application and its NIC."""

from __future__ import annotations

from mrc_host.errors import MrcError


class AgentLostError(MrcError):
    """The host agent exited or closed the connection; everything in this context is lost."""


class ProtocolError(MrcError):
    """The other end of the agent's socket does not speak our protocol or our version of it."""


class RejectedError(MrcError):
    """The NIC or its agent refused an operation; the message says why."""


class ClosedError(MrcError):
    """An object was used after it, or what it belongs to, was closed."""


class WaitTimeoutError(MrcError, TimeoutError):
    """Nothing arrived within the given time."""


class CompletionError(MrcError):
    """A work request did not succeed; raised by :func:`mrc_host.verbs.check`."""
