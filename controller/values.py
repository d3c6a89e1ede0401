"""Values that describe switches, links and faults, on both sides of the controller's service."""

from __future__ import annotations

import enum
import time
from collections.abc import Mapping
from dataclasses import dataclass

from topologies.emulation.link_counters import Traffic
from topologies.fabric import LinkKind, Tier
from topologies.faults.record import FaultRecord

SWITCH_TIMEOUT_S = 7.0  # for a switch to answer anything during a change
# Requests to one switch that a change of faults may wait for: those of a reconciliation that is under way (read, write
# members, groups and entries, write them in the other order to delete, read again), then new entries and old ones away.
CHANGE_REQUESTS = 2 + 6 + 2
MAX_PRIORITY = (1 << 31) - 1  # of a table entry: P4Runtime has signed 32-bit numbers
AGENT_TIMEOUT_S = 5.0  # for an agent to answer the controller, whose own clients wait for 10 s


@dataclass(frozen=True, slots=True)
class SwitchInfo:
    """A switch, as in :class:`topologies.fabric.Switch`."""

    name: str
    tier: Tier
    plane: int
    index: int
    device_id: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NicInfo:
    """A NIC: number of its T0 in every plane, its downlink there, its IPv6 address."""

    name: str
    t0: int
    downlink: int
    address: str


@dataclass(frozen=True, slots=True)
class LinkEndInfo:
    """One end of a link: node, port, and the interface that is that port."""

    node: str
    port: int
    interface: str


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """A link as it was built; `lower` is the end nearer to the NICs."""

    name: str
    plane: int
    lower: LinkEndInfo
    upper: LinkEndInfo
    rate_bps: int


@dataclass(frozen=True, slots=True)
class Topology:
    """What a fabric consists of."""

    fabric: str
    planes: int
    mtu: int
    switches: tuple[SwitchInfo, ...]
    nics: tuple[NicInfo, ...]
    links: tuple[LinkInfo, ...]


class SwitchState(enum.Enum):
    """How far the controller is with a switch."""

    CONNECTING = "connecting"
    PROGRAMMING = "programming"
    VERIFIED = "verified"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SwitchStatus:
    """One switch: its state, how many entries it should hold, how many were repaired last, what is wrong.

    `present` and `missing` are what it held and lacked when it was last read, after repair.
    """

    name: str
    state: SwitchState
    entries: int
    repaired: int = 0
    problems: tuple[str, ...] = ()
    present: int = 0
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Replanned:
    """How many entries of a switch other routes change, and whether that is done: if not, when the switch is back."""

    changes: int
    done: bool


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """All switches of a fabric; `ready` when every one of them is verified."""

    fabric: str
    ready: bool
    switches: tuple[SwitchStatus, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, as messages."""
        return tuple(problem for switch in self.switches for problem in switch.problems)


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """A link: what it joins, whether both its ends are up, its traffic and the ids of the faults on it.

    `lower` is the end nearer to the NICs; `upward` traffic goes from there, `downward` towards it.
    `read_at_ns` is CLOCK_MONOTONIC when the kernel was asked.
    """

    name: str
    kind: LinkKind
    plane: int
    lower: LinkEndInfo
    upper: LinkEndInfo
    rate_bps: int
    up: bool
    upward: Traffic
    downward: Traffic
    fault_ids: tuple[str, ...]
    read_at_ns: int


@dataclass(frozen=True, slots=True)
class Cleared:
    """Outcome of clearing faults: which are gone, and which links were taken up, when (as in :class:`FaultRecord`).

    `remaining` are faults of a pattern that are still on the links that were not cleared.
    """

    faults: tuple[FaultRecord, ...]
    links: tuple[str, ...]
    began_at_ns: int
    applied_at_ns: int
    remaining: tuple[FaultRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """A counter by name."""

    name: str
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PortCounters:
    """What the P4 program counts for a port, beside the link that is plugged in there.

    Marks, trims and corruption under the names of the program's counters; drops under the reason, at the port where the
    packet arrived, or, for "queue full" and "departure loss", where it would have left.
    """

    port: int
    link: str
    counts: tuple[Count, ...]


@dataclass(frozen=True, slots=True)
class SwitchCounters:
    """Drops of a switch by reason, and its ports' counters; or the `problem` why they could not be read."""

    switch: str
    drops: tuple[Count, ...] = ()
    ports: tuple[PortCounters, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class EntryState:
    """An entry of a table as an operator reads it, with its direct counter."""

    match: str
    action: str
    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table (or action profile) of a switch: what should be there, what is; the sum of its direct counters."""

    name: str
    expected: int
    present: int
    missing: int
    wrong: int
    superfluous: int
    packets: int = 0
    bytes: int = 0
    entries: tuple[EntryState, ...] = ()


class TableChange(enum.Enum):
    """What to do with an entry of a table."""

    ADD = "add"
    MODIFY = "modify"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class EntryWords:
    """An entry as a user writes it.

    `match` has a word for each field of the key, in its order: a number or address, ``10.0.0.0/8``, ``value&&&mask``,
    ``low->high``, or ``*`` for anything. `args` are those of the action, in its order; one more is the priority, as in
    ``simple_switch_CLI``. To delete an entry neither `action` nor `args` are needed.
    """

    table: str
    match: tuple[str, ...]
    action: str = ""
    args: tuple[str, ...] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class HandEntryInfo:
    """An entry that was changed by hand, as ``tables`` shows it; or was `deleted`, although one is planned."""

    switch: str
    table: str
    match: str
    priority: int
    deleted: bool


@dataclass(frozen=True, slots=True)
class SwitchTables:
    """The tables of a switch as read just now, and what is wrong there."""

    switch: str
    tables: tuple[TableStatus, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostDeniedPath:
    """A path that `host` may not use to `peer`."""

    host: str
    peer: str
    ev: int


@dataclass(frozen=True, slots=True)
class NicCounters:
    """Counters of a host's NIC by name (docs/counters.md): the NIC's, each port's, and by QPN those of queue pairs.

    `problem` says why the agent could not be asked, and is empty if it could.
    """

    host: str
    counters: Mapping[str, int]
    ports: tuple[Mapping[str, int], ...]
    queue_pairs: Mapping[int, Mapping[str, int]]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MachineClock:
    """The clocks of a machine at the same moment: CLOCK_MONOTONIC, and ns since 1970."""

    monotonic_ns: int
    epoch_ns: int

    @classmethod
    def here(cls) -> MachineClock:
        """Those of this machine, now."""
        return cls(time.monotonic_ns(), time.time_ns())

    def epoch_of(self, monotonic_ns: int) -> int:
        """A time of this machine's CLOCK_MONOTONIC as ns since 1970."""
        return self.epoch_ns + monotonic_ns - self.monotonic_ns


class EventKind(enum.Enum):
    """What has happened; SUBSCRIBED is the first that a subscriber sees."""

    SUBSCRIBED = "subscribed"
    FAULT_ADDED = "fault added"
    FAULT_ACTIVE = "fault active"
    FAULT_CHANGED = "fault changed"
    FAULT_CLEARED = "fault cleared"
    SWITCH_LOST = "switch lost"
    SWITCH_RETURNED = "switch returned"
    ENTRIES_REPAIRED = "entries repaired"
    LINK_DOWN = "link down"
    LINK_UP = "link up"
    DENYLIST_CHANGED = "denylist changed"
    REROUTED = "rerouted"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened to the fault, switch, link, host or plane `name`, at `at_ns` of CLOCK_MONOTONIC.

    `number` counts a controller's events; `dropped` those that this subscriber has lost because it did not keep up.
    """

    number: int
    at_ns: int
    kind: EventKind
    name: str = ""
    detail: str = ""
    fault: FaultRecord | None = None
    dropped: int = 0
