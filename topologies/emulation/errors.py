"""Errors of bringing up an emulated fabric; the messages are for users."""

from __future__ import annotations


class EmulationError(Exception):
    """The fabric could not be brought up or taken down; the message says why and what to do."""


class RequirementError(EmulationError):
    """The machine lacks something that an emulated fabric needs."""


class InUseError(EmulationError):
    """A fabric of this name is up already."""


class ProcessError(EmulationError):
    """A process of the fabric crashed or did not become ready."""
