"""Delays by the machine at each hop of an emulated fabric, beyond links, queues and pauses.

Embedded switches and NICs measure this on request (p4runtime_shim/engine/driver/port_driver_delay.c,
mrc_host/driver/machine_delays.py), for each frame from one socket to the next: on arrival until it is received, on
departure from the time at which an ideal link would have started to send it. BMv2 cannot, so there only NICs measure.
Counts only grow; a run's are the difference of two readings. A process that does not answer has none. A restarted one
measures only when requested again, and has what it measured since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from mrc_common.delays import DelayHistogram, PortDelays
from mrc_host.errors import MrcError
from mrc_host.verbs.remote.connection import AgentConnection, for_controller
from mrc_lab.experiments.running.switch_management import TIMEOUT_S, ask
from p4runtime_shim.proto import switch_v1_pb2 as pb
from topologies.fabric import Fabric, Tier

_NONE = DelayHistogram()


@dataclass(frozen=True, slots=True)
class Hop:
    """All ports of a switch or NIC. `link_idle_ns`: how long each port left its link idle although a frame waited."""

    arrivals: DelayHistogram = _NONE
    departures: DelayHistogram = _NONE
    link_idle_ns: tuple[int, ...] = ()

    @property
    def mean_ns(self) -> float:
        """Mean delay of a frame on arrival and departure together, in ns."""
        return self.arrivals.mean_ns + self.departures.mean_ns

    @property
    def longest_idle_ns(self) -> int:
        """The longest idle time of any port's link."""
        return max(self.link_idle_ns, default=0)

    @property
    def most_frames(self) -> int:
        """Number of frames that arrived or that departed, whichever is larger."""
        return max(self.arrivals.frames, self.departures.frames)

    def quantile_ns(self, share: float, least: int = 1) -> float:
        """The quantile of arrivals or of departures, whichever is longer; 0 with fewer than `least` frames."""
        kinds = (self.arrivals, self.departures)
        return max((kind.quantile_ns(share) for kind in kinds if kind.frames >= least), default=0.0)

    def since(self, before: Hop) -> Hop:
        """What was added after `before`."""
        pairs = zip_longest(self.link_idle_ns, before.link_idle_ns, fillvalue=0)
        idle = tuple(now - then if now >= then else now for now, then in pairs)
        return Hop(self.arrivals.since(before.arrivals), self.departures.since(before.departures), idle)


def read(fabric: Fabric, address: str, sockets: Mapping[str, str], *, measure: bool) -> dict[str, Hop]:
    """Everything measured so far, by switch and NIC, from all that answer; turns measuring on or off (`measure`).

    `address` is the switches' (``{name}`` in it is the switch's), `sockets` has the agents' by NIC.
    """
    found: dict[str, Hop] = {}
    names = {switch.device_id: switch.name for switch in fabric.switches}
    request = pb.GetDelaysRequest(measure=measure)
    for switch in ask(fabric, address, lambda stub: stub.GetDelays(request, timeout=TIMEOUT_S).switches):
        if switch.ports:
            found[names[switch.device_id]] = Hop(
                total(_switch_delays(port.arrivals) for port in switch.ports),
                total(_switch_delays(port.departures) for port in switch.ports),
                tuple(port.link_idle_ns for port in switch.ports),
            )
    for nic, socket in sockets.items():
        ports = _ask_agent(socket, measure)
        if ports:
            found[nic] = Hop(
                total(port.arrivals for port in ports),
                total(port.departures for port in ports),
                tuple(port.link_idle_ns for port in ports),
            )
    return found


def total(parts: Iterable[DelayHistogram]) -> DelayHistogram:
    """The delays of all frames together."""
    return sum(parts, _NONE)


def _ask_agent(socket: str, measure: bool) -> tuple[PortDelays, ...]:
    try:
        agent = AgentConnection(for_controller(socket), client="fidelity")
        try:
            return agent.delays(measure)
        finally:
            agent.close()
    except MrcError:
        return ()  # it has crashed


def _switch_delays(delays: pb.Delays) -> DelayHistogram:
    return DelayHistogram(delays.total_ns, tuple(delays.histogram))


def differences(now: Mapping[str, Hop], before: Mapping[str, Hop]) -> dict[str, Hop]:
    """What was measured between two readings, where anything was."""
    hops = {name: hop.since(before.get(name, Hop())) for name, hop in now.items()}
    return {name: hop for name, hop in hops.items() if hop.arrivals.frames or hop.departures.frames}


def round_trip_ns(fabric: Fabric, hops: Mapping[str, Hop]) -> float:
    """Mean delay of a packet and its answer on the fabric's longest path, as far as its hops were measured.

    A packet meets each end's NIC and one T0 at either end, and in between a T1, or two and a T2; so does its answer.
    """
    times = Counter({Tier.T0: 4 if fabric.t1_count else 2, Tier.T1: 4 if fabric.t2_count else 2, Tier.T2: 2})
    groups = [([nic.name for nic in fabric.nics], 2)]
    for tier, meets in times.items():
        groups.append(([switch.name for switch in fabric.switches if switch.tier is tier], meets))
    return sum(meets * _mean_ns([hops[name] for name in names if name in hops]) for names, meets in groups)


def _mean_ns(hops: Iterable[Hop]) -> float:
    hops = list(hops)
    return Hop(total(hop.arrivals for hop in hops), total(hop.departures for hop in hops)).mean_ns
