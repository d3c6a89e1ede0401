"""JSON listing of `fault list`."""

from __future__ import annotations

from collections.abc import Iterable

from controller.values import MachineClock
from mrc_lab.commands.listing import Column, Listing, Row, iso_time
from topologies.faults import FaultState
from topologies.faults.record import FaultRecord

FAULTS = Listing(
    "fault list [all]",
    "pending and active faults; with `all` also recently cleared ones",
    (
        Column("fault", "its id"),
        Column("kind", "its [kind](faults.md), as in experiment files"),
        Column("state", "`pending`, `active` or `cleared`"),
        Column("links", "links that it is on"),
        Column("switches", "switches whose tables hold it"),
        Column("parameters", "requested values by name: times in ns, rates in bits per second, shares from 0 to 1"),
        Column("owner", "who injected it; null if unnamed"),
        Column("start_time", "when it begins or began"),
        Column("applied_time", "when it took effect everywhere; null until then"),
        Column("end_time", "when it ends; null if only clearing ends it"),
        Column("cleared_time", "when it was cleared everywhere but on unreachable switches; null until then"),
        Column("problem", "why it could not be injected or cleared; null if nothing is wrong"),
    ),
)


def faults(found: Iterable[FaultRecord], clock: MachineClock) -> list[Row]:
    """A row for each fault; its times are those of `clock`."""

    def time(monotonic_ns: int | None) -> str | None:
        return iso_time(clock.epoch_of(monotonic_ns)) if monotonic_ns else None

    return [
        {
            "fault": record.id,
            "kind": record.fault.kind.name,
            "state": record.state.value,
            "links": list(record.links),
            "switches": list(record.switches),
            "parameters": {
                parameter.name: getattr(record.fault, parameter.name) for parameter in record.fault.kind.parameters
            },
            "owner": record.owner or None,
            "start_time": time(record.began_at_ns or record.starts_at_ns),
            "applied_time": None if record.state is FaultState.PENDING else time(record.applied_at_ns),
            "end_time": time(record.ends_at_ns),
            "cleared_time": time(record.cleared_at_ns),
            "problem": record.problem or None,
        }
        for record in found
    ]
