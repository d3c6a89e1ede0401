"""The registry of faults: which there are, what they take together, and those of the past.

Nothing here touches a link or a switch. A link may be cut by several faults; it comes back only when the last of
them is cleared. A fault may name many links by a pattern; when some of them are repaired, it is on the others from then
on. A flapping fault is active all the time, but leaves its links alone while they are up.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from controller.errors import BusyError, ControllerError
from controller.fault_impairments import FaultImpairments, PortShaping, combined_shapes
from controller.values import FaultRecord
from topologies.fabric import LinkEnd
from topologies.fault_entries import DataPlaneFault
from topologies.faults import FaultState

MAX_FAULTS = 1000
_REMEMBERED = MAX_FAULTS  # cleared faults
_NO_PARTS: Mapping[str, FaultImpairments] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What all active faults take together: links without carrier, the P4 program's faults, shapes by port.

    `entries` is None for what is not known.
    """

    down: frozenset[str] = frozenset()
    entries: tuple[DataPlaneFault, ...] | None = ()
    shapes: Mapping[LinkEnd, PortShaping] = field(default_factory=dict)


class FaultRegistry:
    """All faults that are pending or active, oldest first."""

    def __init__(self) -> None:
        self._records: dict[str, FaultRecord] = {}
        self._impairments: dict[str, FaultImpairments] = {}
        self._exempt: set[tuple[str, str]] = set()  # fault and link: it flaps, and is up just now
        self._past: deque[FaultRecord] = deque(maxlen=_REMEMBERED)
        self._numbers = itertools.count(1)
        self._together: tuple[tuple[DataPlaneFault, ...], Mapping[LinkEnd, PortShaping]] | None = None

    def __iter__(self) -> Iterator[FaultRecord]:
        return iter(tuple(self._records.values()))

    def __contains__(self, fault_id: str) -> bool:
        return fault_id in self._records

    @property
    def past(self) -> tuple[FaultRecord, ...]:
        """Those cleared last."""
        return tuple(self._past)

    def check_room(self) -> None:
        """BusyError if there are as many faults as there may be."""
        if len(self._records) >= MAX_FAULTS:
            raise BusyError(f"There are {MAX_FAULTS} faults already: clear some first.")

    def next_id(self) -> str:
        """An id that has not been used: f1, f2, ..."""
        return f"f{next(self._numbers)}"

    def add(self, record: FaultRecord, impairments: FaultImpairments) -> None:
        """Enter a fault; BusyError if there are too many. Ids of later ones are higher than this one's."""
        self.check_room()
        self._records[record.id] = record
        self._impairments[record.id] = impairments
        self._together = None

    def resume_after(self, records: Iterable[FaultRecord]) -> None:
        """Use no ids up to the highest of these again; those that are cleared count as of the past."""
        records = tuple(records)
        self._past.extend(record for record in records if record.state is FaultState.CLEARED)
        self._numbers = itertools.count(max(map(_number, records), default=0) + 1)

    def to_keep(self) -> tuple[FaultRecord, ...]:
        """All faults and, of those cleared, the one with the highest number, which no later fault may have."""
        return (*self, *([max(self._past, key=_number)] if self._past else ()))

    def change(self, fault_id: str, **changes: object) -> FaultRecord:
        """Note something about a fault; returns its new record."""
        if "state" in changes:
            self._together = None
        record = self._records[fault_id] = replace(self._records[fault_id], **changes)  # type: ignore[arg-type]
        return record

    def exempt(self, fault_id: str, links: Iterable[str], *, up: bool) -> None:
        """A flapping fault leaves links alone (`up`) or takes them again."""
        pairs = {(fault_id, link) for link in links}
        self._exempt = self._exempt | pairs if up else self._exempt - pairs

    def get(self, fault_id: str) -> FaultRecord:
        """The fault with an id; ControllerError if it is not in force."""
        try:
            return self._records[fault_id]
        except KeyError:
            raise ControllerError(f"There is no fault {fault_id}: it may have been cleared already.") from None

    def of_owner(self, owner: str) -> list[FaultRecord]:
        """Faults of an owner."""
        return [record for record in self if record.owner == owner]

    def on_links(self, links: Iterable[str]) -> list[FaultRecord]:
        """Faults that touch any of some links."""
        wanted = set(links)
        return [record for record in self if wanted & set(record.links)]

    def ids_on(self, link: str) -> tuple[str, ...]:
        """Ids of the faults on a link."""
        return tuple(record.id for record in self if link in record.links)

    def confine(
        self, parts: Mapping[str, FaultImpairments], switches: Mapping[str, tuple[str, ...]]
    ) -> tuple[FaultRecord, ...]:
        """Have faults, by id, on some of their links only, and held by some switches; returns the records."""
        self._impairments.update(parts)
        self._together = None
        return tuple(
            self.change(fault_id, links=part.links, switches=switches[fault_id]) for fault_id, part in parts.items()
        )

    def remove(self, records: Iterable[FaultRecord], now: int) -> tuple[FaultRecord, ...]:
        """Strike faults; returns them as they are now, cleared."""
        struck = []
        for record in records:
            if record.id in self._records:
                struck.append(replace(self._records.pop(record.id), state=FaultState.CLEARED, cleared_at_ns=now))
                del self._impairments[record.id]
        self._together = None
        ids = {record.id for record in struck}
        self._exempt = {(fault_id, link) for fault_id, link in self._exempt if fault_id not in ids}
        self._past.extend(struck)
        return tuple(struck)

    def impairments_of(self, fault_id: str) -> FaultImpairments:
        """What a fault takes."""
        return self._impairments[fault_id]

    def wanted(self, without: Iterable[FaultRecord] = (), parts: Mapping[str, FaultImpairments] = _NO_PARTS) -> Wanted:
        """What is to be so now, or would be without some faults and with others confined to `parts` of them."""
        gone = {record.id for record in without}
        active = {
            record.id: parts.get(record.id, self._impairments[record.id])
            for record in self
            if record.state is FaultState.ACTIVE and record.id not in gone
        }
        down = {link for name, taken in active.items() for link in taken.carrier if (name, link) not in self._exempt}
        together = None if gone or parts else self._together  # links that flap change `down` often, and nothing else
        if together is None:
            entries = tuple(entry for taken in active.values() for entry in taken.entries)
            together = entries, combined_shapes(active.values())
        if not gone and not parts:
            self._together = together
        return Wanted(frozenset(down), *together)


def _number(record: FaultRecord) -> int:
    number = record.id[1:]
    return int(number) if number.isdecimal() else 0
