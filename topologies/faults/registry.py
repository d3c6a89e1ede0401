"""The faults that there are, with what each does, and those of the past.

Nothing here knows the time, or what the faults take together (:mod:`topologies.faults.engine`). A fault may name many
links by a pattern; when some of them are repaired, it is on the others from then on.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from topologies.errors import UnknownFaultError
from topologies.faults.effect import Effect
from topologies.faults.kind import FaultState
from topologies.faults.record import FaultRecord

_REMEMBERED = 1000  # cleared faults
_ID = re.compile("f([1-9][0-9]{0,17})")


class FaultRegistry:
    """All faults that are pending or active, oldest first."""

    def __init__(self) -> None:
        self._records: dict[str, FaultRecord] = {}
        self._effects: dict[str, Effect] = {}
        self._past: deque[FaultRecord] = deque(maxlen=_REMEMBERED)
        self._numbers = itertools.count(1)

    def __iter__(self) -> Iterator[FaultRecord]:
        return iter(tuple(self._records.values()))

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, fault_id: str) -> bool:
        return fault_id in self._records

    @property
    def past(self) -> tuple[FaultRecord, ...]:
        """Those cleared last."""
        return tuple(self._past)

    def next_id(self) -> str:
        """An id that has not been used: f1, f2, ..."""
        return f"f{next(self._numbers)}"

    def id_for(self, fault_id: str) -> str:
        """The id of a fault of before; another if it is of no form that ids have, or another fault has it."""
        while fault_id in self or not _ID.fullmatch(fault_id):
            fault_id = self.next_id()
        return fault_id

    def add(self, record: FaultRecord, effect: Effect) -> None:
        """Enter a fault."""
        self._records[record.id] = record
        self._effects[record.id] = effect

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
        record = self._records[fault_id] = replace(self._records[fault_id], **changes)  # type: ignore[arg-type]
        return record

    def get(self, fault_id: str) -> FaultRecord:
        """The fault with an id; UnknownFaultError if it is not in force."""
        try:
            return self._records[fault_id]
        except KeyError:
            raise UnknownFaultError(f"There is no fault {fault_id}: it may have been cleared already.") from None

    def effect(self, fault_id: str) -> Effect:
        """What a fault does."""
        return self._effects[fault_id]

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

    def confine(self, parts: Mapping[str, Effect]) -> tuple[FaultRecord, ...]:
        """Have faults, by id, do a part only of what they did; returns the records."""
        self._effects.update(parts)
        return tuple(
            self.change(fault_id, links=part.links, switches=part.switches) for fault_id, part in parts.items()
        )

    def remove(self, fault_ids: Iterable[str], now: int) -> tuple[FaultRecord, ...]:
        """Strike faults, if they are there; returns them as they are now, cleared."""
        struck = []
        for fault_id in fault_ids:
            if fault_id in self._records:
                record = self._records.pop(fault_id)
                struck.append(replace(record, state=FaultState.CLEARED, cleared_at_ns=now))
                del self._effects[fault_id]
        self._past.extend(struck)
        return tuple(struck)


def _number(record: FaultRecord) -> int:
    found = _ID.fullmatch(record.id)
    return int(found[1]) if found else 0
