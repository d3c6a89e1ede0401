"""What each kind of fault (:mod:`topologies.faults`) takes in emulation: carriers, table entries, shaped lines.

Carriers are taken by the kernel (``links``), loss, corruption and silence are made by the P4 program
(``topologies.fault_entries``), rate and delay by a queueing discipline at the sending end (``shaping``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch

from topologies.errors import FabricError
from topologies.fabric import Fabric, Link, LinkEnd
from topologies.fault_entries import ALWAYS, DataPlaneFault, LinkFault, directions_of, fault_entries, ppb
from topologies.fault_targets import delaying_end, directions, link_of_port, links_of_switches
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.port_down import PortDown
from topologies.faults.power_off import PowerOff
from topologies.faults.rate import Rate

SHORTEST_FLAP_NS = 10_000_000  # a change takes about a millisecond a link
LONGEST_NS = 10 * 365 * 86_400 * 1_000_000_000  # of any time in a fault
_MIN_RATE_BPS = 8_000  # a frame a second and more, as for links (topologies.fabric)


@dataclass(frozen=True, slots=True)
class PortShaping:
    """What is done to what leaves a port: a lower rate (None: its own), and ns of delay."""

    rate_bps: int | None = None
    delay: int = 0

    def with_more(self, other: PortShaping) -> PortShaping:
        """Both: the lower rate counts, delays add up."""
        rates = [shape.rate_bps for shape in (self, other) if shape.rate_bps is not None]
        return PortShaping(min(rates, default=None), self.delay + other.delay)


@dataclass(frozen=True, slots=True)
class FaultImpairments:
    """What a fault takes: links without carrier, faults of the P4 program, shapes by the port that frames leave by."""

    carrier: tuple[str, ...] = ()
    entries: tuple[DataPlaneFault, ...] = ()
    shapes: tuple[tuple[LinkEnd, PortShaping], ...] = ()
    links: tuple[str, ...] = ()  # all that it is on


def impairments_of(fabric: Fabric, fault: Fault) -> FaultImpairments:
    """What a fault takes; of a flap, what holds while its links are down.

    FabricError, one sentence, when it names what is not there, a value is out of range, or emulation has no such kind.
    """
    fault.check()
    return _impairments_of(fault, fabric)


@singledispatch
def _impairments_of(fault: Fault, fabric: Fabric) -> FaultImpairments:
    raise FabricError(f"emulation cannot make the fault {fault.kind.name}: use simulation")


@_impairments_of.register
def _(fault: LinkDown, fabric: Fabric) -> FaultImpairments:
    if fault.towards is None:
        return _down(fabric.find_links(fault.link))
    return _on_links(fabric, LinkFault(fault.link, loss=ALWAYS, towards=fault.towards))


@_impairments_of.register
def _(fault: PortDown, fabric: Fabric) -> FaultImpairments:
    return _down((link_of_port(fabric, fault.end),))


@_impairments_of.register
def _(fault: PowerOff, fabric: Fabric) -> FaultImpairments:
    return _down(links_of_switches(fabric, fault.switch))


@_impairments_of.register
def _(fault: Blackhole, fabric: Fabric) -> FaultImpairments:
    fault_entries(fabric, (fault,))  # that all of these run the P4 program
    return FaultImpairments(entries=(fault,))


@_impairments_of.register
def _(fault: Loss, fabric: Fabric) -> FaultImpairments:
    return _on_links(fabric, LinkFault(fault.link, loss=ppb(fault.probability), towards=fault.towards or "*"))


@_impairments_of.register
def _(fault: Corruption, fabric: Fabric) -> FaultImpairments:
    return _on_links(fabric, LinkFault(fault.link, corruption=ppb(fault.probability), towards=fault.towards or "*"))


@_impairments_of.register
def _(fault: PathLoss, fabric: Fabric) -> FaultImpairments:
    fault_entries(fabric, (fault,))  # that there are such paths
    return FaultImpairments(entries=(fault,))


@_impairments_of.register
def _(fault: Rate, fabric: Fabric) -> FaultImpairments:
    if fault.rate < _MIN_RATE_BPS:
        raise FabricError(f"a link's rate is at least {_MIN_RATE_BPS} b/s, not {fault.rate}")
    return _shaped(fabric, fault.link, fault.towards, PortShaping(rate_bps=fault.rate))


@_impairments_of.register
def _(fault: Delay, fabric: Fabric) -> FaultImpairments:
    if fault.extra > 10_000_000_000:
        raise FabricError(f"an added delay is 10 s at most, not {fault.extra} ns")
    for _, source, target in directions(fabric, fault.link, fault.towards):
        if delaying_end(fabric, source) is None:
            raise FabricError(
                f"the link from {source.node} to {target.node} has no end at a P4 switch, which would delay frames:"
                " use another link, or simulation"
            )
    return _shaped(fabric, fault.link, fault.towards, PortShaping(delay=fault.extra))


@_impairments_of.register
def _(fault: Flap, fabric: Fabric) -> FaultImpairments:
    if not all(SHORTEST_FLAP_NS <= time <= LONGEST_NS for time in (fault.down, fault.up)):
        least = SHORTEST_FLAP_NS // 1_000_000
        raise FabricError(
            f"a link flaps with times of {least} ms or more, not {fault.down} ns down and {fault.up} ns up"
        )
    return _down(fabric.find_links(fault.link))


def part_of(fabric: Fabric, done: FaultImpairments, links: Collection[str]) -> FaultImpairments:
    """What `done` takes of some of its links only: what is left of a pattern's fault when others were repaired."""
    kept = tuple(name for name in done.links if name in links)
    if kept == done.links:
        return done
    entries = [
        replace(fault, link=name)
        for fault in done.entries
        if isinstance(fault, LinkFault)
        for name in dict.fromkeys(link.name for link, _ in directions_of(fabric, fault))
        if name in kept
    ]
    shapes = [(end, shape) for end, shape in done.shapes if (link := fabric.link_at(end)) and link.name in kept]
    return FaultImpairments(tuple(name for name in done.carrier if name in kept), tuple(entries), tuple(shapes), kept)


def _down(links: Iterable[Link]) -> FaultImpairments:
    names = tuple(link.name for link in links)
    return FaultImpairments(carrier=names, links=names)


def _on_links(fabric: Fabric, entries: LinkFault) -> FaultImpairments:
    names = tuple(dict.fromkeys(link.name for link, _ in directions_of(fabric, entries)))
    if fabric.kernel_switches:
        fault_entries(fabric, (entries,))  # that a P4 switch is at each
    return FaultImpairments(entries=(entries,), links=names)


def _shaped(fabric: Fabric, pattern: str, towards: str | None, shape: PortShaping) -> FaultImpairments:
    found = directions(fabric, pattern, towards)
    names = tuple(dict.fromkeys(link.name for link, *_ in found))
    return FaultImpairments(shapes=tuple((source, shape) for _, source, _ in found), links=names)


def combined_shapes(several: Iterable[FaultImpairments]) -> Mapping[LinkEnd, PortShaping]:
    """All shapes together, by port."""
    found: dict[LinkEnd, PortShaping] = {}
    for end, shape in _shapes(several):
        found[end] = found.get(end, PortShaping()).with_more(shape)
    return found


def _shapes(several: Iterable[FaultImpairments]) -> Iterator[tuple[LinkEnd, PortShaping]]:
    return (pair for one in several for pair in one.shapes)
