"""Differences between the entries that a switch should hold and those that it holds, and their description.

Static entries are written once, but a switch may have been restarted, or somebody may have changed its tables by
hand. So the controller never assumes: it reads, takes the difference to what the fabric demands, writes just that,
and reads again. An empty switch is the case where everything is missing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address

from mrc_common.p4_match import GroupRef, Lpm, Match, MemberRef, Range, Ternary
from topologies.entries import Group, Member, SwitchEntries, TableAction, TableEntry

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

    def problems(self) -> Iterator[str]:
        """A message for each entry."""
        for entries, what in (
            (self.missing, "is missing"),
            (self.wrong, "is not as it should be"),
            (self.superfluous, "should not be there"),
        ):
            for entry in entries:
                yield f"{self.switch}: {describe(entry)} {what}"

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


def count(entries: SwitchEntries) -> int:
    """Number of members, groups and table entries."""
    return len(entries.members) + len(entries.groups) + len(entries.entries)


def describe(entry: Neutral) -> str:
    """Name an entry as an operator would: table and key, or profile and id."""
    if isinstance(entry, TableEntry):
        return f"entry {', '.join(_describe_match(match) for match in entry.match)} of table {entry.table}"
    if isinstance(entry, Member):
        return f"member {entry.member_id} of {entry.profile}"
    return f"group {entry.group_id} of {entry.profile}"


def parts(entry: Neutral) -> tuple[str, str]:
    """Match and action of an entry, or id and content of a member or group, as an operator reads them."""
    if isinstance(entry, TableEntry):
        return ", ".join(map(_describe_match, entry.match)), _describe_target(entry.target)
    if isinstance(entry, Member):
        return str(entry.member_id), _describe_target(entry.action)
    return str(entry.group_id), ", ".join(f"member {member} x {weight}" for member, weight in entry.members)


def _describe_target(target: TableAction | MemberRef | GroupRef) -> str:
    if isinstance(target, MemberRef):
        return f"member {target.member_id}"
    if isinstance(target, GroupRef):
        return f"group {target.group_id}"
    return f"{target.name}({', '.join(f'{name}={value}' for name, value in target.args)})"


def _describe_match(match: Match) -> str:
    if isinstance(match, Lpm):
        return f"{_address(match.value)}/{match.prefix_len}"
    if isinstance(match, Ternary):
        return f"{match.value:#x} under {match.mask:#x}"
    if isinstance(match, Range):
        return f"{match.low} to {match.high}"
    if match.value is None:
        return "anything"
    if match.value >> 48:
        return _address(match.value)
    if match.value >> 32:  # a locator: the first 48 bits of an address
        return f"{IPv6Address(match.value << 80)}/48"
    return str(match.value)


def _address(value: int) -> str:
    """A value as an IPv6 address, as far as it may be one: programs of the user's have keys of any width."""
    return str(IPv6Address(value)) if not value or 64 < value.bit_length() <= 128 else f"{value:#x}"


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
