"""Differences between the entries that a switch should hold and those that it holds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from topologies.entries import Group, Member, SwitchEntries, TableEntry, route_entries
from topologies.fabric import Fabric, LinkKind, Switch
from topologies.ip_routes import ip_routes

Neutral = TableEntry | Member | Group


@dataclass(frozen=True, slots=True)
class EntryDifference:
    """Entries of one switch that are to be inserted, modified and deleted to make it what it should be."""

    switch: str
    missing: tuple[Neutral, ...]
    wrong: tuple[Neutral, ...]
    superfluous: tuple[Neutral, ...]

    def __len__(self) -> int:
        return len(self.missing) + len(self.wrong) + len(self.superfluous)

    def stages(self) -> Iterator[tuple[tuple[Neutral, ...], tuple[Neutral, ...], tuple[Neutral, ...]]]:
        """Insertions, modifications and deletions in an order that never leaves a reference dangling.

        Updates of one P4Runtime write may be carried out in any order (P4Runtime specification, batching), so each
        stage is to be a write of its own: new members, then groups, then entries; then entries go before groups and
        members.
        """
        for kind in (Member, Group, TableEntry):
            yield _of(kind, self.missing), _of(kind, self.wrong), ()
        for kind in (TableEntry, Group, Member):
            yield (), (), _of(kind, self.superfluous)


def compare(wanted: SwitchEntries, found: SwitchEntries) -> EntryDifference:
    """The difference between what a switch should hold and what it holds."""
    target, actual = _by_key(wanted), _by_key(found)
    return EntryDifference(
        wanted.switch,
        missing=tuple(entry for key, entry in target.items() if key not in actual),
        wrong=tuple(entry for key, entry in target.items() if key in actual and actual[key] != entry),
        superfluous=tuple(entry for key, entry in actual.items() if key not in target),
    )


def route_difference(fabric: Fabric, switch: Switch, after: frozenset[str], before: frozenset[str]) -> EntryDifference:
    """What a switch is to change of its routes for plain IPv6 when the links of `after` are down instead of `before`.

    Links are given by name. MRC's own routes are never among it.
    """
    changed = after ^ before
    cut = any(link.kind is LinkKind.NIC_T0 and link.name in changed for link in fabric.links_of(switch.name))
    if not cut and ip_routes(fabric, switch, after) == ip_routes(fabric, switch, before):
        return EntryDifference(switch.name, (), (), ())
    return compare(route_entries(fabric, switch, after), route_entries(fabric, switch, before))


def count(entries: SwitchEntries) -> int:
    """Number of members, groups and table entries."""
    return len(entries.members) + len(entries.groups) + len(entries.entries)


def _key(entry: Neutral) -> Hashable:
    if isinstance(entry, TableEntry):
        return entry.table, entry.match, entry.priority
    if isinstance(entry, Member):
        return Member, entry.profile, entry.member_id
    return Group, entry.profile, entry.group_id


def _by_key(entries: SwitchEntries) -> dict[Hashable, Neutral]:
    every: Iterable[Neutral] = (*entries.members, *entries.groups, *entries.entries)
    return {_key(entry): entry for entry in every}


def _of(kind: type[Neutral], entries: tuple[Neutral, ...]) -> tuple[Neutral, ...]:
    return tuple(entry for entry in entries if isinstance(entry, kind))
