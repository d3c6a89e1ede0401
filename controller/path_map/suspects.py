"""What may be to blame in one plane, and how often each probed route crosses it.

A suspect is a link (both directions alike, or one of them), a switch, or a single route that fails while everything on
it carries others well. Each has one unknown, its loss. Planes share nothing, so each is a problem of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.path_map.values import Direction, Part
from topologies.fabric import LinkKind
from topologies.probe_plan import Crossing, FabricProbePlan, ProbeRoute

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Suspect:
    """Where a fault may be. `name` is that of the link or switch, or says where the path leads."""

    part: Part
    name: str
    plane: int
    direction: Direction = Direction.BOTH


@dataclass(frozen=True, slots=True)
class PlaneModel:
    """One plane: its routes, its suspects, and `crossings[route, suspect]`: how often a probe is at risk there."""

    plane: int
    routes: tuple[ProbeRoute, ...]
    numbers: NDArray[np.intp]  # of the routes, in the order of `FabricProbePlan.all_routes`
    suspects: tuple[Suspect, ...]
    crossings: Floats
    ends: dict[str, tuple[str, ...]]  # switches at the ends of each link, by names


def plane_models(plan: FabricProbePlan) -> tuple[PlaneModel, ...]:
    """The planes of a plan."""
    routes = tuple(plan.all_routes)
    return tuple(_model(plan, plane, routes) for plane in range(plan.fabric.planes))


def path_name(route: ProbeRoute) -> str:
    """How a single route is called in a verdict."""
    return f"{route.source}->{route.target} {route.kind.value} {route.ev:#06x}"


def _model(plan: FabricProbePlan, plane: int, all_routes: tuple[ProbeRoute, ...]) -> PlaneModel:
    numbers = [number for number, route in enumerate(all_routes) if route.plane == plane]
    routes = tuple(all_routes[number] for number in numbers)
    suspects: list[Suspect] = []
    columns: list[list[int]] = []
    for link in plan.fabric.links:
        if link.plane != plane:
            continue
        part = Part.NIC_T0 if link.kind is LinkKind.NIC_T0 else Part.T0_T1
        ways = {
            Direction.UP: [route.crossings.count(Crossing(link.name, True)) for route in routes],
            Direction.DOWN: [route.crossings.count(Crossing(link.name, False)) for route in routes],
        }
        ways[Direction.BOTH] = [up + down for up, down in zip(ways[Direction.UP], ways[Direction.DOWN], strict=True)]
        for direction in Direction:
            suspects.append(Suspect(part, link.name, plane, direction))
            columns.append(ways[direction])
    for switch in plan.fabric.switches:
        if switch.plane == plane:
            suspects.append(Suspect(Part.SWITCH, switch.name, plane))
            columns.append([route.switches.count(switch.name) for route in routes])
    for number, route in enumerate(routes):
        suspects.append(Suspect(Part.PATH, path_name(route), plane))
        columns.append([int(number == other) for other in range(len(routes))])
    switches = {switch.name for switch in plan.fabric.switches}
    ends = {
        link.name: tuple(end.node for end in (link.lower, link.upper) if end.node in switches)
        for link in plan.fabric.links
        if link.plane == plane
    }
    return PlaneModel(plane, routes, np.array(numbers), tuple(suspects), np.array(columns, dtype=float).T, ends)
