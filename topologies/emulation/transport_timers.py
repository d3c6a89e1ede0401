"""Timers of emulated hosts' transport: the round trip and rates that it measures against.

Round trips here are those of processes that wait for a processor. So the base RTT that congestion control gets is
the wires' own and a share of that waiting, and no shorter one is believed: one lucky packet says nothing of the next.
"""

from __future__ import annotations

from dataclasses import replace

from mrc_host.config import TransportSettings
from topologies.fabric import Fabric
from topologies.round_trip import PathRoundTrips, base_round_trip

PROCESSES_NS = 8_000_000  # two hosts and three switches, on a machine that is in use


def fitted(fabric: Fabric) -> Fabric:
    """`fabric` with the base RTT of its emulation, unless it has one already."""
    transport = fabric.settings.transport
    if transport.base_rtt:
        return fabric
    return fabric.with_settings(replace(fabric.settings, transport=_transport(fabric, transport)))


def round_trips(fabric: Fabric) -> PathRoundTrips | None:
    """Base RTTs of single destinations, where the fabric has not been given one for all."""
    return None if fabric.settings.transport.base_rtt else PathRoundTrips(fabric, waiting=PROCESSES_NS)


def _transport(fabric: Fabric, transport: TransportSettings) -> TransportSettings:
    base_rtt = base_round_trip(fabric) + PROCESSES_NS
    nscc = transport.nscc
    if nscc.base_rtt is None and nscc.base_rtt_floor is None:
        nscc = replace(nscc, base_rtt_floor=base_rtt)
    return replace(transport, base_rtt=base_rtt, trimming=fabric.trims, nscc=nscc)
