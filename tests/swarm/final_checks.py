"""What must hold when all is done and every fault is over, after some seconds of peace.

* The simulation is idle: no event is left, no frame in a switch, no device met an error of its own.
* Paths that work are in use again, and NICs believe the peers' ports to be what they are.
* Counters agree with each other and with what completed.

And of the events before: probes never make a path good while it lets no data through.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Final

from mrc_host.transport.path import TRANSITIONS
from mrc_host.verbs_types import PathEvent, PathReason, PathState, QpState
from simulation.world import SimulatedWorld, switch_drops
from tests.swarm.applications import Applications
from tests.swarm.channel_faults import TrafficClass
from tests.swarm.denylists import Denied
from tests.swarm.oracle import dead_spans
from tests.swarm.queue_pair_ends import QueuePairEnd
from tests.swarm.scenario import FOREVER, Scenario
from tests.swarm.write_checks import Ledger
from topologies.faults.delay import Delay
from topologies.faults.reordering import Reordering

REST: Final = 5_000_000_000  # ns in which a world must become idle
_IMPOSSIBLE: Final = ("no_pipeline", "bad_priority", "no_group", "no_session", "loop_limit", "assertion")


class Afterwards:
    """Judges a world that has had its peace."""

    def __init__(self, scenario: Scenario, world: SimulatedWorld, report: Callable[[str], None]) -> None:
        self._scenario, self._world, self._report = scenario, world, report

    def wait(self) -> bool:
        """Give it peace; False when some fault never ends, so that there is none."""
        ends = [fault.end for fault in self._scenario.faults]
        if any(end >= FOREVER for end in ends):
            return False
        self._world.run(max([self._world.now, *ends]) + REST)
        return True

    def rest(self) -> None:
        """Nothing is left to happen."""
        world = self._world
        if left := world.clock.queued():
            self._report(f"the simulation is not idle: {len(left)} events are left, first {left[0][2]!r}")
        for switch in self._scenario.fabric.switches:
            queued = sum(port.queued_packets for port in world.switch(switch.name).stats().ports.values())
            if queued:
                self._report(f"{queued} frames are stuck in {switch.name}")

    def devices(self) -> None:
        """No device met an error of its own."""
        drops = switch_drops(self._world)
        for reason in _IMPOSSIBLE:
            if drops[reason]:
                self._report(f"switches dropped {drops[reason]} frames for {reason}")
        for nic in self._scenario.fabric.nics:
            errors = self._world.nic(nic.name).nic_counters()["drop_internal_error"]
            if errors:
                self._report(f"NIC {nic.name} had {errors} internal errors")

    def paths(self, applications: Applications) -> None:
        """Everything that works is in use again."""
        for end, other in applications.ends:
            if end.baseline or end.life.broken() is not None or end.qp.state is not QpState.RTS:
                continue
            bad = [path.ev for path in end.qp.paths() if path.state in (PathState.ASSUMED_BAD, PathState.DENIED)]
            if bad:
                self._report(f"{end.nic} still has {len(bad)} paths to {other.nic} out of use, first {bad[0]:#x}")
            address = self._world.nic(other.nic).config.address
            control = self._world.nic(end.nic).control
            down = [port.port for port in control.port_states(address) if not port.up]
            if down:
                self._report(f"{end.nic} still believes that ports {down} of {other.nic} are down")

    def counters(self, applications: Applications, ledger: Ledger) -> None:
        """Counters of queue pairs."""
        for end, other in applications.ends:
            counters, theirs = end.qp.counters(), other.qp.counters()
            if end.away or other.away:
                continue
            completed = ledger.succeeded_bytes.get((end.nic, end.qp.qpn), 0)
            unseen = counters.bytes_completed - completed
            if unseen and unseen not in accumulate(_given_up(end)):
                self._report(f"{end.nic} counts {counters.bytes_completed} bytes completed, but {completed} were")
            if counters.late > counters.lost:
                self._report(f"{end.nic} counts more late packets than packets declared lost: {counters}")
            if counters.spurious_retransmitted > counters.retransmitted:
                self._report(f"{end.nic} counts more spurious retransmissions than retransmissions: {counters}")
            if len(end.lives) + len(other.lives) > 2 or end.baseline:
                continue
            if theirs.duplicates_received > counters.retransmitted:
                self._report(
                    f"{other.nic} counts {theirs.duplicates_received} duplicates, but {end.nic} repeated"
                    f" {counters.retransmitted} packets"
                )
            if theirs.data_received > counters.data_sent + counters.retransmitted:
                self._report(f"{other.nic} counts more data packets than {end.nic} sent: {theirs}, {counters}")

    def good_news(self, end: QueuePairEnd, other: QueuePairEnd, event: PathEvent) -> None:
        """A path that lets no data through was declared good by probes; or it changed as no path does."""
        if event.reason not in TRANSITIONS.get((event.old, event.new), ()):
            change = f"{event.old.value} to {event.new.value} for {event.reason.value}"
            self._report(f"{end.nic} reports that path {event.ev:#x} went from {change}, which the table has not")
        if event.new is not PathState.GOOD or event.reason is not PathReason.PROBE:
            return
        fabric, fit = self._scenario.fabric, self._scenario.fit
        network = [fault for fault in self._scenario.faults if not isinstance(fault.fault, Denied)]
        slack = 8 * (fit.round_trip + fit.queue)
        for fault in network:
            if isinstance(fault.fault, Delay):
                slack += 8 * fault.fault.extra
            elif isinstance(fault.fault, Reordering):
                slack += 8 * fault.fault.hold
        data = TrafficClass.DATA.values(fabric.settings.dscp)
        for start, stop in dead_spans(fabric, network, end.nic, other.nic, event.ev, data):
            if start + slack < event.time < stop:
                self._report(
                    f"{end.nic} took path {event.ev:#x} to {other.nic} into use again at {event.time} ns, though it has"
                    f" carried no data since {start} ns"
                )
                return


def _given_up(end: QueuePairEnd) -> list[int]:
    """Lengths of the writes in the queue pair's present life that nobody waits for: they may have completed unseen."""
    return [
        posted.plan.length
        for posted in end.writes
        if posted.given_up and not posted.completions and posted.life is not None and posted.life.qpn == end.qp.qpn
    ]
