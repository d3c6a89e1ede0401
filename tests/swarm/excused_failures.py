"""Which failures and delays of a run its faults explain.

* A request fails only when its life was over or not matched by one at the peer (``ends.Life``), when memory had been
  deregistered, when a request before it in the same life had failed, or when the peer was out of reach for longer than
  the retry budget, or hardly anything reached it. A way that works, on any plane, is reason enough not to fail.
* When nothing but some of the paths failed, and in each plane most were left, no packet waits for the ACK timeout.
* Then, too, a queue pair that is alone and has work goes on: it is through after twice the time that its bytes take on
  what is left, and some round trips.
* Where nothing is wrong but cuts, and that NICs take nothing for some queue pairs, those beside them go on that have a
  plane without any cut in each direction: what they send waits for the first timeouts of the silent ones at most, not
  for later ones, which are longer. It waits for none if all that shares their window is without cuts and not silent:
  those who keep to other planes share none.
* When every fault is over, what is under way completes within twice the time that trouble lasted, some ACK timeouts and
  the time that the bytes take, on the lines and through a fixed window, which lets pass no more than itself in a round
  trip: a timer that has grown with the trouble may not outlast it by much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import QpAttributes, QpType
from simulation.transport_timers import retry_budget
from tests.swarm.application_faults import Mute, SharedQueue
from tests.swarm.applications import Applications
from tests.swarm.denylists import Denied
from tests.swarm.life_attributes import longest_timeout
from tests.swarm.oracle import (
    has_whole_planes,
    longest_impairment,
    longest_separation,
    most_hit,
    shared_planes,
    silences,
    untouched_share,
)
from tests.swarm.queue_pair_ends import Posted, QueuePairEnd
from tests.swarm.rerouted_impairment import longest_rerouted_impairment
from tests.swarm.scenario import FOREVER, Masks, Scenario
from topologies.faults.blackhole import Blackhole
from topologies.faults.controller_down import ControllerDown
from topologies.faults.link_down import LinkDown
from topologies.faults.port_down import PortDown
from topologies.faults.power_off import PowerOff

_CUTS: Final = (LinkDown, PortDown, PowerOff, Blackhole, Denied, ControllerDown)
_MOST: Final = 0.7  # of the paths of each plane
_TRIPS: Final = 12  # that it may take in any case
_TIMEOUTS: Final = 20  # that may pass, after all trouble or beside silent queue pairs, before something completes
_AT_LEAST: Final = 200_000  # ns that it may take in any case
_HEADERS: Final = 256  # bytes, at most, that a packet takes of a window beside its payload


class Verdicts:
    """Judges a run that is over."""

    def __init__(self, scenario: Scenario, transport: TransportSettings, report: Callable[[str], None]) -> None:
        self._scenario, self._transport, self._report = scenario, transport, report

    def failures(self, applications: Applications) -> int:
        """Look for failures that nothing explains; returns how many pairs failed at all."""
        failed = 0
        for first, second in applications.pairs:
            found = [*_first_failures(first), *_first_failures(second)]
            failed += bool(found)
            for posted in found:
                mates = [
                    posted,
                    *(other for other in found if posted.life is not None and other.life is posted.life.peer),
                ]
                if any(_life_over(mate) for mate in mates):
                    continue
                given = [(mate.life.attributes, mate.masks()) for mate in mates if mate.life is not None]
                if not any(self.excused(first.number, attributes, masks) for attributes, masks in given):
                    completion = posted.completions[0]
                    self._report(
                        f"the {first.pair.kind.name} queue pair {first.nic}-{second.nic} failed"
                        f" ({completion.status.value}, {completion.reason})"
                    )
                    break
        return failed

    def excused(self, number: int, attributes: QpAttributes, masks: Masks) -> bool:
        """Whether the schedule of faults explains that the pair of this number gave up in a life with `attributes`.

        `masks` are the planes that its two ends kept to.
        """
        fabric, faults, transport = self._scenario.fabric, self._scenario.faults, self._transport
        pair, silent = self._scenario.pairs[number], silences(faults, number)
        once = 1024 << attributes.timeout
        if pair.kind is not QpType.MRC:  # one path or any, whether or not it works
            rerouted = fabric.reroute_ns is not None and pair.kind is not QpType.UET  # whose paths are MRC's
            impairment = longest_rerouted_impairment if rerouted else longest_impairment
            longest = impairment(fabric, faults, pair.first, pair.second, once, silent, masks)
            if pair.kind is QpType.UET:  # which obeys a controller
                gone = longest_separation(fabric, faults, pair.first, pair.second, once, 0, silent, masks)
                longest = max(longest, gone)
            return longest >= once * attributes.retry_count
        gap = 2 * once << transport.max_backoff
        budget, attempts = retry_budget(attributes, transport), attributes.retry_count
        return longest_separation(fabric, faults, pair.first, pair.second, gap, attempts, silent, masks) >= budget

    def timeouts(self, applications: Applications) -> None:
        """Nothing but cuts that leave most paths of each plane whole, and an active one: no ACK timeout."""
        scenario = self._scenario
        if not scenario.fabric.queues.trimming or any(not isinstance(f.fault, _CUTS) for f in scenario.faults):
            return
        for end, other in applications.ends:
            masks = end.planes, other.planes
            if end.baseline or untouched_share(scenario.fabric, scenario.faults, end.nic, other.nic, masks) < _MOST:
                continue
            if self._all_active_hit(end, other):
                continue
            count = end.qp.counters().timeouts
            if count:
                self._report(f"{count} ACK timeouts passed on {end.nic}, though most paths of each plane always worked")

    def _all_active_hit(self, end: QueuePairEnd, other: QueuePairEnd) -> bool:
        """Whether faults may hit all active paths of a plane: others take their place after timeouts only (Requester).

        The active paths are divided evenly among the planes (R3.1).
        """
        fabric, active = self._scenario.fabric, end.pair.attributes.active_paths
        if active is None:
            return False
        share = max(1, active // len(shared_planes(fabric, end.nic, other.nic, end.planes)))
        return most_hit(fabric, self._scenario.faults, end.nic, other.nic, (end.planes, other.planes)) >= share

    def throughput(self, applications: Applications) -> None:
        """One pair alone with work from the beginning, and nothing but cuts that leave most paths: no long outage."""
        scenario = self._scenario
        if len(applications.pairs) > 1 or not scenario.faults or not scenario.writes:
            return
        if any(not isinstance(f.fault, _CUTS) for f in scenario.faults) or any(
            w.time or w.back for w in scenario.writes
        ):
            return
        end, other = applications.pairs[0]
        pair, masks = end.pair, (end.planes, other.planes)
        if end.baseline or pair.attributes != scenario.fit.attributes():  # a window or range of its own may bound it
            return
        if untouched_share(scenario.fabric, scenario.faults, pair.first, pair.second, masks) < _MOST:
            return
        ports = [link for link in scenario.fabric.links_of(end.nic) if end.planes >> link.plane & 1]
        rate = sum(link.rate_bps for link in ports) * _MOST
        took = 8_000_000_000 * sum(write.length for write in scenario.writes) / rate
        bound = max(fault.start for fault in scenario.faults) + 2 * took + _TRIPS * scenario.fit.round_trip
        done = max(posted.done_at for posted in end.writes)
        if done > bound:
            self._report(
                f"{end.nic} took {done} ns for writes that take {took:.0f} ns on the paths that were left after the cut"
            )

    def delays(self, applications: Applications) -> None:
        """After all trouble things go on soon."""
        scenario = self._scenario
        over = [fault.end for fault in scenario.faults if not isinstance(fault.fault, SharedQueue)]
        if any(end >= FOREVER for end in over):
            return
        begun = min((fault.start for fault in scenario.faults if not isinstance(fault.fault, SharedQueue)), default=0)
        for end, _ in applications.ends:
            if end.baseline:
                continue
            allowed = self._allowed(end)
            for posted in end.writes:
                life = posted.life
                if life is None or life.broken() is not None or not posted.succeeded:
                    continue
                calm = max([*over, posted.posted_at, *(other.posted_at for other in end.writes)])
                trouble = max(0, calm - max(begun, life.started))
                late = posted.done_at - (calm + 2 * trouble + allowed)
                if late > 0:
                    self._report(
                        f"write {posted.number} from {end.nic} completed {posted.done_at - calm} ns after all trouble,"
                        f" {late} ns too late, though trouble in its life lasted {trouble} ns only"
                    )
                    break

    def starvation(self, applications: Applications) -> None:
        """Nothing but cuts and silent queue pairs: others wait for their first timeouts at most, or for none."""
        scenario = self._scenario
        if not all(isinstance(planned.fault, (Mute, *_CUTS)) for planned in scenario.faults):
            return
        for end, other in applications.ends:
            masks = end.planes, other.planes
            whole = has_whole_planes(scenario.fabric, scenario.faults, end.nic, other.nic, masks)
            if end.baseline or not whole or silences(scenario.faults, end.number):
                continue
            allowed = self._allowed(end, 0 if self._apart(applications, end, other) else _TIMEOUTS)
            for posted in end.writes:
                late = posted.done_at - (max(other.posted_at for other in end.writes) + allowed)
                if late > 0:
                    self._report(
                        f"write {posted.number} from {end.nic} completed {late} ns too late, though only other queue"
                        " pairs were silent, or only other planes were cut"
                    )
                    break

    def _apart(self, applications: Applications, end: QueuePairEnd, other: QueuePairEnd) -> bool:
        """Whether nothing befalls any queue pair that may share the window of `end`, and no packet is lost either."""
        scenario = self._scenario
        mates = [
            (near, far)
            for near, far in applications.ends
            if (near.nic, far.nic, near.planes) == (end.nic, other.nic, end.planes)
        ]
        return scenario.fabric.queues.trimming and not any(
            silences(scenario.faults, near.number)
            or most_hit(scenario.fabric, scenario.faults, near.nic, far.nic, (near.planes, far.planes))
            for near, far in mates
        )

    def _allowed(self, end: QueuePairEnd, timeouts: int = _TIMEOUTS) -> int:
        """What all writes of an end may take where nothing is wrong, with a few ACK timeouts."""
        scenario = self._scenario
        rate = min(link.rate_bps for link in scenario.fabric.links)
        transfer = 4 * 8_000_000_000 * sum(write.length for write in scenario.writes) // rate + _AT_LEAST
        return transfer + timeouts * (1024 << longest_timeout(end.pair)) + _window_trips(end) * scenario.fit.round_trip


def _window_trips(end: QueuePairEnd) -> int:
    """Round trips that all writes of an end take through its narrowest fixed window, if it has one."""
    return max((_trips(end, life.attributes) for life in end.lives), default=0)


def _trips(end: QueuePairEnd, attributes: QpAttributes) -> int:
    if attributes.congestion_window is None:
        return 0
    at_once = -(-attributes.congestion_window // (attributes.path_mtu + _HEADERS))
    return -(-sum(-(-posted.plan.length // attributes.path_mtu) for posted in end.writes) // at_once)


def _life_over(posted: Posted) -> bool:
    """Whether it may fail because its life was over, or matched none."""
    broken = posted.life.broken() if posted.life is not None else None
    return broken is not None and broken <= posted.done_at


def _first_failures(end: QueuePairEnd) -> Iterator[Posted]:
    """The first write that failed in each life."""
    seen: set[int] = set()
    for posted in end.writes:
        life = posted.life
        if life is not None and posted.failed and id(life) not in seen:
            seen.add(id(life))
            yield posted
