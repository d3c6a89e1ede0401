"""All metric families of a reading, under names that existing dashboards know where there are such (docs/telemetry.md).

Counters are those of the fabric's processes, unchanged: they start from 0 when a process is restarted, as ``rate()``
expects of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mrc_lab.telemetry.family_set import Family, FamilySet
from mrc_lab.telemetry.link_families import add_links
from mrc_lab.telemetry.nic_families import add_nic
from mrc_lab.telemetry.readings import FabricReading
from topologies.faults import KINDS, BackendKind, FaultState
from topologies.faults.record import FaultRecord

UP = Family("mrc_up", "Whether the fabric is up.")
SECONDS = Family("mrc_reading_duration_seconds", "How long it took to ask all processes of the fabric.")
FABRIC = Family("mrc_fabric_info", "Name of the fabric; the value is always 1.", ("fabric",))
CONTROLLER_UP = Family("mrc_controller_up", "Whether the controller answers.")
FAULTS = Family("mrc_faults", "Faults that were injected and not cleared, by kind.", ("kind", "state"))


def families(reading: FabricReading | None, *, queue_pairs: bool = False) -> FamilySet:
    """All families of a reading, None for a fabric that is not up; with those of each queue pair if wanted."""
    found = FamilySet()
    found.add(UP, (), reading is not None)
    if reading is None:
        return found
    found.add(SECONDS, (), reading.seconds)
    found.add(FABRIC, (reading.fabric.name,), 1)
    found.add(CONTROLLER_UP, (), reading.links is not None)
    if reading.faults is not None:
        _add_faults(found, reading.faults)
    for nic in reading.nics:
        add_nic(found, reading.fabric, nic, queue_pairs=queue_pairs)
    add_links(found, reading)
    return found


def _add_faults(found: FamilySet, faults: Iterable[FaultRecord]) -> None:
    """How many faults of each kind; kinds without faults too, as rates and alerts need a value to start from."""
    counts = Counter((fault.fault.kind.name, fault.state) for fault in faults)
    for kind in KINDS.values():
        if BackendKind.EMULATION in kind.backends:
            for state in (FaultState.PENDING, FaultState.ACTIVE):
                found.add(FAULTS, (kind.name, state.value), counts[kind.name, state])
