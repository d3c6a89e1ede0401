"""Faults that the P4 program makes (p4src/arrival_faults.p4, departure_faults.p4), by name, as table entries.

A frame that a link loses or damages was sent: so the receiving switch does it, on arrival, and only towards a NIC the
sending one, on departure. Several faults on one port or path make one entry with the joint probability. Probabilities
are parts per billion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from topologies import addressing, paths
from topologies.entries import Action, Exact, TableEntry, Ternary
from topologies.errors import FabricError
from topologies.fabric import Endpoint, Fabric, Link, Nic
from topologies.fault_places import lines
from topologies.faults.blackhole import Blackhole
from topologies.faults.path_loss import PathLoss

ALWAYS = 1_000_000_000  # p4src/chance.p4
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
    """A probability from 0 to 1 as parts per billion; FabricError if it is not one."""
    if not 0 <= probability <= 1:
        raise FabricError(f"a probability is between 0 and 1, not {probability}")
    return round(probability * ALWAYS)


def lines_of(fabric: Fabric, fault: LinkFault) -> tuple[tuple[Link, Endpoint], ...]:
    """Links that a fault is on, each with the end that frames are lost towards; FabricError if there is none."""
    return tuple((link, target) for link, _, target in lines(fabric, fault.link, fault.towards))


def fault_entries(fabric: Fabric, faults: Iterable[DataPlaneFault]) -> Mapping[str, tuple[TableEntry, ...]]:
    """The table entries that make all of `faults` together, by switch name; switches without any are left out.

    Raises :class:`FabricError` with one sentence if a fault names what the fabric does not have.
    """
    plan = _Plan(fabric)
    for fault in faults:
        plan.add(fault)
    entries: dict[str, list[TableEntry]] = {}
    for switch, entry in plan.entries():
        entries.setdefault(switch, []).append(entry)
    return {switch: tuple(found) for switch, found in entries.items()}


class _Plan:
    """Probabilities by what they apply to, collected fault by fault."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._arrivals: dict[Endpoint, tuple[int, int]] = {}
        self._departures: dict[Endpoint, tuple[int, int]] = {}
        self._paths: dict[tuple[str, int, int | None], int] = {}
        self._blackholes: dict[str, None] = {}

    def add(self, fault: DataPlaneFault) -> None:
        if isinstance(fault, LinkFault):
            self._add_link(fault)
        elif isinstance(fault, Blackhole):
            self._blackholes.update(dict.fromkeys(switch.name for switch in self._fabric.find_switches(fault.switch)))
        else:
            self._add_path(fault)

    def _add_link(self, fault: LinkFault) -> None:
        for _, end in lines_of(self._fabric, fault):
            where, ports = end, self._arrivals
            if end.node in self._fabric.nic_names:
                sender = self._fabric.peer(end)
                assert sender is not None, "a fabric has a link on every NIC port"
                where, ports = sender, self._departures
            loss, corruption = ports.get(where, (0, 0))
            ports[where] = _either(loss, fault.loss), _either(corruption, fault.corruption)

    def _add_path(self, fault: PathLoss) -> None:
        """Losses at the first T0 of the path, where the whole list of uSIDs still stands in the address."""
        found = set()
        for nic in _nics(self._fabric, fault.source):
            for peer in _nics(self._fabric, fault.destination):
                if peer == nic:
                    continue
                route = paths.destination(self._fabric, nic, peer)
                if fault.ev in route.evs:
                    t0 = f"t0-{nic.t0}@p{route.template.plane(fault.ev)}"
                    address = int.from_bytes(route.template.address(fault.ev), "big")
                    sender = None if fault.source == "*" else int(addressing.nic_address(self._fabric, nic))
                    found.add((t0, address, sender))
        if not found:
            raise FabricError(
                f"no path from {fault.source!r} to {fault.destination!r} has the entropy value {fault.ev:#x}"
            )
        for key in sorted(found, key=str):
            self._paths[key] = _either(self._paths.get(key, 0), ppb(fault.probability))

    def entries(self) -> Iterator[tuple[str, TableEntry]]:
        for switch in self._blackholes:
            yield switch, TableEntry("arrival_fault", (Ternary(0, 0),), Action("blackhole"), _PRIORITY_BLACKHOLE)
        for end, chances in self._arrivals.items():
            key = (Ternary(end.port, _ALL_PORTS),)
            yield end.node, TableEntry("arrival_fault", key, _hurt(*chances), _PRIORITY)
        for end, chances in self._departures.items():
            yield end.node, TableEntry("departure_fault", (Exact(end.port),), _hurt(*chances))
        for (t0, address, sender), loss in self._paths.items():
            source, priority = Ternary(0, 0), _PRIORITY
            if sender is not None:  # goes before the entry for all senders, and so includes its loss
                source, priority = Ternary(sender, _ALL_ADDRESS), _PRIORITY + 1
                loss = _either(loss, self._paths.get((t0, address, None), 0))
            action = Action("lossy_path", (("lose", loss),))
            yield t0, TableEntry("path_fault", (Ternary(address, _ALL_ADDRESS), source), action, priority)


def _hurt(loss: int, corruption: int) -> Action:
    return Action("hurt", (("lose", loss), ("corrupt", corruption)))


def _either(one: int, other: int) -> int:
    """Probability that at least one of two independent things happens, in ppb."""
    return ALWAYS - (ALWAYS - one) * (ALWAYS - other) // ALWAYS


def _nics(fabric: Fabric, pattern: str) -> list[Nic]:
    found = [nic for nic in fabric.nics if fnmatchcase(nic.name, pattern)]
    return found or [fabric.nic(pattern)]
