"""What each kind of fault (:mod:`topologies.faults`) does to the lines and carriers of the simulated world."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import singledispatch

from simulation.channel import Impairment
from simulation.class_loss import ClassLoss
from simulation.errors import FaultError
from topologies.fabric import Endpoint, Fabric, Link
from topologies.fault_targets import lines, link_of_port, links_of_switches
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.controller_down import ControllerDown
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.port_down import PortDown
from topologies.faults.power_off import PowerOff
from topologies.faults.rate import Rate
from topologies.faults.reordering import Reordering
from topologies.paths import destination as path_to

_CUT = Impairment(cut=True)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a fault does: impairments by the end that the line leaves, links without carrier, no controller."""

    lines: tuple[tuple[Endpoint, Impairment], ...] = ()
    carrier: tuple[Link, ...] = ()
    controller: bool = False


def effect(fabric: Fabric, fault: Fault) -> Effect:
    """What a fault does; of a flap, what holds while the links are down.

    FaultError or FabricError when it names what is not there or a figure is out of range.
    """
    fault.check()
    return _effect(fault, fabric)


def down(links: tuple[Link, ...]) -> Effect:
    """Lines cut and carriers gone."""
    lines = tuple((end, _CUT) for link in links for end in (link.lower, link.upper))
    return Effect(lines, links)


@singledispatch
def _effect(fault: Fault, fabric: Fabric) -> Effect:
    raise FaultError(f"Simulation cannot make the fault {type(fault).__name__}.")


@_effect.register
def _(fault: LinkDown, fabric: Fabric) -> Effect:
    carrier = fabric.find_links(fault.link) if fault.towards is None else ()
    return Effect(_lines(fabric, fault.link, fault.towards, _CUT), carrier)


@_effect.register
def _(fault: PortDown, fabric: Fabric) -> Effect:
    return down((link_of_port(fabric, fault.end),))


@_effect.register
def _(fault: PowerOff, fabric: Fabric) -> Effect:
    return down(links_of_switches(fabric, fault.switch))


@_effect.register
def _(fault: Blackhole, fabric: Fabric) -> Effect:
    """Every line towards the switch swallows what it carries."""
    names = {switch.name for switch in fabric.find_switches(fault.switch)}
    return Effect(tuple((source, _CUT) for _, source, target in lines(fabric, "*") if target.node in names))


@_effect.register
def _(fault: Loss, fabric: Fabric) -> Effect:
    return Effect(_lines(fabric, fault.link, fault.towards, Impairment(loss=fault.probability)))


@_effect.register
def _(fault: ClassLoss, fabric: Fabric) -> Effect:
    lost = dict.fromkeys(fault.traffic_class.values(fabric.settings.dscp), fault.probability)
    return Effect(_lines(fabric, fault.link, fault.towards, Impairment(class_loss=lost)))


@_effect.register
def _(fault: Corruption, fabric: Fabric) -> Effect:
    return Effect(_lines(fabric, fault.link, fault.towards, Impairment(corruption=fault.probability)))


@_effect.register
def _(fault: Reordering, fabric: Fabric) -> Effect:
    impairment = Impairment(reorder=fault.probability, hold=fault.hold)
    return Effect(_lines(fabric, fault.link, fault.towards, impairment))


@_effect.register
def _(fault: PathLoss, fabric: Fabric) -> Effect:
    """Loss by uSID list on the sources' own ports, where the list is still whole."""
    losing: list[tuple[Endpoint, Impairment]] = []
    for nic in (nic for nic in fabric.nics if fnmatchcase(nic.name, fault.source)):
        by_plane: dict[int, dict[bytes, float]] = {}
        for peer in fabric.nics:
            if peer == nic or not fnmatchcase(peer.name, fault.destination):
                continue
            known = path_to(fabric, nic, peer)
            if fault.ev in known.evs:
                losses = by_plane.setdefault(known.template.plane(fault.ev), {})
                losses[known.template.address(fault.ev)] = fault.probability
        for plane, addresses in by_plane.items():
            losing.append((Endpoint(nic.name, plane), Impairment(path_loss=addresses)))
    if not losing:
        raise FaultError(
            f"No path from {fault.source} to {fault.destination} in fabric {fabric.name} has entropy value {fault.ev}."
        )
    return Effect(tuple(losing))


@_effect.register
def _(fault: Rate, fabric: Fabric) -> Effect:
    return Effect(_lines(fabric, fault.link, fault.towards, Impairment(rate_bps=fault.rate)))


@_effect.register
def _(fault: Delay, fabric: Fabric) -> Effect:
    return Effect(_lines(fabric, fault.link, fault.towards, Impairment(delay=fault.extra)))


@_effect.register
def _(fault: Flap, fabric: Fabric) -> Effect:
    return down(fabric.find_links(fault.link))


@_effect.register
def _(fault: ControllerDown, fabric: Fabric) -> Effect:
    return Effect(controller=True)


def _lines(
    fabric: Fabric, pattern: str, towards: str | None, impairment: Impairment
) -> tuple[tuple[Endpoint, Impairment], ...]:
    """The impairment on the lines of the links that match, in the direction asked for."""
    return tuple((source, impairment) for _, source, _ in lines(fabric, pattern, towards))
