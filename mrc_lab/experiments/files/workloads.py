"""What the hosts do, as an experiment file says it.

A *flow* is what one host writes to another, on the queue pairs that `transport` gives it. Each queue pair keeps
`outstanding` writes of `message` bytes under way, until the run's duration is over or `total` bytes are through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mrc_lab.experiments.files.field_types import Boolean, Integer, ListOf, Text, a_size, a_time, key

MOST_MESSAGE = 1 << 30
_MESSAGE = "bytes of one write"
_OUTSTANDING = "writes under way on each queue pair"
_TOTAL = "bytes of each flow; without it flows last as long as the run"
_PAIR = "a flow, as in h1>h3"
_SPREAD = "several queue pairs: each does an equal part of the operation, or takes every n-th chunk of a stream"
SPREADS = ("parts", "chunks")
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_receive", "broadcast")


@dataclass(frozen=True, slots=True)
class WriteBw:
    """Pairs of hosts write to each other as ib_write_bw does."""

    name: ClassVar[str] = "write_bw"
    pairs: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), _PAIR)
    bidirectional: bool = key(Boolean(), "both ends write", default=False)
    starts: tuple[int, ...] = key(
        ListOf(a_time(), alone=True), "when each pair begins; those not listed, at once", default=()
    )
    message: int = key(a_size(1, MOST_MESSAGE), _MESSAGE, default=1 << 18)
    outstanding: int = key(Integer(1, 1024), _OUTSTANDING, default=4)
    total: int | None = key(a_size(), _TOTAL, default=None)


@dataclass(frozen=True, slots=True)
class Permutation:
    """Every host writes to one other and is written to by one other."""

    name: ClassVar[str] = "permutation"
    shift: int | None = key(
        Integer(1),
        "host number i writes to number i + shift; without it, a random permutation of the seed",
        default=None,
    )
    hosts: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts that take part, or patterns", default=("*",))
    message: int = key(a_size(1, MOST_MESSAGE), _MESSAGE, default=1 << 18)
    outstanding: int = key(Integer(1, 1024), _OUTSTANDING, default=4)
    total: int | None = key(a_size(), _TOTAL, default=None)


@dataclass(frozen=True, slots=True)
class Incast:
    """Several hosts write to one; a victim flow shares a part of their way."""

    name: ClassVar[str] = "incast"
    target: str = key(Text(), "the host that is written to")
    sources: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts that write, or patterns")
    victim: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "flows beside it, as in h2>h9", default=())
    message: int = key(a_size(1, MOST_MESSAGE), _MESSAGE, default=1 << 18)
    outstanding: int = key(Integer(1, 1024), _OUTSTANDING, default=4)
    total: int | None = key(a_size(), _TOTAL, default=None)


@dataclass(frozen=True, slots=True)
class Collective:
    """The hosts do a collective operation again and again; what it brings is compared with the right result."""

    name: ClassVar[str] = "collective"
    operation: str = key(Text(OPERATIONS), "which")
    bytes: int = key(a_size(), "size of the operation, as nccl-tests count it")
    hosts: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts that take part, or patterns", default=("*",))
    iterations: int = key(Integer(1), "how often", default=1)
    warmup: int = key(Integer(), "operations before those that count", default=0)
    chunk: int = key(a_size(16, MOST_MESSAGE), "bytes of one write, the unit of pipelining", default=1 << 16)
    slots: int = key(Integer(1, 1024), "chunks under way on a stream", default=8)
    interleave: bool = key(Boolean(), "put ranks that follow one another below different T0s", default=False)
    spread: str = key(Text(SPREADS), _SPREAD, default="parts")


@dataclass(frozen=True, slots=True)
class Training:
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
    hosts: tuple[str, ...] = key(ListOf(Text(), 1, alone=True), "hosts that take part, or patterns", default=("*",))
    warmup: int = key(Integer(), "steps before those that count", default=0)
    chunk: int = key(a_size(16, MOST_MESSAGE), "bytes of one write, the unit of pipelining", default=1 << 16)
    slots: int = key(Integer(1, 1024), "chunks under way on a stream", default=8)
    interleave: bool = key(Boolean(), "put ranks that follow one another below different T0s", default=False)
    spread: str = key(Text(SPREADS), _SPREAD, default="parts")


Workload = WriteBw | Permutation | Incast | Collective | Training
KINDS: Mapping[str, type[Any]] = {cls.name: cls for cls in (WriteBw, Permutation, Incast, Collective, Training)}
