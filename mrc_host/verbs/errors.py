"""What can go wrong between an application and its NIC, each with one clear sentence."""

from __future__ import annotations

from mrc_host.errors import MrcError


class AgentLostError(MrcError):
    """The host agent is gone or closed the connection; everything of this context is lost with it."""


class ProtocolError(MrcError):
    """The other end of the agent's socket does not speak our protocol or our version of it."""


class RejectedError(MrcError):
    """The NIC or its agent refused an operation; the sentence says why."""


class ClosedError(MrcError):
    """An object was used after it, or what it belongs to, was closed."""


class WaitTimeoutError(MrcError, TimeoutError):
    """Nothing arrived within the given time."""


class CompletionError(MrcError):
    """A work request did not succeed; raised by :func:`mrc_host.verbs.check`."""
