"""Effects of faults on a fabric, the same in both backends: what the method `effect` of each kind returns.

There are four things that may be done: links lose their carrier; the P4 program of switches loses, corrupts or swallows
(:mod:`topologies.fault_entries`); what leaves ports is shaped; the controller goes away. Several effects at one place
combine: a link has its carrier when no fault takes it, chances are independent, delays add up, the lowest rate counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from topologies.fabric import Fabric, Link, LinkEnd
from topologies.fault_entries import ALWAYS, DataPlaneFault, link_fault
from topologies.fault_targets import directions


@dataclass(frozen=True, slots=True)
class PortShaping:
    """What is done to what leaves a port: a lower rate (b/s; None: its own), and a delay (ns).

    Frames are held back with probability `reorder`, for up to `hold` ns, so that later ones overtake them.
    """

    rate_bps: int | None = None
    delay: int = 0
    reorder: float = 0.0
    hold: int = 0

    def with_more(self, other: PortShaping) -> PortShaping:
        """Both: the lower rate and the longer hold count, delays add up, chances are independent."""
        rates = [shape.rate_bps for shape in (self, other) if shape.rate_bps is not None]
        reorder = 1.0 - (1.0 - self.reorder) * (1.0 - other.reorder)
        return PortShaping(min(rates, default=None), self.delay + other.delay, reorder, max(self.hold, other.hold))


@dataclass(frozen=True, slots=True)
class Effect:
    """What a fault does; of one that comes and goes, while it is on.

    `down` are links without carrier, `tables` is what switches do, `shapes` are by the port that frames leave. `links`
    are those that it is on, from which a repair takes it off.
    """

    down: tuple[str, ...] = ()
    tables: DataPlaneFault | None = None
    shapes: tuple[tuple[LinkEnd, PortShaping], ...] = ()
    controller_down: bool = False
    links: tuple[str, ...] = ()

    @property
    def switches(self) -> tuple[str, ...]:
        """Switches whose tables hold it."""
        return self.tables.switches if self.tables is not None else ()

    def part(self, fabric: Fabric, links: Collection[str]) -> Effect:
        """What it does on some of its links only: what is left of a pattern's fault when others were repaired."""
        kept = tuple(name for name in self.links if name in links)
        if kept == self.links:
            return self
        return replace(
            self,
            down=tuple(name for name in self.down if name in kept),
            tables=self.tables and self.tables.on_links(fabric, kept),
            shapes=tuple(
                (end, shape) for end, shape in self.shapes if (link := fabric.link_at(end)) and link.name in kept
            ),
            links=kept,
        )

    def touched_links(self, fabric: Fabric) -> tuple[str, ...]:
        """Every link whose frames may notice it, in at least one direction, in the fabric's order."""
        tables = self.tables or DataPlaneFault()
        ends = (*tables.arrivals, *tables.departures, *tables.sources, *(end for end, _ in self.shapes))
        names = {*self.down, *(link.name for end in ends if (link := fabric.link_at(end)) is not None)}
        names.update(link.name for switch in tables.blackholes for link in fabric.links_of(switch))
        order = fabric.derived("order of links", lambda: {link.name: at for at, link in enumerate(fabric.links)})
        return tuple(sorted(names, key=order.__getitem__))

    def losses(self, fabric: Fabric) -> Iterator[tuple[LinkEnd, int, int]]:
        """Directions of links that lose or corrupt frames of all paths: the end that these leave, and both in ppb."""
        tables = self.tables or DataPlaneFault()
        swallowed = [LinkEnd(name, port) for name in tables.blackholes for port in fabric.switch(name).ports]
        for ends, loss, corruption in ((tables.arrivals, tables.loss, tables.corruption), (swallowed, ALWAYS, 0)):
            for end in ends:
                if (source := fabric.peer(end)) is not None:
                    yield source, loss, corruption
        for end in tables.departures:
            yield end, tables.loss, tables.corruption
        for link in map(fabric.link, self.down):
            yield from ((end, ALWAYS, 0) for end in (link.lower, link.upper))


def links_down(links: Iterable[Link]) -> Effect:
    """Links without carrier."""
    names = tuple(link.name for link in links)
    return Effect(down=names, links=names)


def lossy(fabric: Fabric, pattern: str, towards: str | None, *, loss: int = 0, corruption: int = 0) -> Effect:
    """Random loss and corruption (ppb) of the links that match, in the directions asked for."""
    tables = link_fault(fabric, pattern, towards, loss=loss, corruption=corruption)
    return Effect(tables=tables, links=_names(fabric, pattern, towards))


def shaped(fabric: Fabric, pattern: str, towards: str | None, shape: PortShaping) -> Effect:
    """The links that match are shaped at the ends that send, in the directions asked for."""
    shapes = tuple((source, shape) for _, source, _ in directions(fabric, pattern, towards))
    return Effect(shapes=shapes, links=_names(fabric, pattern, towards))


def _names(fabric: Fabric, pattern: str, towards: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(link.name for link, *_ in directions(fabric, pattern, towards)))


def combined_shapes(several: Iterable[Effect]) -> Mapping[LinkEnd, PortShaping]:
    """All shapes together, by port."""
    found: dict[LinkEnd, PortShaping] = {}
    for effect in several:
        for end, shape in effect.shapes:
            found[end] = found.get(end, PortShaping()).with_more(shape)
    return found
