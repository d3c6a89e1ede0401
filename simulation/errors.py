"""Errors of the simulation; each message says what to do."""

from __future__ import annotations


class SimulationError(Exception):
    """Base of this room's errors."""


class FaultError(SimulationError, ValueError):
    """A fault names something that does not exist, or its times or parameters make no sense."""


class StalledError(SimulationError):
    """No event is left in the world, but something still waits, and will wait forever."""
