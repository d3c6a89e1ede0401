"""Warnings about cases that say something else than their author thinks, a sentence each.

A path that a fault has taken out of use is probed: `probe_interval` after it went bad for the first time, and when the
fault is over until `probe_successes` probes in a row were answered, `probe_interval` apart. While probes are lost, up
to four times `probe_timeout` passes between two of them (mrc_host/transport/bad_paths.py). A fault that is shorter, or
a run that ends before, shows the probes and not the fault. Links of NICs are left out: a NIC sees the carrier of its
own ports, notifies its peers, and needs no probes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrc_common.units import show_time
from mrc_host.config import TransportSettings
from mrc_host.verbs_types import QpType
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.running.extent import pattern_warnings
from mrc_lab.experiments.running.psn_range import psn_range_warnings
from simulation.fault_limits import SIMULATION
from topologies.fabric import Fabric, LinkKind
from topologies.fault_entries import ppb
from topologies.faults.kind import Intermittent
from topologies.p4_program import left_out, read_program

FEW_ROUND_TRIPS = 10  # in which congestion control hardly gets to act
_MOST_TIMEOUTS = 4  # between two probes that are lost
_HEAVY_LOSS = ppb(0.5)  # from which on every path of a link is soon out of use


def case_warnings(case: Case, fabric: Fabric, time_scale: float) -> Iterator[str]:
    """The sentences for a case, without a full stop; times are those of the file.

    `fabric` has the transport settings that NICs get, and its times are `time_scale` times those of the file.
    """
    settings = fabric.settings.transport
    if case.p4 is not None and (note := left_out(fabric, read_program(Path(case.p4)))):
        yield note
    yield from pattern_warnings(case, fabric)
    yield from _short_runs(case, settings.base_rtt / time_scale)
    if any(tenant.transport.kind is QpType.MRC for tenant in case.tenants):
        yield from _short_faults(case, fabric, settings, time_scale)
    yield from psn_range_warnings(case, fabric)


def _short_runs(case: Case, round_trip: float) -> Iterator[str]:
    """Runs, and tenants, that are over before congestion control has got to act."""
    few = FEW_ROUND_TRIPS * round_trip
    if case.duration < few:
        yield (
            f"the run lasts {show_time(case.duration)}, {case.duration / round_trip:.3g} round trips of"
            f" {show_time(round_trip)}: congestion control hardly gets to act in less than {FEW_ROUND_TRIPS}"
        )
        return
    for tenant in case.tenants:
        left = case.duration - tenant.workload.start
        if left < few:
            yield (
                f"{tenant.name or 'the workload'} begins {show_time(left)} before the end of the run,"
                f" {left / round_trip:.3g} round trips of {show_time(round_trip)}"
            )


def _short_faults(case: Case, fabric: Fabric, settings: TransportSettings, time_scale: float) -> Iterator[str]:
    """Faults that are over, or whose run is, before probes can have restored a path: of each kind the first."""
    interval, successes = settings.probe_interval / time_scale, settings.probe_successes
    soonest = successes * interval
    latest = (successes - 1) * interval + _MOST_TIMEOUTS * settings.probe_timeout / time_scale
    ended = [
        (planned, planned.until)
        for planned in case.faults
        if planned.until is not None and takes_paths_out(fabric, planned)
    ]
    short = [planned for planned, until in ended if until - planned.at < soonest]
    late = [planned for planned, until in ended if case.duration - until < latest and planned not in short]
    probes = f"{successes} probes in a row, {show_time(interval)} apart, have to be answered"
    if short:
        first = short[0]
        assert first.until is not None
        yield (
            f"line {first.line}: the fault lasts {show_time(first.until - first.at)}, but a path that it takes out of"
            f" use stays out for {show_time(soonest)} at least, since {probes}{_more(short)}"
        )
    if late:
        first = late[0]
        assert first.until is not None
        yield (
            f"line {first.line}: the run ends {show_time(case.duration - first.until)} after the fault, but it may take"
            f" {show_time(latest)} until a path is used again, since {probes}{_more(late)}"
        )


def takes_paths_out(fabric: Fabric, planned: PlannedFault) -> bool:
    """Whether a fault loses most of what goes over a link between switches, where only probes notice its end."""
    if isinstance(planned.fault, Intermittent):
        return False
    for end, loss, _ in SIMULATION.effect_of(fabric, planned.fault).losses(fabric):
        link = fabric.link_at(end)
        if link is not None and link.kind is not LinkKind.NIC_T0 and loss >= _HEAVY_LOSS:
            return True
    return False


def _more(faults: list[PlannedFault]) -> str:
    origins = {fault.draw.place if fault.draw else -1 - number for number, fault in enumerate(faults)}
    count = len(origins) - 1
    return f" ({count} more fault{'s' * (count > 1)} of this file too)" if count else ""
