"""Entries of switches in words, for messages and listings, and a sentence for each that is not as it should be.

What differs is found by ``topologies.entry_difference`` and put right by ``fleet_switch``.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address

from mrc_common.p4_match import GroupRef, Lpm, Match, MemberRef, Range, Ternary
from topologies.entries import Member, TableAction, TableEntry
from topologies.entry_difference import EntryDifference, Neutral


def problems(difference: EntryDifference) -> Iterator[str]:
    """A message for each entry that is not as it should be."""
    for entries, what in (
        (difference.missing, "is missing"),
        (difference.wrong, "is not as it should be"),
        (difference.superfluous, "should not be there"),
    ):
        for entry in entries:
            yield f"{difference.switch}: {describe(entry)} {what}"


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
