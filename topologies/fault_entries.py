"""Faults that the P4 program makes (p4src/arrival_faults.p4, departure_faults.p4), as table entries.

A frame that a link loses or corrupts was sent: so the receiving switch does it, on arrival. Only towards a NIC or a
kernel switch the sending one does, on departure. A fault that a kernel switch would have to make is refused. Several
faults on one port or path make one entry with the joint probability. Probabilities are parts per billion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from mrc_common.p4_match import Exact, Ternary
from topologies import addressing, paths
from topologies.entries import TableAction, TableEntry
from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkEnd
from topologies.fault_targets import directions, is_p4

ALWAYS = 1_000_000_000  # p4src/chance.p4
MAX_LOSSY_PATHS = 1024  # of one T0: PATH_FAULT_SIZE in p4src/sizes.p4
_ALL_PORTS, _ALL_ADDRESS = 0x1FF, (1 << 128) - 1
_PRIORITY, _PRIORITY_BLACKHOLE = 1, 2

LossyPath = tuple[str, int, int | None]
"""The T0 where a path begins, the outer destination address there, and the sender if it is lost from one alone."""


@dataclass(frozen=True, slots=True)
class DataPlaneFault:
    """One fault: where it is, and its chances (loss, corruption) there in ppb.

    `arrivals` and `departures` are ports of switches; `blackholes` switches that drop everything. `paths` are lossy
    paths, and `sources` the ports of NICs where they begin.
    """

    arrivals: tuple[LinkEnd, ...] = ()
    departures: tuple[LinkEnd, ...] = ()
    paths: tuple[LossyPath, ...] = ()
    sources: tuple[LinkEnd, ...] = ()
    blackholes: tuple[str, ...] = ()
    loss: int = 0
    corruption: int = 0

    @property
    def switches(self) -> tuple[str, ...]:
        """Switches that hold entries of it."""
        ports = (end.node for end in (*self.arrivals, *self.departures))
        return tuple(dict.fromkeys((*self.blackholes, *ports, *(t0 for t0, _, _ in self.paths))))

    def on_links(self, fabric: Fabric, links: Collection[str]) -> DataPlaneFault:
        """What is left of it on some of its links."""

        def kept(ends: Iterable[LinkEnd]) -> tuple[LinkEnd, ...]:
            return tuple(end for end in ends if (link := fabric.link_at(end)) is not None and link.name in links)

        return replace(self, arrivals=kept(self.arrivals), departures=kept(self.departures))


def ppb(probability: float) -> int:
    """A probability from 0 to 1 as parts per billion; FabricError if it is not one, or too small to be represented."""
    if not 0 <= probability <= 1:
        raise FabricError(f"a probability is between 0 and 1, not {probability}")
    found = round(probability * ALWAYS)
    if probability and not found:
        raise FabricError(f"a switch knows no probability below one in a billion, and {probability:g} is less")
    return found


def link_fault(
    fabric: Fabric, pattern: str, towards: str | None = None, *, loss: int = 0, corruption: int = 0
) -> DataPlaneFault:
    """Random loss and corruption (ppb) on the links that match, `towards` the nodes that match.

    FabricError if there is no such link, or no P4 switch at one.
    """
    arrivals, departures = [], []
    for _, source, target in directions(fabric, pattern, towards):
        if is_p4(fabric, target.node):
            arrivals.append(target)
        else:
            _check_sender(fabric, source, target)
            departures.append(source)
    return DataPlaneFault(tuple(arrivals), tuple(departures), loss=loss, corruption=corruption)


def blackhole(fabric: Fabric, pattern: str) -> DataPlaneFault:
    """The switches that match drop everything; FabricError if there is none, or one is the kernel's."""
    names = tuple(switch.name for switch in fabric.find_switches(pattern))
    for name in names:
        _check_p4(fabric, name, "drop everything silently: use power_off")
    return DataPlaneFault(blackholes=names)


def path_fault(fabric: Fabric, ev: int, loss: int, source: str, destination: str) -> DataPlaneFault:
    """Loss (ppb) on the paths of an entropy value, at their first T0, where the address still has all uSIDs.

    Between NICs of one T0 the list is that of the last hop of every path, and of probes that come back to their sender:
    there the sender says that the path begins here. FabricError if there are more than a T0 has entries for.
    """
    found: set[LossyPath] = set()
    ports: dict[LinkEnd, None] = {}
    for nic in fabric.find_nics(source):
        for peer in fabric.find_nics(destination):
            if peer == nic:
                continue
            route = paths.destination(fabric, nic, peer)
            if ev in route.evs:
                plane = route.template.plane(ev)
                t0 = f"t0-{nic.t0}@p{plane}"
                _check_p4(fabric, t0, "lose packets of one path: use a link")
                address = int.from_bytes(route.template.address(ev), "big")
                any_sender = source == "*" and nic.t0 != peer.t0
                sender = None if any_sender else int(addressing.nic_address(fabric, nic))
                found.add((t0, address, sender))
                ports[LinkEnd(nic.name, plane)] = None
    check_room(found)
    return DataPlaneFault(paths=tuple(sorted(found, key=str)), sources=tuple(ports), loss=loss)


def check_room(lossy: Iterable[LossyPath]) -> None:
    """FabricError if a T0 cannot hold the entries of lossy paths. Other tables of faults have room for every port."""
    for t0, count in Counter(t0 for t0, _, _ in set(lossy)).items():
        if count > MAX_LOSSY_PATHS:
            raise FabricError(
                f"losses on paths take {count} entries of table path_fault of {t0}, which has {MAX_LOSSY_PATHS}:"
                " name fewer source and destination hosts, or clear other faults on paths"
            )


def _check_sender(fabric: Fabric, source: LinkEnd, target: LinkEnd) -> None:
    """FabricError if no P4 switch sends what goes from one end of a link to the other, where none receives it."""
    if not is_p4(fabric, source.node):
        raise FabricError(
            f"the link from {source.node} to {target.node} has no end at a P4 switch, which would lose or corrupt"
            " frames: take it down in both directions, or use another link"
        )


def _check_p4(fabric: Fabric, switch: str, what: str) -> None:
    if fabric.is_kernel(switch):
        raise FabricError(f"switch {switch} is the kernel's, and cannot {what}, or a switch that runs the P4 program")


def fault_entries(faults: Iterable[DataPlaneFault]) -> Mapping[str, tuple[TableEntry, ...]]:
    """The table entries that make all of `faults` together, by switch name; switches without any are left out.

    Raises :class:`FabricError` if a table of a switch cannot hold them all.
    """
    return FaultTables().entries(faults)


class FaultTables:
    """:func:`fault_entries` of one fabric, again and again, as faults come and go.

    A fault that comes is added to what there is: a thousand that are everywhere would else be a thousand times as much
    work at each change.
    """

    def __init__(self) -> None:
        self._planned: tuple[DataPlaneFault, ...] = ()
        self._plan = _Plan()

    def entries(self, faults: Iterable[DataPlaneFault]) -> Mapping[str, tuple[TableEntry, ...]]:
        """The entries that make all of `faults` together, as of :func:`fault_entries`."""
        wanted = tuple(faults)
        if wanted[: len(self._planned)] != self._planned:
            self._planned, self._plan = (), _Plan()
        for fault in wanted[len(self._planned) :]:
            self._plan.add(fault)
        self._planned = wanted
        self._plan.check()
        entries: dict[str, list[TableEntry]] = {}
        for switch, entry in self._plan.entries():
            entries.setdefault(switch, []).append(entry)
        return {switch: tuple(found) for switch, found in entries.items()}


class _Plan:
    """Probabilities by what they apply to, collected fault by fault."""

    def __init__(self) -> None:
        self._arrivals: dict[LinkEnd, tuple[int, int]] = {}
        self._departures: dict[LinkEnd, tuple[int, int]] = {}
        self._paths: dict[LossyPath, int] = {}
        self._blackholes: dict[str, None] = {}

    def add(self, fault: DataPlaneFault) -> None:
        self._blackholes.update(dict.fromkeys(fault.blackholes))
        for ends, chances in ((fault.arrivals, self._arrivals), (fault.departures, self._departures)):
            for end in ends:
                loss, corruption = chances.get(end, (0, 0))
                chances[end] = _either(loss, fault.loss), _either(corruption, fault.corruption)
        for path in fault.paths:
            self._paths[path] = _either(self._paths.get(path, 0), fault.loss)

    def check(self) -> None:
        """FabricError if a switch cannot hold it."""
        check_room(self._paths)

    def entries(self) -> Iterator[tuple[str, TableEntry]]:
        for switch in self._blackholes:
            yield switch, TableEntry("arrival_fault", (Ternary(0, 0),), TableAction("blackhole"), _PRIORITY_BLACKHOLE)
        for end, chances in self._arrivals.items():
            key = (Ternary(end.port, _ALL_PORTS),)
            yield end.node, TableEntry("arrival_fault", key, _impair(*chances), _PRIORITY)
        for end, chances in self._departures.items():
            yield end.node, TableEntry("departure_fault", (Exact(end.port),), _impair(*chances))
        for (t0, address, sender), loss in self._paths.items():
            source, priority = Ternary(0, 0), _PRIORITY
            if sender is not None:  # goes before the entry for all senders, and so includes its loss
                source, priority = Ternary(sender, _ALL_ADDRESS), _PRIORITY + 1
                loss = _either(loss, self._paths.get((t0, address, None), 0))
            action = TableAction("lossy_path", (("loss_ppb", loss),))
            yield t0, TableEntry("path_fault", (Ternary(address, _ALL_ADDRESS), source), action, priority)


def _impair(loss: int, corruption: int) -> TableAction:
    return TableAction("impair", (("loss_ppb", loss), ("corrupt_ppb", corruption)))


def _either(one: int, other: int) -> int:
    """Probability that at least one of two independent things happens, in ppb."""
    return ALWAYS - (ALWAYS - one) * (ALWAYS - other) // ALWAYS
