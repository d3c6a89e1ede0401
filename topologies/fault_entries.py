"""Faults that the P4 program makes (p4src/arrival_faults.p4, departure_faults.p4), by name, as table entries.

A frame that a link loses or corrupts was sent: so the receiving switch does it, on arrival, and only towards a NIC, or
a switch that Linux itself is, the sending one, on departure. What a kernel switch would have to do is refused. Several
faults on one port or path make one entry with the joint probability. Probabilities are parts per billion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mrc_common.p4_match import Exact, Ternary
from topologies import addressing, paths
from topologies.entries import TableAction, TableEntry
from topologies.errors import FabricError
from topologies.fabric import Fabric, Link, LinkEnd
from topologies.fault_targets import directions, is_p4
from topologies.faults.blackhole import Blackhole
from topologies.faults.path_loss import PathLoss

ALWAYS = 1_000_000_000  # p4src/chance.p4
MAX_LOSSY_PATHS = 1024  # of one T0: PATH_FAULT_SIZE in p4src/sizes.p4
_ALL_PORTS, _ALL_ADDRESS = 0x1FF, (1 << 128) - 1
_PRIORITY, _PRIORITY_BLACKHOLE = 1, 2


@dataclass(frozen=True, slots=True)
class LinkFault:
    """Random loss and corruption on links that match `link`, `towards` the nodes that match, in ppb each."""

    link: str
    loss: int = 0
    corruption: int = 0
    towards: str = "*"


DataPlaneFault = LinkFault | Blackhole | PathLoss


def ppb(probability: float) -> int:
    """A probability from 0 to 1 as parts per billion; FabricError if it is not one, or too small to be represented."""
    if not 0 <= probability <= 1:
        raise FabricError(f"a probability is between 0 and 1, not {probability}")
    found = round(probability * ALWAYS)
    if probability and not found:
        raise FabricError(f"a switch knows no probability below one in a billion, and {probability:g} is less")
    return found


def directions_of(fabric: Fabric, fault: LinkFault) -> tuple[tuple[Link, LinkEnd], ...]:
    """Links that a fault is on, each with the end that frames are lost towards; FabricError if there is none."""
    return tuple((link, target) for link, _, target in directions(fabric, fault.link, fault.towards))


def fault_entries(fabric: Fabric, faults: Iterable[DataPlaneFault]) -> Mapping[str, tuple[TableEntry, ...]]:
    """The table entries that make all of `faults` together, by switch name; switches without any are left out.

    Raises :class:`FabricError` if a fault names what the fabric does not have, or a table of a switch
    cannot hold them all.
    """
    return FaultTables(fabric).entries(faults)


class FaultTables:
    """:func:`fault_entries` of one fabric, again and again, as faults come and go.

    Where a fault is, is looked up once while it is there, and one that comes is added to what there is: a thousand that
    are everywhere would else be a thousand times as much work at each change.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._places: dict[DataPlaneFault, _Places] = {}
        self._planned: tuple[DataPlaneFault, ...] = ()
        self._plan = _Plan()

    def entries(self, faults: Iterable[DataPlaneFault]) -> Mapping[str, tuple[TableEntry, ...]]:
        """The entries that make all of `faults` together, as of :func:`fault_entries`."""
        wanted = tuple(faults)
        self._places = {
            fault: self._places[fault] if fault in self._places else _places(self._fabric, fault)
            for fault in dict.fromkeys(wanted)
        }
        if wanted[: len(self._planned)] != self._planned:
            self._planned, self._plan = (), _Plan()
        for fault in wanted[len(self._planned) :]:
            self._plan.add(self._places[fault])
        self._planned = wanted
        self._plan.check()
        entries: dict[str, list[TableEntry]] = {}
        for switch, entry in self._plan.entries():
            entries.setdefault(switch, []).append(entry)
        return {switch: tuple(found) for switch, found in entries.items()}


_Path = tuple[str, int, int | None]  # T0, outer destination, and the sender if it is one alone


@dataclass(frozen=True, slots=True)
class _Places:
    """Where one fault is, and its chances (loss, corruption) there in ppb."""

    arrivals: tuple[LinkEnd, ...] = ()
    departures: tuple[LinkEnd, ...] = ()
    paths: tuple[_Path, ...] = ()
    blackholes: tuple[str, ...] = ()
    loss: int = 0
    corruption: int = 0


def _places(fabric: Fabric, fault: DataPlaneFault) -> _Places:
    if isinstance(fault, Blackhole):
        names = tuple(switch.name for switch in fabric.find_switches(fault.switch))
        for name in names:
            _check_p4(fabric, name, "drop everything silently: use power_off")
        return _Places(blackholes=names)
    if isinstance(fault, PathLoss):
        return _Places(paths=_lossy_paths(fabric, fault), loss=ppb(fault.probability))
    arrivals, departures = [], []
    for _, source, target in directions(fabric, fault.link, fault.towards):
        if is_p4(fabric, target.node):
            arrivals.append(target)
        else:
            _check_sender(fabric, source, target)
            departures.append(source)
    return _Places(tuple(arrivals), tuple(departures), loss=fault.loss, corruption=fault.corruption)


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


def _lossy_paths(fabric: Fabric, fault: PathLoss) -> tuple[_Path, ...]:
    """Losses at the first T0 of the path, where the whole list of uSIDs still stands in the address.

    Between NICs of one T0 the list is that of the last hop of every path, and of probes that come back to their sender:
    there the sender says that the path begins here.
    """
    found: set[_Path] = set()
    for nic in fabric.find_nics(fault.source):
        for peer in fabric.find_nics(fault.destination):
            if peer == nic:
                continue
            route = paths.destination(fabric, nic, peer)
            if fault.ev in route.evs:
                t0 = f"t0-{nic.t0}@p{route.template.plane(fault.ev)}"
                _check_p4(fabric, t0, "lose packets of one path: use a link")
                address = int.from_bytes(route.template.address(fault.ev), "big")
                any_sender = fault.source == "*" and nic.t0 != peer.t0
                sender = None if any_sender else int(addressing.nic_address(fabric, nic))
                found.add((t0, address, sender))
    if not found:
        raise FabricError(fault.without_path(fabric))
    return tuple(sorted(found, key=str))


class _Plan:
    """Probabilities by what they apply to, collected fault by fault."""

    def __init__(self) -> None:
        self._arrivals: dict[LinkEnd, tuple[int, int]] = {}
        self._departures: dict[LinkEnd, tuple[int, int]] = {}
        self._paths: dict[_Path, int] = {}
        self._blackholes: dict[str, None] = {}

    def add(self, places: _Places) -> None:
        self._blackholes.update(dict.fromkeys(places.blackholes))
        for ends, chances in ((places.arrivals, self._arrivals), (places.departures, self._departures)):
            for end in ends:
                loss, corruption = chances.get(end, (0, 0))
                chances[end] = _either(loss, places.loss), _either(corruption, places.corruption)
        for path in places.paths:
            self._paths[path] = _either(self._paths.get(path, 0), places.loss)

    def check(self) -> None:
        """FabricError if a switch cannot hold it. Other tables of faults have an entry for each port."""
        for t0, count in Counter(t0 for t0, _, _ in self._paths).items():
            if count > MAX_LOSSY_PATHS:
                raise FabricError(
                    f"losses on paths take {count} entries of table path_fault of {t0}, which has {MAX_LOSSY_PATHS}:"
                    " name fewer source and destination hosts, or clear other faults on paths"
                )

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
