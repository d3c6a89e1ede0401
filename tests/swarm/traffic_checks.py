"""What must hold of how much was sent, where, and when.

* Where nothing gave a reason to leave a plane, none carries more than `plane_skew_limit` first transmissions beyond all
  that another carries. Retransmissions use up a plane's share, but wait for no plane (as `requester` says): one packet
  that is sent again and again takes the place of new ones, and may go where the share is used up.
* Where every path loses alike, the active set keeps its floor (`ev_min_active`): no path carries half more than
  its share of that.
* Queue pairs with work without end that share a NIC, each with a window that never shuts, get equal bytes, whatever
  their MTU.
* While the world stands still (nothing is sent for the first time, nothing completes), a queue pair that waits asks
  less and less often: no storm. What was lost may be sent again once in such a time, perhaps on a plane that loses it
  too; what is sent again after that counts. What it answers to the other end's retransmissions and probes does not:
  these are bounded themselves. Each is answered with a SACK, a probe also with a transport ACK, and each pays for
  another SACK (docs/protocol.md §2, §10.1). When a port comes or goes, who retries probes each plane, and answers the
  other end's probes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from mrc_host.config import TransportSettings
from tests.swarm.application_faults import HOST_FAULTS
from tests.swarm.applications import Applications
from tests.swarm.oracle import touched
from tests.swarm.scenario import EVERY_PLANE, Scenario
from tests.swarm.traffic_counts import Flow, TrafficCounts
from topologies.faults.controller_down import ControllerDown
from topologies.faults.kind import Intermittent
from topologies.faults.loss import Loss

_FULL: Final = 4096  # payload of the packets that `plane_skew_limit` counts
_UNFAIR: Final = 2.0  # times the bytes of another
_SHARES: Final = 1.5  # times the mean over the floor
_MIN_FLOOR: Final = 8  # paths to speak of shares
_ENOUGH: Final = 500  # packets to speak of shares
_BURST: Final = 64  # frames of a queue pair at the beginning of standing still
_PER_TIMEOUT: Final = 4  # frames a timeout from one end of a queue pair, on and on
_ANSWERS: Final = 2  # to a retransmission
_PROBE_ANSWERS: Final = 3
_PER_CHANGE: Final = 2  # probes and answers on each plane when a port comes or goes


class Shares:
    """Judges the counts of a run that is over."""

    def __init__(
        self,
        scenario: Scenario,
        transport: TransportSettings,
        counts: TrafficCounts,
        report: Callable[[str], None],
    ) -> None:
        self._scenario, self._transport, self._counts, self._report = scenario, transport, counts, report

    def planes(self, applications: Applications) -> None:
        """Even planes."""
        for end, other in applications.ends:
            counts = self._counts.planes.get((end.nic, other.qp.qpn))
            if end.baseline or counts is None or end.path_changed or len(end.lives) + len(other.lives) > 2:
                continue
            if touched(self._scenario.fabric, self._scenario.faults, end.nic):
                continue
            repeated = self._counts.repeated.get((end.nic, other.qp.qpn), Counter())
            used = [plane for plane in range(self._scenario.fabric.planes) if end.life.attributes.planes >> plane & 1]
            first, again = [counts[plane] for plane in used], [repeated[plane] for plane in used]
            burst = self._transport.plane_skew_limit * max(1, _FULL // end.life.attributes.path_mtu)
            if max(first) > min(map(sum, zip(first, again, strict=True))) + burst:
                self._report(f"{end.nic} sent {first} packets by plane and {again} again, though no path was bad")

    def floor(self, applications: Applications) -> None:
        """Under uniform loss the floor of the active set is in use."""
        floor = self._transport.ev_min_active
        faults = [fault for fault in self._scenario.faults if not isinstance(fault.fault, ControllerDown)]
        if floor < _MIN_FLOOR or not faults or any(not _uniform(fault.fault) for fault in faults):
            return
        for end, other in applications.ends:
            counts = self._counts.paths.get((end.nic, other.qp.qpn))
            if end.baseline or counts is None or end.pair.attributes.active_paths is not None:
                continue
            if end.pair.planes != EVERY_PLANE:  # its planes may have fewer paths
                continue
            total, most = sum(counts.values()), max(counts.values())
            if total > _ENOUGH and most > _SHARES * total / floor:
                self._report(
                    f"one path carried {most} of {total} packets of {end.nic}, though {floor} should be in use and all"
                    " lose alike"
                )

    def fair(self, snapshots: dict[Flow, int]) -> None:
        """`snapshots` are the bytes of the contest's flows when the first of them had all its bytes delivered."""
        if len(snapshots) > 1 and max(snapshots.values()) > _UNFAIR * min(snapshots.values()):
            sent = ", ".join(f"{count} bytes to QP {flow[1]:#x}" for flow, count in snapshots.items())
            self._report(f"queue pairs of one NIC with work for more got unequal shares: {sent}")

    def storms(self, applications: Applications) -> None:
        """Bounded frames while nothing moves."""
        settings, fabric = self._transport, self._scenario.fabric
        faulty = any(not isinstance(fault.fault, HOST_FAULTS) for fault in self._scenario.faults)
        for end, other in applications.ends:
            once = 1024 << end.pair.attributes.timeout
            round_ = 8 + 2 * fabric.planes
            answered = {
                stretch.start: _ANSWERS * stretch.data + _PROBE_ANSWERS * stretch.probes
                for stretch in self._counts.still.get((other.nic, end.qp.qpn), [])
            }
            for start, length, data, again, probes, answers in self._counts.still.get((end.nic, other.qp.qpn), []):
                frames = again + probes + max(0, answers - answered.get(start, 0))
                rounds = settings.linear_retries + settings.max_backoff + 1 + length / (once << settings.max_backoff)
                bound = _BURST + round_ * rounds + _PER_TIMEOUT * length / once
                if faulty:
                    bound += fabric.planes * max(1, fabric.t1_count, fabric.t2_count) * length / settings.probe_interval
                bound += _PER_CHANGE * fabric.planes * self._port_changes(start, start + length)
                if frames > bound:
                    self._report(
                        f"{end.nic} sent {data + probes + answers} frames to QP {other.qp.qpn:#x} in {length} ns"
                        " in which nothing moved"
                    )

    def _port_changes(self, start: int, end: int) -> float:
        """About how often links come and go between two times, and a few more, as these are random."""
        changes = 0.0
        for planned in self._scenario.faults:
            fault, lasts = planned.fault, min(end, planned.end) - max(start, planned.start)
            if isinstance(fault, Intermittent) and lasts > 0:
                links = len(fault.effect(self._scenario.fabric).down)
                changes += 2 * links * (lasts / sum(fault.times()) + 1)
        return changes


def _uniform(fault: object) -> bool:
    return isinstance(fault, Loss) and fault.link == "*" and fault.towards is None
