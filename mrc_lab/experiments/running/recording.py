"""The recording of a run: series in time bins, events and totals. Everything in reports is computed from it.

Times are nanoseconds from the beginning of the run. Counters are cumulative samples at the edges of the time bins, so
that any window between two edges is a difference of two rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mrc_host.verbs.queue_pair import QueuePair
from mrc_lab.workloads.schedules.schedule import Operation

Samples = NDArray[np.int64]

FLOW_COUNTERS: Final = ("received", "sent", "retransmitted", "spurious", "lost", "timeouts")  # packets
LINK_COUNTERS: Final = ("frames", "bytes", "lost")  # one direction of a link

# Of one direction of a link: when it was sampled (ns), bytes in the queues before it, the most since the sample before,
# their sum over time (bytes times ns), and for how long (ns) and how often flow control kept it silent. -1: not known.
QUEUE_COUNTERS: Final = ("time", "depth", "peak", "byte_ns", "paused_ns", "pauses")

SIGNAL_COUNTERS: Final = ("marked", "trimmed")  # packets, by the direction of a link that they go out on


def flow_counters(pairs: Sequence[tuple[QueuePair, QueuePair]]) -> list[int]:
    """FLOW_COUNTERS of the queue pairs of one flow, each with its remote end."""
    near = [pair.counters() for pair, _ in pairs]
    far = [pair.counters() for _, pair in pairs]
    return [
        sum(c.data_received for c in far),
        sum(c.data_sent for c in near),
        sum(c.retransmitted for c in near),
        sum(c.spurious_retransmitted for c in near),
        sum(c.lost for c in near),
        sum(c.timeouts for c in near),
    ]


@dataclass(frozen=True, slots=True)
class FlowInfo:
    """One flow. `payload` is how many bytes a data packet carries on average, `tenant` the number of whose it is."""

    name: str
    source: str
    destination: str
    qps: int
    payload: float
    tenant: int = 0


@dataclass(frozen=True, slots=True)
class TenantRecord:
    """What one of the workloads of a run did. `name` is empty where the file has only one.

    `start` is when it was to begin, `ended` when all it had to do was done (None: it went on to the end of the run).
    """

    name: str
    start: int
    ended: int | None
    bad_paths: int
    errors: tuple[str, ...]
    wrong_bytes: int
    checked_bytes: int


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A write that completed at `time` on a flow (by number); it was posted at `began`."""

    flow: int
    began: int
    time: int
    size: int
    ok: bool


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """A flow of `size` bytes: number `number` of its tenant, counted in the series of flow `flow` of the recording.

    It began when its first write was posted and ended when the last was acknowledged (None: not before the run did).
    `ideal` is what it takes alone on an idle fabric (`topologies.ideal_completion`). `retransmitted` counts packets
    (None: not known, since its queue pairs are not its own).
    """

    flow: int
    number: int
    size: int
    began: int
    ended: int | None
    ideal: int
    retransmitted: int | None

    @property
    def time(self) -> int | None:
        """Completion time, ns; None of a flow that has not ended."""
        return None if self.ended is None else self.ended - self.began

    @property
    def slowdown(self) -> float | None:
        """Completion time over the ideal; None of a flow that has not ended."""
        return None if self.time is None else self.time / self.ideal


@dataclass(frozen=True, slots=True)
class PathRecord:
    """A path of a flow's queue pair changed its state."""

    time: int
    flow: int
    host: str
    qpn: int
    ev: int
    plane: int
    old: str
    new: str
    reason: str
    first_loss: int | None


@dataclass(frozen=True, slots=True)
class PortRecord:
    """A NIC learned that a port, its own or a peer's, lost or regained its link."""

    time: int
    host: str
    port: int
    up: bool
    local: bool


@dataclass(frozen=True, slots=True)
class RerouteRecord:
    """At `time` the switches of a plane had routes over other links, `text` says which (`topologies.reroute_words`)."""

    time: int
    plane: int
    text: str


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """A fault as it was: what, on which links, from when to when (`until` None: to the end of the run).

    `drawn_from` is how many links or switches it was drawn from by chance; 0 if it was not drawn.
    """

    kind: str
    label: str
    at: int
    until: int | None
    links: tuple[str, ...]
    name: str = ""
    drawn_from: int = 0


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """One collective operation of `size` bytes; `counted` is False for those that warm up."""

    began: int
    ended: int
    size: int
    counted: bool
    tenant: int = 0


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One operation of a schedule on its host: when it started and was done (None: it did not come to that)."""

    operation: Operation
    host: str
    began: int | None
    ended: int | None
    tenant: int = 0


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Whether the timing of the run can be trusted, with the reasons why not, and the measurements behind that.

    `notes` say in sentences what the measurements do not cover.
    """

    trusted: bool = True
    reasons: tuple[str, ...] = ()
    measurements: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """One case, recorded.

    `times` has the bins' edges; `flow_samples` is indexed [edge, flow, counter of FLOW_COUNTERS], `link_samples` [edge,
    channel, counter of LINK_COUNTERS], where a channel is one direction of a link (`channels`: the link's name with
    ``>`` upwards or ``<`` downwards). `trimmed` counts packets by the channel they went out on, `drops` frames by
    reason, and in emulation by channel too. `nic_bps` is what the ports of a NIC carry together, after scaling.
    `queue_samples` is indexed [edge, channel, counter of QUEUE_COUNTERS], `signal_samples` [sample, channel, counter of
    SIGNAL_COUNTERS], each sample at the edge that `signal_edges` names. They are None where the file does not ask for
    them.
    `rate_scale` is the rate here over that in the file, `time_scale` the same of times. `errors`, `wrong_bytes`,
    `checked_bytes` and `bad_paths` are of all `tenants` together. `warnings` say what would make the metrics mean
    something else than they seem to. `interrupted` says when the user ended it, if before its time was over.
    """

    case: str
    times: Samples
    flows: tuple[FlowInfo, ...]
    flow_samples: Samples
    channels: tuple[str, ...]
    link_samples: Samples
    messages: tuple[MessageRecord, ...]
    paths: tuple[PathRecord, ...]
    ports: tuple[PortRecord, ...]
    operations: tuple[OperationRecord, ...]
    faults: tuple[FaultSpan, ...]
    bad_paths: int
    trimmed: Mapping[str, int]
    drops: Mapping[str, int]
    errors: tuple[str, ...]
    wrong_bytes: int
    checked_bytes: int
    nic_bps: int
    rate_scale: float = 1.0
    time_scale: float = 1.0
    fidelity: Fidelity = field(default_factory=Fidelity)
    tenants: tuple[TenantRecord, ...] = ()
    queue_samples: Samples | None = None
    signal_edges: Samples | None = None
    signal_samples: Samples | None = None
    warnings: tuple[str, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
    flow_records: tuple[FlowRecord, ...] = ()
    reroutes: tuple[RerouteRecord, ...] = ()
    interrupted: str = ""

    @property
    def end(self) -> int:
        """When the run was over."""
        return int(self.times[-1])

    def rates(self) -> NDArray[np.float64]:
        """Payload delivered per bin and flow, in b/s: [bin, flow]."""
        received = np.diff(self.flow_samples[:, :, 0], axis=0)
        payload = np.array([flow.payload for flow in self.flows])
        seconds = np.diff(self.times)[:, None] / 1e9
        rates: NDArray[np.float64] = received * payload * 8 / np.where(seconds > 0, seconds, 1)
        return rates
