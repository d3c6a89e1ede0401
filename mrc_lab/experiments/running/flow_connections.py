"""Memory and queue pairs of random flows.

Every host has one completion queue and two registered buffers, one to write from and one that is written to, which all
its flows share. All buffers to write from have the same bytes, and every write is to the beginning of the buffer at the
other end, so that what has arrived can be compared although flows overlap.

Queue pairs are a flow's own, made for it and closed some round trips after its end, when nothing of it is under way any
more; or those of a pair of hosts, made once and shared by all its flows. Where verbs take time, a flow's queue pairs
stay open to the end of the run, so that closing them does not delay others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from mrc_common.random_bytes import fill
from mrc_common.same_bytes import same_bytes
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.context import Context, ProtectionDomain
from mrc_host.verbs.memory import MemoryRegion
from mrc_host.verbs.queue_pair import QueuePair
from mrc_host.verbs_types import QpAttributes
from mrc_lab.experiments.files.model import Tenant
from mrc_lab.experiments.files.transport import attributes_given
from mrc_lab.experiments.running.backend import Backend
from mrc_lab.experiments.running.flows import limit_evs
from mrc_lab.experiments.running.recording import FLOW_COUNTERS, flow_counters
from simulation.seeds import generator

Pairs = Sequence[tuple[QueuePair, QueuePair]]  # near end, far end
_ENTRIES = 1 << 16  # of a completion queue: for the writes that all flows of a host have under way
_LINGER = 10  # round trips
_RETRANSMITTED = FLOW_COUNTERS.index("retransmitted")


@dataclass(slots=True)
class HostEnd:
    """What a host has for all its flows. `arrived`: the most bytes that one completed write has brought here."""

    context: Context
    domain: ProtectionDomain
    queue: CompletionQueue
    source: MemoryRegion
    target: MemoryRegion
    arrived: int = 0


@dataclass(slots=True)
class _Series:
    """Queue pairs from one host to another that are open, and the counters of those that are closed."""

    open: list[tuple[QueuePair, QueuePair]] = field(default_factory=list)
    closed: list[int] = field(default_factory=lambda: [0] * len(FLOW_COUNTERS))


class FlowConnections:
    """Memory and queue pairs of a tenant's flows between `hosts`; pairs of hosts are counted as in `between`."""

    def __init__(
        self,
        tenant: Tenant,
        backend: Backend,
        seed: int,
        open_context: Callable[[str], Context],
        message: int,
        between: Sequence[tuple[str, str]],
    ) -> None:
        self._backend, self._between = backend, between
        self._given = attributes_given(tenant)
        self._kind, self._evs, self._qps = tenant.transport.kind, tenant.transport.evs, tenant.transport.qps
        self._linger = _LINGER * backend.fabric.settings.transport.base_rtt
        self._series = [_Series() for _ in between]
        self._retired: deque[tuple[int, int, Pairs]] = deque()  # when, whose, and which
        self._attributes: dict[int, tuple[QpAttributes, QpAttributes]] = {}
        self.ends: dict[str, HostEnd] = {}
        for host in dict.fromkeys(host for pair in between for host in pair):
            context = open_context(host)
            domain = context.alloc_pd()
            end = HostEnd(
                context, domain, context.create_cq(_ENTRIES), domain.alloc_mr(message), domain.alloc_mr(message)
            )
            fill(end.source.buffer, generator(seed, "bytes", 0))
            self.ends[host] = end

    def connect(self, number: int) -> Pairs:
        """New queue pairs from one host to another, as many as a flow has."""
        near, far = (self.ends[host] for host in self._between[number])
        attributes = self._attributes_of(number, near, far)
        made = []
        for _ in range(self._qps):
            pairs = tuple(
                end.domain.create_qp(end.queue, end.queue, self._kind, own)
                for end, own in zip((near, far), attributes, strict=True)
            )
            pairs[0].connect(pairs[1].address)
            pairs[1].connect(pairs[0].address)
            made.append((pairs[0], pairs[1]))
        return made

    def _attributes_of(self, number: int, near: HostEnd, far: HostEnd) -> tuple[QpAttributes, QpAttributes]:
        if number not in self._attributes:
            shared = self._backend.attributes(self._given, self._between[number])
            self._attributes[number] = (
                limit_evs(shared, self._evs, near.context),
                limit_evs(shared, self._evs, far.context),
            )
        return self._attributes[number]

    @property
    def path_mtu(self) -> int:
        """Payload of a full packet."""
        return self._backend.attributes(self._given, self._between[0]).path_mtu

    def use(self, number: int, pairs: Pairs) -> None:
        """Count what these queue pairs do from now on."""
        self._series[number].open += pairs

    def retire(self, number: int, pairs: Pairs) -> int:
        """A flow needs its queue pairs no more; returns how many packets it has retransmitted."""
        counters = flow_counters(pairs)
        if self._backend.verbs_take_time:
            self._count_no_more(number, pairs, counters)
        else:
            self._retired.append((self._backend.now(), number, pairs))
        return counters[_RETRANSMITTED]

    def _count_no_more(self, number: int, pairs: Pairs, counters: list[int]) -> None:
        """Remember what queue pairs have counted, and ask them no more."""
        series = self._series[number]
        series.closed = [a + b for a, b in zip(series.closed, counters, strict=True)]
        for ends in pairs:
            series.open.remove(ends)

    def close_retired(self) -> None:
        """Close those that were retired some round trips ago."""
        before = self._backend.now() - round(self._linger)
        while self._retired and self._retired[0][0] <= before:
            _, number, pairs = self._retired.popleft()
            self._count_no_more(number, pairs, flow_counters(pairs))
            for ends in pairs:
                for pair in ends:
                    pair.close()

    def counters(self) -> list[list[int]]:
        """FLOW_COUNTERS of every pair of hosts."""
        return [
            [a + b for a, b in zip(one.closed, flow_counters(one.open), strict=True)] if one.open else one.closed
            for one in self._series
        ]

    def queue_pairs(self) -> Iterator[tuple[int, str, QueuePair]]:
        """Every sending queue pair that is open: number of the pair of hosts, host, queue pair."""
        for number, series in enumerate(self._series):
            for near, _ in series.open:
                yield number, self._between[number][0], near

    def note_arrival(self, number: int, size: int) -> None:
        """A write of `size` bytes completed."""
        end = self.ends[self._between[number][1]]
        end.arrived = max(end.arrived, size)

    def wrong_bytes(self) -> tuple[int, int]:
        """Bytes that differ at the destinations, and bytes compared."""
        right = next(iter(self.ends.values())).source.buffer
        wrong = checked = 0
        for end in self.ends.values():
            ours, theirs = right[: end.arrived], end.target.buffer[: end.arrived]
            checked += end.arrived
            if not same_bytes(ours, theirs):
                wrong += sum(a != b for a, b in zip(ours, theirs, strict=True))
        return wrong, checked
