"""The table entries of some faults together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from topologies.entries import TableEntry
from topologies.fabric import Fabric
from topologies.fault_entries import DataPlaneFault, fault_entries
from topologies.faults import Fault


def tables_of(fabric: Fabric, fault: Fault) -> DataPlaneFault:
    """What a fault has switches do."""
    tables = fault.effect(fabric).tables
    assert tables is not None
    return tables


def entries_of(fabric: Fabric, faults: Iterable[Fault]) -> Mapping[str, tuple[TableEntry, ...]]:
    """The entries by switch."""
    return fault_entries(tables_of(fabric, fault) for fault in faults)
