"""Waiting for what the path map of a fabric that is up shows."""

from __future__ import annotations

from collections.abc import Callable

from controller.path_map.client import PathMapClient
from controller.path_map.values import MapState
from tests.waiting import until


def wait(controller: PathMapClient, holds: Callable[[MapState], bool]) -> MapState:
    """The map as soon as something holds of it."""
    found: list[MapState] = []

    def look() -> bool:
        found[:] = [controller.path_map()]
        return holds(found[0])

    until(look, "the map")
    return found[0]
