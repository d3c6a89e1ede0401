"""Workloads of experiment files.

A *flow* is what one host writes to another, on the queue pairs that `transport` gives it. Each queue pair keeps
`outstanding` writes of `message` bytes under way, until the run's duration is over or `total` bytes are through.

Flows of :class:`SizedFlows` have a size each, and begin by chance or as a list says; nothing of the above is about
them.

Several workloads may run at once, each a *tenant* with a name (`model.Tenant`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mrc_common import units
from mrc_common.declared.field_types import Boolean, Integer, Quantity, Text, a_share, a_size, a_time
from mrc_common.declared.sections import ListOf, Section, Shorthand, key
from mrc_lab.experiments.files.flow_sizes import FlowSizes, FlowSizesType
from mrc_lab.experiments.files.matrix_file import MatrixFile, MatrixFromFile
from mrc_lab.experiments.files.schedule_file import OwnSchedule, ScheduleFile, ScheduleFromFile
from mrc_lab.published import flow_sizes
from mrc_lab.workloads.schedules.chakra import rank_files, read_chakra
from mrc_lab.workloads.schedules.goal import read_goal

MAX_MESSAGE = 1 << 30
MAX_QPS = 1024
_MESSAGE = "bytes of one write"
_OUTSTANDING = "writes under way on each queue pair"
_TOTAL = "bytes of each flow; without it flows last as long as the run"
_PAIR = "a flow, as in h1>h3, or a mapping with pair and what is its own: message, outstanding, total, qps, start"
_SPREAD = (
    "several queue pairs: each does an equal part of the operation, or takes every n-th chunk of a stream, "
    "or each chunk is split among them"
)
PATTERNS = ("uniform", "inter_rack", "permutation")
SPREADS = ("parts", "chunks", "split")
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_receive", "broadcast")


@dataclass(frozen=True, slots=True)
class FlowPart:
    """One flow; what it does not say is as the workload says it."""

    pair: str = key(Text(), "source and destination, as in h1>h3")
    message: int | None = key(a_size(1, MAX_MESSAGE), _MESSAGE, default=None)
    outstanding: int | None = key(Integer(1, 1024), _OUTSTANDING, default=None)
    total: int | None = key(a_size(), "bytes of this flow", default=None)
    qps: int | None = key(Integer(1, MAX_QPS), "queue pairs of this flow", default=None)
    start: int | None = key(a_time(), "when it begins, after the workload's own start", default=None)


_FLOW = Shorthand(FlowPart, "pair")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """What all workloads of flows have."""

    message: int = key(a_size(1, MAX_MESSAGE), _MESSAGE, default=1 << 18)
    outstanding: int = key(Integer(1, 1024), _OUTSTANDING, default=4)
    total: int | None = key(a_size(), _TOTAL, default=None)
    start: int = key(a_time(), "when the workload begins", default=0)
    starts: tuple[int, ...] = key(
        ListOf(a_time(), alone=True),
        "when each flow begins, after start, in the order of the flows; those not listed, at once",
        default=(),
    )
    uplinks: tuple[tuple[int, ...], ...] = key(
        ListOf(ListOf(Integer(0), 1, alone=True)),
        "rc: numbers of the T1s that ECMP gives the queue pairs of each flow in turn, in the order of the flows, by "
        "UDP source ports chosen for it; those not listed, by chance",
        default=(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBw(Writes):
    """Pairs of hosts write to each other as ib_write_bw does."""

    name: ClassVar[str] = "write_bw"
    pairs: tuple[FlowPart, ...] = key(ListOf(_FLOW, 1, alone=True), _PAIR)
    bidirectional: bool = key(Boolean(), "both ends write", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permutation(Writes):
    """Every host writes to one other and is written to by one other."""

    name: ClassVar[str] = "permutation"
    shift: int | None = key(
        Integer(1),
        "host number i writes to number i + shift; without it, a random permutation of the seed",
        default=None,
    )
    hosts: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts that take part, or patterns", default=("*",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Incast(Writes):
    """Several hosts write to one; a victim flow shares a part of their way."""

    name: ClassVar[str] = "incast"
    target: str = key(Text(), "the host that is written to")
    sources: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts that write, or patterns")
    victim: tuple[FlowPart, ...] = key(
        ListOf(_FLOW, 1, alone=True), "flows beside it, as in h2>h9; they follow the sources in starts", default=()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedFlows:
    """What all workloads have whose flows each have a size and a beginning of their own."""

    start: int = key(a_time(), "when the workload begins", default=0)
    connections: str = key(
        Text(("own", "shared")),
        "own: each flow has new queue pairs, as many as qps says; shared: flows from one host to another share theirs",
        default="own",
    )
    message: int = key(a_size(1, MAX_MESSAGE), "bytes of one write; a flow is as many as it needs", default=1 << 20)
    outstanding: int = key(Integer(1, 1024), "writes that a flow has under way on each queue pair", default=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomFlows(SizedFlows):
    """Flows that begin by chance, as a Poisson process at every host, with sizes drawn from a distribution."""

    name: ClassVar[str] = "flows"
    load: float = key(
        Quantity(units.SHARE, 0, 2, above=True),
        "bytes that a host's flows have in a time, over those that all its ports carry in that time",
    )
    sizes: FlowSizes = key(
        FlowSizesType(),
        f"sizes of flows: {', '.join(flow_sizes.load())}; one size for all; or a file of lines with a size in bytes "
        "and the percentage of flows up to it",
    )
    pattern: str = key(
        Text(PATTERNS),
        "destination of a flow: any other host, one in another rack, or always the same in a random permutation",
        default="uniform",
    )
    hosts: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts that take part, or patterns", default=("*",))
    count: int | None = key(
        Integer(1), "how many flows begin; without it, as many as until leaves time for", default=None
    )
    until: int | None = key(
        a_time(1), "time of the run when the last flow may begin (default: the end of the run)", default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFlows(SizedFlows):
    """Flows as a connection matrix of htsim lists them: node 0 is h1, and so on."""

    name: ClassVar[str] = "htsim"
    file: MatrixFromFile = key(MatrixFile(), "a connection matrix of htsim (.cm), beside this file")

    @property
    def largest_write(self) -> int:
        """Bytes of the largest write."""
        return min(self.message, max(flow.size for flow in self.file.matrix.flows))


@dataclass(frozen=True, slots=True)
class Straggler:
    """Hosts whose computing takes longer."""

    hosts: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts, or patterns")
    slowdown: float = key(Quantity(units.NUMBER, 1, 1000, "2"), "how many times as long their computing takes")
    share: float = key(a_share(), "share of their computing that is slow, by chance of the seed", default=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """What all workloads of ranks that work together have: one rank a host."""

    hosts: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts that take part, or patterns", default=("*",))
    start: int = key(a_time(), "when the workload begins", default=0)
    jitter: float = key(
        a_share(), "each computing of each rank takes longer or shorter by up to this share, by chance", default=0.0
    )
    stragglers: tuple[Straggler, ...] = key(
        ListOf(Section(Straggler), alone=True), "hosts whose computing takes longer", default=()
    )
    chunk: int = key(a_size(16, MAX_MESSAGE), "bytes of one write, the unit of pipelining", default=1 << 16)
    slots: int = key(Integer(1, 1024), "chunks under way on a stream", default=8)
    interleave: bool = key(Boolean(), "put ranks that follow one another below different T0s", default=False)
    clusters: int = key(
        Integer(1),
        "an all_reduce in two levels: within this many clusters of ranks that follow one another, and across them",
        default=1,
    )
    spread: str = key(Text(SPREADS), _SPREAD, default="parts")
    unacknowledged: int = key(
        Integer(), "chunks of a stream posted and not acknowledged, 0 for as many as there are slots", default=0
    )
    channels: int = key(
        Integer(1, MAX_QPS),
        "equal parts of the operation done at the same time, each with queue pairs of its own, as many as qps says",
        default=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective(Ranks):
    """The hosts do a collective operation again and again; what it brings is compared with the right result."""

    name: ClassVar[str] = "collective"
    operation: str = key(Text(OPERATIONS), "which")
    bytes: int = key(a_size(), "size of the operation, as nccl-tests count it")
    iterations: int = key(Integer(1), "how often", default=1)
    warmup: int = key(Integer(), "operations before those that count", default=0)
    compute: int = key(
        a_time(),
        "computing of each rank before each operation; the operation is timed from when the first rank begins it",
        default=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Training(Ranks):
    """Data-parallel training: step by step every host computes gradients, and a ring all-reduce sums them up.

    Gradients become ready bucket by bucket while a step is computed, as frameworks arrange it. Computing takes time and
    nothing else; the sums are compared with the right ones.
    """

    name: ClassVar[str] = "training"
    operation: ClassVar[str] = "all_reduce"
    steps: int = key(Integer(1), "steps that count")
    gradients: tuple[int, ...] = key(
        ListOf(a_size(), 1, alone=True), "bytes of each bucket of gradients, in the order in which they become ready"
    )
    compute: int = key(a_time(), "computing of a step; an equal part of it before each bucket is ready", default=0)
    overlap: bool = key(Boolean(), "sum a bucket up while the next is computed", default=True)
    warmup: int = key(Integer(), "steps before those that count", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What all workloads have that replay what an application does: rank 0 on the first host, and so on."""

    hosts: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts that take part, or patterns", default=("*",))
    start: int = key(a_time(), "when the workload begins", default=0)
    outstanding: int = key(
        Integer(1, 1024), "messages under way from one rank to another; the others wait for a slot", default=4
    )

    @property
    def source(self) -> ScheduleFromFile:
        """The schedule, and where it is from."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalReplay(Replayed):
    """The ranks do what a GOAL file says: send, receive and compute, each once what it waits for is done."""

    name: ClassVar[str] = "goal"
    file: ScheduleFromFile = key(
        ScheduleFile(read_goal), "a GOAL file in text form (LogGOPSim, Schedgen, ATLAHS), beside this file"
    )

    @property
    def source(self) -> ScheduleFromFile:
        """The file."""
        return self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class ChakraReplay(Replayed):
    """The ranks do what a Chakra execution trace says; its collectives go around rings."""

    name: ClassVar[str] = "chakra"
    file: ScheduleFromFile = key(
        ScheduleFile(read_chakra, rank_files),
        "rank 0's file of a trace (NAME.0.et), with those of the others beside it",
    )

    @property
    def source(self) -> ScheduleFromFile:
        """The files."""
        return self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnReplay(Replayed):
    """The ranks do what a function of a plugin says."""

    name: ClassVar[str] = "own"
    schedule: ScheduleFromFile = key(
        OwnSchedule(), "name of a plugin's workload, or a mapping with its name and the arguments of its function"
    )

    @property
    def source(self) -> ScheduleFromFile:
        """What the function has returned."""
        return self.schedule


Workload = (
    WriteBw
    | Permutation
    | Incast
    | RandomFlows
    | ListedFlows
    | Collective
    | Training
    | GoalReplay
    | ChakraReplay
    | OwnReplay
)
KINDS: Mapping[str, type[Any]] = {
    cls.name: cls
    for cls in (
        WriteBw, Permutation, Incast, RandomFlows, ListedFlows, Collective, Training, GoalReplay, ChakraReplay,
        OwnReplay,
    )
}  # fmt: skip
