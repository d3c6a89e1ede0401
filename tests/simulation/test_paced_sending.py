"""Congestion controls with a rate (docs/extending.md), which every queue pair obeys, whatever its type."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from typing import Any

import pytest

from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.congestion import CongestionControl, LinkParameters, paces
from mrc_host.transport.nscc import Nscc, NsccParameters
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpType
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, Pair, small_fabric

LENGTH = 1 << 18


class Paced(CongestionControl):
    """A byte of payload each `ns_a_byte` ns, and a window that is never full."""

    ns_a_byte = 8

    def __init__(self, link: LinkParameters) -> None:
        super().__init__(1 << 30)
        self.next = 0
        self.sent: list[tuple[int, int]] = []

    def earliest_send(self, now: int) -> int:
        return self.next

    def on_send(self, size: int, now: int) -> None:
        assert now >= self.next
        self.sent.append((now, size))
        self.next = max(self.next, now) + size * self.ns_a_byte


class Slow(Paced):
    """4 KiB each 2 ms, which is longer than a probe timeout."""

    ns_a_byte = 500


def world_with(cls: type[Paced], made: list[Paced], **faults: Any) -> SimulatedWorld:
    def make(link: LinkParameters) -> Paced:
        made.append(cls(link))
        return made[-1]

    controls = {"paced": Algorithm(make), "paced together": Algorithm(make, shared=True, rc=False)}
    return SimulatedWorld(small_fabric(), seed=1, rate=100 * GIGA, congestion=controls)


@pytest.mark.parametrize("kind", QpType)
def test_a_rate_is_kept(kind: QpType) -> None:
    made: list[Paced] = []
    with world_with(Paced, made) as world:
        attributes = world.attributes(QpAttributes(cc_profile="paced"))
        with contextlib.closing(Pair(world, length=LENGTH, kind=kind, attributes=attributes)) as pair:
            pair.region.buffer[:] = bytes(range(256)) * (LENGTH // 256)
            pair.write()
            done = world.run(pair.cq.next())
            assert done is not None
            assert done.status is CompletionStatus.SUCCESS
            assert pair.region.buffer == pair.region_far.buffer
            assert LENGTH * 8 * 0.98 < world.now < LENGTH * 8 * 1.02
            sent = next(control.sent for control in made if control.sent)
            assert sum(size for _, size in sent) == LENGTH
            assert pair.qp.counters().retransmitted == 0


def test_queue_pairs_that_share_a_controller_share_its_rate() -> None:
    made: list[Paced] = []
    with world_with(Paced, made) as world:
        attributes = world.attributes(QpAttributes(cc_profile="paced together"))
        with contextlib.ExitStack() as stack:
            pairs = [
                stack.enter_context(contextlib.closing(Pair(world, length=LENGTH, attributes=attributes)))
                for _ in range(4)
            ]
            for pair in pairs:
                pair.write()
            for pair in pairs:
                world.run(pair.cq.next())
            assert 4 * LENGTH * 8 * 0.98 < world.now < 4 * LENGTH * 8 * 1.02
            assert len([control for control in made if control.sent]) == 1


def test_a_very_low_rate_needs_no_probes_and_loses_nothing() -> None:
    """Each packet is acknowledged, since no other follows it soon."""
    made: list[Paced] = []
    with world_with(Slow, made) as world:
        attributes = world.attributes(QpAttributes(cc_profile="paced"))
        with contextlib.closing(Pair(world, length=1 << 16, attributes=attributes)) as pair:
            pair.write()
            done = world.run(pair.cq.next())
            assert done is not None
            assert done.status is CompletionStatus.SUCCESS
            assert (1 << 16) * 500 * 0.9 < world.now < (1 << 16) * 500 * 1.01
            counters = pair.qp.counters()
            assert (counters.retransmitted, counters.timeouts) == (0, 0)
            assert counters.probes_sent <= 2


def test_losses_are_repeated_at_the_rate() -> None:
    made: list[Paced] = []
    with world_with(Paced, made) as world:
        world.faults.loss("*", 0.1)
        attributes = world.attributes(QpAttributes(cc_profile="paced"))
        with contextlib.closing(Pair(world, length=LENGTH, attributes=attributes)) as pair:
            pair.write()
            world.run(pair.cq.next())
            sent = next(control.sent for control in made if control.sent)
            assert sum(size for _, size in sent) > LENGTH
            gaps = [later - now for (now, size), (later, _) in pairwise(sent)]
            assert min(gaps) >= 4096 * 8


def test_only_controls_with_a_rate_are_asked() -> None:
    link = LinkParameters()
    assert paces(Paced(link))
    assert not paces(CongestionControl(4096))
    assert not paces(Nscc(NsccParameters.for_line(GIGA, 12_000, 4096, True)))
