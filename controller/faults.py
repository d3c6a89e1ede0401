"""The book of faults: which fault is on which link, and which links come back when one is cleared.

Nothing here touches a link or a switch. A link may be cut by several faults; it comes back only when the last of
them is cleared. Faults that the P4 program makes leave links up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from controller.errors import ControllerError
from controller.values import Fault, FaultKind
from topologies.fault_entries import DataPlaneFault


class FaultBook:
    """All faults that are in force, oldest first."""

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}
        self._numbers = itertools.count(1)

    def __iter__(self) -> Iterator[Fault]:
        return iter(tuple(self._faults.values()))

    def next_id(self) -> str:
        """An id that has not been used: f1, f2, ..."""
        return f"f{next(self._numbers)}"

    def add(self, fault: Fault) -> None:
        """Enter a fault that has been applied."""
        self._faults[fault.id] = fault

    def get(self, fault_id: str) -> Fault:
        """The fault with an id; ControllerError if it is not in force."""
        try:
            return self._faults[fault_id]
        except KeyError:
            raise ControllerError(f"There is no fault {fault_id}: it may have been cleared already.") from None

    def of_owner(self, owner: str) -> list[Fault]:
        """Faults of an owner."""
        return [fault for fault in self if fault.owner == owner]

    def on_links(self, links: Iterable[str]) -> list[Fault]:
        """Faults that touch any of some links."""
        wanted = set(links)
        return [fault for fault in self if wanted & set(fault.links)]

    def ids_on(self, link: str) -> tuple[str, ...]:
        """Ids of the faults on a link."""
        return tuple(fault.id for fault in self if link in fault.links)

    def remove(self, faults: Iterable[Fault]) -> tuple[str, ...]:
        """Strike faults; returns the links that were cut and are not any more."""
        freed: dict[str, None] = {}
        for fault in faults:
            self._faults.pop(fault.id, None)
            if fault.kind is FaultKind.LINK_DOWN:
                freed.update(dict.fromkeys(fault.links))
        cut = {link for fault in self if fault.kind is FaultKind.LINK_DOWN for link in fault.links}
        return tuple(link for link in freed if link not in cut)

    def effects(self, without: Iterable[Fault] = ()) -> list[DataPlaneFault]:
        """What the P4 program is to do, but for some faults."""
        struck = {fault.id for fault in without}
        return [fault.effect for fault in self if fault.effect is not None and fault.id not in struck]
