"""Rates and times of a file, scaled for emulation.

This machine does not carry the rates that files name, so all rates are divided by one factor and all times multiplied
by it: as many packets go by as in the file. The factor is the same for all cases of an experiment, so that they can be
compared.

Round trips do not follow the factor: they are those of full packets on the slower lines, without the delay of the
file's links, and of processes that wait for a processor. What the transport sets against round trips (its timers, the
ACK timeout, the times of NSCC) is multiplied by how much longer they are here, the *stretch*; no timer falls below its
default, which suits processes. DCQCN knows no round trips, so its times and rates are scaled as all others are. Sizes,
windows among them, stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, log2
from typing import Any, TypeVar

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import DcqcnProfile, NsccProfile, QpAttributes
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.files.model import DCQCN_RATES, DCQCN_TIMES, NSCC_TIMES, TIMERS, TIMES, Case
from mrc_lab.experiments.files.transport import settings_given
from mrc_lab.experiments.running.psn_range import with_psn_range
from mrc_lab.fabric.link_rate import carried_rate
from simulation.transport_timers import FabricTiming
from topologies.emulation.transport_timers import fitted
from topologies.fabric import Fabric
from topologies.fabric_checks import MAX_REROUTE_NS
from topologies.faults import Fault
from topologies.round_trip import base_round_trip

NAME = "experiment"  # of the fabric, unless another is given
_LONGEST_TIMER_NS = 3_600_000_000_000  # mrc_host.config
_LONGEST_TIMEOUT = 24  # exponent
_Profile = TypeVar("_Profile", NsccProfile, DcqcnProfile)


def scale_of(cases: Iterable[Case]) -> float:
    """Rates here over those in the file, at most 1: one figure for all cases of a file."""
    return min(1.0, *map(_carried_share, cases))


def _carried_share(case: Case) -> float:
    fastest = max(link.rate_bps for link in build_fabric(case.fabric).links)
    return carried_rate(case.fabric.hosts, case.fabric.planes) / fastest


def scaled_fabric(case: Case, scale: float, name: str = NAME) -> Fabric:
    """The file's fabric and transport settings as they are here."""
    fabric = build_fabric(case.fabric, name)
    links = tuple(replace(link, rate_bps=round(link.rate_bps * scale), delay_ns=None) for link in fabric.links)
    fabric = replace(fabric, links=links)  # delays are none of emulation
    if fabric.reroute_ns is not None:
        fabric = replace(fabric, reroute_ns=min(MAX_REROUTE_NS, round(fabric.reroute_ns / scale)))
    settings = fabric.settings
    given = settings_given(case.transport)
    transport = scaled_settings(given, settings.transport, scale, stretch_of(case, fabric))
    return fabric.with_settings(replace(settings, transport=transport))


def stretch_of(case: Case, fabric: Fabric) -> float:
    """How much longer a round trip without queues takes on `fabric`, emulated, than on the file's."""
    return fitted(fabric).settings.transport.base_rtt / base_round_trip(build_fabric(case.fabric), case.fabric.delay)


def scaled_settings(
    given: Mapping[str, Any], base: TransportSettings, scale: float, stretch: float
) -> TransportSettings:
    """`base` with the settings that a file gives, as they are here. The base RTT is the fabric's own."""
    found = {name: value for name, value in given.items() if name != "base_rtt"}
    for name in TIMERS:
        if found.get(name):  # 0 turns some of them off
            found[name] = min(_LONGEST_TIMER_NS, max(getattr(base, name), round(found[name] * stretch)))
    for name in TIMES:
        if name in found:
            found[name] = min(_LONGEST_TIMER_NS, round(found[name] / scale))
    if "assumed_rate" in found:
        found["assumed_rate"] = max(1, round(found["assumed_rate"] * scale))
    if "nscc" in found:
        nscc = _multiplied(found["nscc"], NSCC_TIMES, stretch)
        found["nscc"] = nscc if nscc.alpha is None else replace(nscc, alpha=nscc.alpha / stretch)  # bytes per ns
    if "dcqcn" in found:
        found["dcqcn"] = _multiplied(_multiplied(found["dcqcn"], DCQCN_TIMES, 1 / scale), DCQCN_RATES, scale)
    return replace(base, **found)


def _multiplied(profile: _Profile, names: Sequence[str], factor: float) -> _Profile:
    given = {name: getattr(profile, name) for name in names if getattr(profile, name) is not None}
    return replace(profile, **{name: max(1, round(value * factor)) for name, value in given.items()})


def scaled_attributes(given: Mapping[str, Any], fabric: Fabric, stretch: float) -> QpAttributes:
    """Attributes that a file gives as they are here; else the timeout outlasts full queues, and MPR fits the BDP."""
    found = {"timeout": max(QpAttributes().timeout, ack_timeout(fabric)), **with_psn_range(given, fabric)}
    if "timeout" in given:
        found["timeout"] = min(_LONGEST_TIMEOUT, given["timeout"] + max(0, ceil(log2(stretch))))
    return QpAttributes(**found)


def ack_timeout(fabric: Fabric) -> int:
    """Exponent of an ACK timeout beyond four round trips through full queues, as in simulation.

    Where packets wait behind pauses instead of being dropped, what waits ahead of one is up to what all ports of a
    switch may hold before their neighbours are silent.
    """
    slowest = min(link.rate_bps for link in fabric.links)
    ports = max(len(switch.ports) for switch in fabric.switches)
    queue = fabric.queues.data_limit(slowest, fabric.mtu, ports) * 8 * 10**9 // slowest
    return FabricTiming(fabric.settings.transport.base_rtt, queue, 0).timeout


def scaled_fault(fault: Fault, scale: float) -> Fault:
    """The same fault with its times and rates as they are here."""
    return fault.scaled(times=1 / scale, rates=scale)
