"""Switches: how much waits at their ports, and what they marked, trimmed and dropped there, by link.

Queues come from the embedded switch's management service, whose peaks are left to whoever measures with them; the
mean since the last sample is shown. Marks, trims and drops come from the controller, which reads the P4 program's
counters, and drops of queues and ports again from the switch itself. BMv2 reports only the counters. A switch that
does not answer is named, and the others are shown all the same.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.values import SwitchCounters
from mrc_lab.experiments.running.switch_management import TIMEOUT_S, ask, read_counters
from mrc_lab.web.feed import Feed
from mrc_lab.web.link_sampler import significant
from mrc_lab.web.records import Problem, QueueState, SignalState, StateSection
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4src import DROP_REASONS
from topologies.fabric import Fabric, Link, LinkEnd

QUEUE_PERIOD_S = 0.5
COUNTER_PERIOD_S = 1.0
_SWITCH_DROPS = ("queue_full", "port_down", "no_headroom")  # of pb.Port.drops


@dataclass(frozen=True, slots=True)
class LinkSignals:
    """What the ends of one link have counted since the switches were started."""

    marked: int = 0
    trimmed: int = 0
    drops: Counter[str] = field(default_factory=Counter)


class SwitchSampler:
    """Publishes queues and counters; `address` is the switches', with ``{name}`` for one that has its own."""

    def __init__(
        self,
        fabric: Fabric,
        feed: Feed,
        controller: ControllerClient,
        address: str,
        executor: Executor,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._fabric = fabric
        self._feed = feed
        self._controller = controller
        self._address = address
        self._executor = executor
        self._clock = clock
        self._queues: dict[tuple[str, int], tuple[int, int]] = {}  # by switch and port: time and bytes summed over it
        self._counted: tuple[int, dict[str, LinkSignals]] | None = None
        self._names = {switch.device_id: switch.name for switch in fabric.switches}

    async def run(self) -> None:
        """Sample while somebody watches; does not return."""
        await asyncio.gather(
            self._every(QUEUE_PERIOD_S, self._sample_queues), self._every(COUNTER_PERIOD_S, self._count)
        )

    async def _every(self, period_s: float, sample: Callable[[], Callable[[], None]]) -> None:
        while True:
            if not self._feed.viewers:
                await self._feed.watched()
                self._queues.clear()  # rates over the time when nobody watched say little
                self._counted = None
            try:
                publish = await asyncio.get_running_loop().run_in_executor(self._executor, sample)
            except OSError as error:  # e.g. no descriptor is left: the next sample may succeed
                self._feed.put(StateSection.SWITCHES, "controller", Problem(str(error)))
            else:
                publish()
            await asyncio.sleep(period_s)

    def _sample_queues(self) -> Callable[[], None]:
        """Ask the switches, in a thread; returns what publishes the answers in the loop."""
        request = pb.SamplePortsRequest(keep_peaks=True)
        samples = ask(self._fabric, self._address, lambda stub: stub.SamplePorts(request, timeout=TIMEOUT_S).switches)
        return lambda: self.publish_queues(samples)

    def publish_queues(self, samples: Iterable[pb.SwitchSample]) -> None:
        """The mean queue of each port since its last sample, beside the link that is plugged in there."""
        upward: Counter[str] = Counter()
        downward: Counter[str] = Counter()
        for switch in samples:
            name = self._names[switch.device_id]
            for port in switch.ports:
                link = self._fabric.link_at(LinkEnd(name, port.port))
                then, summed = self._queues.get((name, port.port), (switch.time_ns, port.byte_ns))
                self._queues[name, port.port] = switch.time_ns, port.byte_ns
                if link is not None and switch.time_ns > then:
                    mean = significant(max(0, port.byte_ns - summed) // (switch.time_ns - then))
                    (upward if link.lower.node == name else downward)[link.name] = mean
        self._feed.replace(
            StateSection.QUEUES,
            {name: QueueState(upward[name], downward[name]) for name in upward | downward},
        )

    def _count(self) -> Callable[[], None]:
        """Read counters, in a thread; returns what publishes them in the loop."""
        try:
            counters = self._controller.counters()
        except ControllerError as error:
            problem = str(error)
            return lambda: self._feed.put(StateSection.SWITCHES, "controller", Problem(problem))
        own = read_counters(self._fabric, self._address)
        return lambda: self.publish_counters(counters, own)

    def publish_counters(self, counters: Iterable[SwitchCounters], own: Iterable[pb.Switch]) -> None:
        """What links' ends counted since the last time, as rates, and which switches could not be read."""
        counters = list(counters)
        now, found = self._clock(), self._by_link(counters, own)
        problems = {switch.switch: Problem(switch.problem) for switch in counters if switch.problem}
        self._feed.replace(StateSection.SWITCHES, problems)
        if self._counted is not None:
            then, before = self._counted
            elapsed = max(1, now - then)
            self._feed.replace(
                StateSection.SIGNALS,
                {name: _signals(before.get(name, LinkSignals()), after, elapsed) for name, after in found.items()},
            )
        self._counted = now, found

    def _by_link(self, counters: Iterable[SwitchCounters], own: Iterable[pb.Switch]) -> dict[str, LinkSignals]:
        marked: Counter[str] = Counter()
        trimmed: Counter[str] = Counter()
        drops: dict[str, Counter[str]] = {}
        for switch in counters:
            for port in switch.ports:
                for count in port.counts:
                    if count.name == "marked_packets":
                        marked[port.link] += count.packets
                    elif count.name == "trimmed_packets":
                        trimmed[port.link] += count.packets
                    elif count.name in DROP_REASONS and count.packets:
                        drops.setdefault(port.link, Counter())[count.name] += count.packets
        for state in own:
            for at in state.ports:
                link = self._link(state.device_id, at.port)
                for reason in _SWITCH_DROPS:
                    if link is not None and at.drops.get(reason):
                        drops.setdefault(link.name, Counter())[reason.replace("_", " ")] += at.drops[reason]
        names = (marked.keys() | trimmed.keys() | drops.keys()) - {""}
        return {name: LinkSignals(marked[name], trimmed[name], drops.get(name, Counter())) for name in sorted(names)}

    def _link(self, device_id: int, port: int) -> Link | None:
        return self._fabric.link_at(LinkEnd(self._names[device_id], port))


def _signals(before: LinkSignals, after: LinkSignals, elapsed_ns: int) -> SignalState:
    def rate(old: int, new: int) -> int:
        return significant(max(0, new - old) * 1_000_000_000 // elapsed_ns)

    return SignalState(
        rate(before.marked, after.marked),
        rate(before.trimmed, after.trimmed),
        rate(before.drops.total(), after.drops.total()),
        dict(after.drops),
    )
