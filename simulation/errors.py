"""Errors of the simulation; each message says what to do."""

from __future__ import annotations


class SimulationError(Exception):
    """Base of this room's errors."""


class FaultError(SimulationError, ValueError):
    """A fault names something that does not exist, or its times or parameters make no sense."""


class StalledError(SimulationError):
    """The world has come to rest, and somebody still waits for something that can never happen."""
