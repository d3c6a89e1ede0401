"""What each kind of fault (:mod:`topologies.faults`) does to channels and carriers in simulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from simulation.channel import Impairment
from simulation.class_loss import ClassLoss
from simulation.errors import FaultError
from topologies.fabric import Fabric, Link, LinkEnd
from topologies.fault_targets import directions, link_of_port, links_of_switches
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

_DOWN = Impairment(down=True)
SHORTEST_FLAP_NS = 1_000  # each change is an event for every link: below this a run makes no progress any more


@dataclass(frozen=True, slots=True)
class FaultImpairments:
    """What a fault does: impairments by the end that the channel leaves, links without carrier, no controller."""

    channels: tuple[tuple[LinkEnd, Impairment], ...] = ()
    carrier: tuple[Link, ...] = ()
    controller: bool = False


def impairments_of(fabric: Fabric, fault: Fault) -> FaultImpairments:
    """What a fault does; of a flap, what holds while the links are down.

    FaultError or FabricError when it names what is not there or a value is out of range.
    """
    fault.check()
    return _impairments_of(fault, fabric)


def down(links: tuple[Link, ...]) -> FaultImpairments:
    """Channels down and carriers lost."""
    channels = tuple((end, _DOWN) for link in links for end in (link.lower, link.upper))
    return FaultImpairments(channels, links)


@singledispatch
def _impairments_of(fault: Fault, fabric: Fabric) -> FaultImpairments:
    raise FaultError(f"Simulation cannot make the fault {type(fault).__name__}.")


@_impairments_of.register
def _(fault: LinkDown, fabric: Fabric) -> FaultImpairments:
    carrier = fabric.find_links(fault.link) if fault.towards is None else ()
    return FaultImpairments(_channels(fabric, fault.link, fault.towards, _DOWN), carrier)


@_impairments_of.register
def _(fault: PortDown, fabric: Fabric) -> FaultImpairments:
    return down((link_of_port(fabric, fault.end),))


@_impairments_of.register
def _(fault: PowerOff, fabric: Fabric) -> FaultImpairments:
    return down(links_of_switches(fabric, fault.switch))


@_impairments_of.register
def _(fault: Blackhole, fabric: Fabric) -> FaultImpairments:
    """Every channel towards the switch swallows what it carries."""
    names = {switch.name for switch in fabric.find_switches(fault.switch)}
    return FaultImpairments(
        tuple((source, _DOWN) for _, source, target in directions(fabric, "*") if target.node in names)
    )


@_impairments_of.register
def _(fault: Loss, fabric: Fabric) -> FaultImpairments:
    return FaultImpairments(_channels(fabric, fault.link, fault.towards, Impairment(loss=fault.probability)))


@_impairments_of.register
def _(fault: ClassLoss, fabric: Fabric) -> FaultImpairments:
    lost = dict.fromkeys(fault.traffic_class.values(fabric.settings.dscp), fault.probability)
    return FaultImpairments(_channels(fabric, fault.link, fault.towards, Impairment(class_loss=lost)))


@_impairments_of.register
def _(fault: Corruption, fabric: Fabric) -> FaultImpairments:
    return FaultImpairments(_channels(fabric, fault.link, fault.towards, Impairment(corruption=fault.probability)))


@_impairments_of.register
def _(fault: Reordering, fabric: Fabric) -> FaultImpairments:
    impairment = Impairment(reorder=fault.probability, hold=fault.hold)
    return FaultImpairments(_channels(fabric, fault.link, fault.towards, impairment))


@_impairments_of.register
def _(fault: PathLoss, fabric: Fabric) -> FaultImpairments:
    """Loss by uSID list on the sources' own ports, where the list is still whole."""
    losing: list[tuple[LinkEnd, Impairment]] = []
    peers = fabric.find_nics(fault.destination)
    for nic in fabric.find_nics(fault.source):
        by_plane: dict[int, dict[bytes, float]] = {}
        for peer in peers:
            if peer == nic:
                continue
            known = path_to(fabric, nic, peer)
            if fault.ev in known.evs:
                losses = by_plane.setdefault(known.template.plane(fault.ev), {})
                losses[known.template.address(fault.ev)] = fault.probability
        for plane, addresses in by_plane.items():
            losing.append((LinkEnd(nic.name, plane), Impairment(path_loss=addresses)))
    if not losing:
        raise FaultError(fault.without_path(fabric))
    return FaultImpairments(tuple(losing))


@_impairments_of.register
def _(fault: Rate, fabric: Fabric) -> FaultImpairments:
    return FaultImpairments(_channels(fabric, fault.link, fault.towards, Impairment(rate_bps=fault.rate)))


@_impairments_of.register
def _(fault: Delay, fabric: Fabric) -> FaultImpairments:
    return FaultImpairments(_channels(fabric, fault.link, fault.towards, Impairment(delay=fault.extra)))


@_impairments_of.register
def _(fault: Flap, fabric: Fabric) -> FaultImpairments:
    if min(fault.down, fault.up) < SHORTEST_FLAP_NS:
        raise FaultError(
            f"A link flaps with times of {SHORTEST_FLAP_NS} ns or more, not {fault.down} ns down and {fault.up} ns up."
        )
    return down(fabric.find_links(fault.link))


@_impairments_of.register
def _(fault: ControllerDown, fabric: Fabric) -> FaultImpairments:
    return FaultImpairments(controller=True)


def _channels(
    fabric: Fabric, pattern: str, towards: str | None, impairment: Impairment
) -> tuple[tuple[LinkEnd, Impairment], ...]:
    """The impairment on the channels of the links that match, in the direction asked for."""
    return tuple((source, impairment) for _, source, _ in directions(fabric, pattern, towards))
