"""Elements of one plane that may be faulty, and how often each probed route crosses them.

A suspect is a link (both directions alike, or one of them), a switch, or a single route that fails while everything on
it carries others well. Each has one unknown, its loss. Planes share nothing, so each is a problem of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.path_map.values import Direction, ElementKind
from topologies.fabric import LinkKind
from topologies.probe_plan import Crossing, FabricProbePlan, ProbeRoute

Floats = NDArray[np.float64]
PARTS = {LinkKind.NIC_T0: ElementKind.NIC_T0, LinkKind.T0_T1: ElementKind.T0_T1, LinkKind.T1_T2: ElementKind.T1_T2}


@dataclass(frozen=True, slots=True)
class Element:
    """An element that may be faulty. `name` is that of the link or switch, or says where the path leads."""

    part: ElementKind
    name: str
    plane: int
    direction: Direction = Direction.BOTH


@dataclass(frozen=True, slots=True)
class PlaneModel:
    """One plane: its routes, its elements, and `crossings[route, element]`: how often a probe is at risk there.

    `crossings` has columns for links and switches only. The elements after these are the single routes, in order.
    What no probe reaches is no suspect.
    """

    plane: int
    routes: tuple[ProbeRoute, ...]
    numbers: NDArray[np.intp]  # of the routes, in the order of `FabricProbePlan.all_routes`
    elements: tuple[Element, ...]
    crossings: Floats
    ends: dict[str, tuple[str, ...]]  # switches at the ends of each link, by names

    def column(self, element: int) -> Floats:
        """How often a probe is at risk at an element, by route."""
        columns = self.crossings.shape[1]
        if element < columns:
            return self.crossings[:, element]
        only = np.zeros(len(self.routes))
        only[element - columns] = 1.0
        return only


def plane_models(plan: FabricProbePlan) -> tuple[PlaneModel, ...]:
    """The planes of a plan."""
    routes = tuple(plan.all_routes)
    return tuple(_model(plan, plane, routes) for plane in range(plan.fabric.planes))


def path_name(route: ProbeRoute) -> str:
    """The name of a single route as a suspected fault."""
    return f"{route.source}->{route.target} {route.kind.value} {route.ev:#06x}"


def _model(plan: FabricProbePlan, plane: int, all_routes: tuple[ProbeRoute, ...]) -> PlaneModel:
    numbers = [number for number, route in enumerate(all_routes) if route.plane == plane]
    routes = tuple(all_routes[number] for number in numbers)
    elements: list[Element] = []
    columns: dict[Crossing | str, tuple[int, ...]] = {}
    probed = {crossing.link for route in routes for crossing in route.crossings}
    for link in plan.fabric.links:
        if link.name in probed:
            part = PARTS[link.kind]
            numbered = {direction: len(elements) + n for n, direction in enumerate(Direction)}
            elements += [Element(part, link.name, plane, direction) for direction in Direction]
            columns[Crossing(link.name, True)] = numbered[Direction.UP], numbered[Direction.BOTH]
            columns[Crossing(link.name, False)] = numbered[Direction.DOWN], numbered[Direction.BOTH]
    passed = {name for route in routes for name in route.switches}
    for switch in plan.fabric.switches:
        if switch.name in passed:
            columns[switch.name] = (len(elements),)
            elements.append(Element(ElementKind.SWITCH, switch.name, plane))
    crossings = np.zeros((len(routes), len(elements)))
    for row, route in enumerate(routes):
        crossed: tuple[Crossing | str, ...] = (*route.crossings, *route.switches)
        for column in (column for crossing in crossed for column in columns[crossing]):
            crossings[row, column] += 1.0
    elements += [Element(ElementKind.PATH, path_name(route), plane) for route in routes]
    switches = {switch.name for switch in plan.fabric.switches}
    ends = {
        link.name: tuple(end.node for end in (link.lower, link.upper) if end.node in switches)
        for link in plan.fabric.links
        if link.name in probed
    }
    return PlaneModel(plane, routes, np.array(numbers), tuple(elements), crossings, ends)
