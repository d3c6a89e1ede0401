"""Entities that a control plane reads and writes: table entries, members, groups, meters, digests, log records.

All values are frozen, all numbers are plain ints (fields of any width), arguments are given by position, and all names
are the full ones of the BMv2 JSON, which are also those of the P4Info. `Entry.match` lists the key fields in the
table's order. Priorities follow P4Runtime: the larger one wins.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrc_common.p4_match import GroupRef, Match, MemberRef


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action with its arguments in order."""

    name: str
    args: tuple[int, ...] = ()


EntryTarget = ActionCall | MemberRef | GroupRef


@dataclass(frozen=True, slots=True)
class Entry:
    """One table entry. `priority` is > 0 for tables with ternary, range or optional keys, 0 for the others."""

    match: tuple[Match, ...]
    target: EntryTarget
    priority: int = 0


@dataclass(frozen=True, slots=True)
class CounterValue:
    """Value of a counter cell."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """A two-rate three-color meter: rates in bytes/s or packets/s, bursts in bytes or packets, as declared.

    Packets above the peak rate are red, above the committed rate yellow, others green (RFC 2698, color-blind).
    """

    cir: int
    cburst: int
    pir: int
    pburst: int


@dataclass(frozen=True, slots=True)
class MeterColors:
    """Packets and bytes that a meter has colored so far."""

    green: CounterValue = CounterValue()
    yellow: CounterValue = CounterValue()
    red: CounterValue = CounterValue()


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a multicast or cloned packet; `instance` becomes egress_rid.

    While its port is down, the first of `backups` whose port is up replaces it (backups have none of their own).
    """

    port: int
    instance: int = 0
    backups: tuple[Replica, ...] = ()


@dataclass(frozen=True, slots=True)
class CloneSession:
    """Destinations of clones. `max_length` > 0 truncates the copies to that many bytes."""

    replicas: tuple[Replica, ...]
    max_length: int = 0


@dataclass(frozen=True, slots=True)
class Digest:
    """One digest message: name of the digest, field values in order, time of the packet in ns."""

    name: str
    values: tuple[int, ...]
    time: int


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record of log_msg(), a failed assertion, or the trace; time in ns."""

    time: int
    text: str
