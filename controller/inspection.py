"""Current state of switches: tables entry by entry, drops by reason, counters of ports."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

import finsy

from controller import entry_descriptions, translate
from controller.errors import ControllerError
from controller.fleet import Fleet
from controller.fleet_switch import FleetSwitch
from controller.values import Count, EntryState, PortCounters, SwitchCounters, SwitchTables, TableStatus
from p4src import DROP_REASONS, PORT_COUNTERS, port_drop
from topologies.entries import Member, SwitchEntries, TableEntry
from topologies.entry_difference import EntryDifference, Neutral, compare
from topologies.fabric import Fabric, LinkEnd, Switch

_REASONS = range(1, len(DROP_REASONS))


async def tables(fabric: Fabric, fleet: Fleet, pattern: str, *, entries: bool) -> list[SwitchTables]:
    """The tables of the switches that match (empty: all), compared with what should be there."""
    wanted = fabric.find_switches(pattern) if pattern else fabric.switches
    return list(await asyncio.gather(*(_tables(fleet.switches.get(switch.name), switch, entries) for switch in wanted)))


async def counters(fabric: Fabric, fleet: Fleet, pattern: str) -> list[SwitchCounters]:
    """Drops and port counters of the switches that match (empty: all)."""
    wanted = fabric.find_switches(pattern) if pattern else fabric.switches
    found = ((fleet.switches.get(switch.name), switch) for switch in wanted)
    return list(await asyncio.gather(*(_counters(fabric, managed, switch) for managed, switch in found)))


async def _tables(managed: FleetSwitch | None, switch: Switch, list_entries: bool) -> SwitchTables:
    name = switch.name
    if managed is None:
        return SwitchTables(name, problems=(no_tables(name),))
    try:
        schema = managed.schema
        entities = await managed.read(translate.wildcards(schema, counters=True))
    except ControllerError as error:
        return SwitchTables(name, problems=(str(error),))
    found = translate.decode_all(name, entities, schema)
    difference = compare(managed.wanted, found)
    counts = {
        translate.decode_entry(entity, schema): (entity.counter_data.packet_count, entity.counter_data.byte_count)
        for entity in entities
        if isinstance(entity, finsy.P4TableEntry) and entity.counter_data and not entity.is_default_action
    }
    states = _table_states(managed.wanted, found, difference, counts, list_entries)
    return SwitchTables(name, tuple(states), tuple(entry_descriptions.problems(difference)))


def _table_states(
    wanted: SwitchEntries,
    found: SwitchEntries,
    difference: EntryDifference,
    counts: dict[TableEntry, tuple[int, int]],
    list_entries: bool,
) -> Iterable[TableStatus]:
    expected, present = Counter(map(_where, _all(wanted))), Counter(map(_where, _all(found)))
    missing, wrong, superfluous = (
        Counter(map(_where, some)) for some in (difference.missing, difference.wrong, difference.superfluous)
    )
    for name in dict.fromkeys((*expected, *present)):
        here = [entry for entry in _all(found) if _where(entry) == name]
        sums = [counts.get(entry, (0, 0)) if isinstance(entry, TableEntry) else (0, 0) for entry in here]
        rows = (EntryState(*entry_descriptions.parts(entry), *count) for entry, count in zip(here, sums, strict=True))
        yield TableStatus(
            name=name,
            expected=expected[name],
            present=present[name],
            missing=missing[name],
            wrong=wrong[name],
            superfluous=superfluous[name],
            packets=sum(packets for packets, _ in sums),
            bytes=sum(size for _, size in sums),
            entries=tuple(rows) if list_entries else (),
        )


def _all(entries: SwitchEntries) -> tuple[Neutral, ...]:
    return *entries.entries, *entries.groups, *entries.members


def _where(entry: Neutral) -> str:
    """Table, or what of which action profile."""
    if isinstance(entry, TableEntry):
        return entry.table
    return f"{entry.profile} {'members' if isinstance(entry, Member) else 'groups'}"


def no_tables(switch: str) -> str:
    """The message for a kernel switch."""
    return f"Switch {switch} is the kernel's: it has no tables, and counts by link alone."


async def _counters(fabric: Fabric, managed: FleetSwitch | None, switch: Switch) -> SwitchCounters:
    if managed is None:
        return SwitchCounters(switch.name)
    wanted = {(name, port): (name, port) for name in PORT_COUNTERS for port in switch.ports}
    wanted |= {(DROP_REASONS[r], port): ("port_drops", port_drop(port, r)) for r in _REASONS for port in switch.ports}
    try:
        known = {counter.alias for counter in managed.schema.counters}  # a program of the user's may have others
        totals = [finsy.P4CounterEntry(name) for name in ("drop_reasons",) if name in known]
        single = [finsy.P4CounterEntry(name, index=index) for name, index in wanted.values() if name in known]
        drops = await managed.read(totals) if totals else []
        cells = await managed.read(single) if single else []
    except ControllerError as error:
        return SwitchCounters(switch.name, problem=str(error))
    found = {(cell.counter_id, cell.index): cell for cell in cells}
    reasons = tuple(_count(reason, cell) for reason, cell in _named(drops))
    ports = []
    for port in switch.ports:
        link = fabric.link_at(LinkEnd(switch.name, port))
        counts = tuple(_count(name, found.get(cell)) for (name, at), cell in wanted.items() if at == port)
        ports.append(PortCounters(port, link.name if link else "", counts))
    return SwitchCounters(switch.name, reasons, tuple(ports))


def _named(cells: Iterable[finsy.P4CounterEntry]) -> Iterable[tuple[str, finsy.P4CounterEntry | None]]:
    """Every reason with its cell."""
    by_index = {cell.index: cell for cell in cells}
    return [(DROP_REASONS[reason], by_index.get(reason)) for reason in _REASONS]


def _count(name: str, cell: finsy.P4CounterEntry | None) -> Count:
    if cell is None or cell.data is None:
        return Count(name, 0, 0)
    return Count(name, cell.data.packet_count, cell.data.byte_count)
