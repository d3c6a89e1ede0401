"""Defects of queue pairs that keep to some planes, planted in the NIC, and the rule that finds each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mrc_host.transport.answer_port import AnswerPort
from mrc_host.transport.answer_routes import AnswerRoutes
from mrc_host.transport.reliability_probes import ReliabilityProbes
from mrc_host.transport.requester import Requester
from mrc_host.transport.roce.path import RcPath
from mrc_host.transport.timeouts import Timeouts
from mrc_host.transport.uet import AnyPath
from mrc_host.transport.window import SharedWindows
from mrc_host.verbs_types import ALL_PLANES, QpType
from simulation.seeds import generator
from tests.swarm.directed_scenarios import dark_planes
from tests.swarm.plans import caught, plan, write
from tests.swarm.run import run
from tests.swarm.scenario import FOREVER, Masks, Scenario
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss

pytestmark = pytest.mark.plain_transport

FIRST, SECOND = 0b01, 0b10


def masked(made: Scenario, *masks: Masks) -> Scenario:
    """The plan with its pairs on some planes."""
    pairs = [replace(pair, planes=planes) for pair, planes in zip(made.pairs, masks, strict=True)]
    return replace(made, pairs=tuple(pairs))


@pytest.mark.parametrize(("kind", "paths"), [(QpType.MRC, AnswerRoutes), (QpType.UET, AnyPath)])
def test_finds_answers_outside_the_mask(monkeypatch: pytest.MonkeyPatch, kind: QpType, paths: Any) -> None:
    honest = paths.port
    monkeypatch.setattr(paths, "port", lambda self, anywhere=False, among=0: honest(self, anywhere))
    caught(masked(plan(kind=kind), (FIRST, FIRST)), "though only in 0b1", faults=0, writes=2)


def test_finds_probes_answered_outside_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = AnswerPort.__init__
    monkeypatch.setattr(AnswerPort, "__init__", lambda self, among=0: honest(self))
    made = masked(plan((Loss("h3@*", 1.0), 0, 900_000), writes=[write(), write(time=9)]), (ALL_PLANES, FIRST))
    caught(made, "h3 sent 0xdc", faults=1, writes=1)


def test_finds_retransmissions_outside_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Requester.open_planes
    monkeypatch.setattr(
        Requester, "open_planes", lambda self: self._planes.usable if self.sent.lost() else honest(self)
    )
    monkeypatch.setattr(Requester, "_other_path", lambda self, plane, record: self._peer.paths.members[plane][0])
    made = masked(plan((Loss("h1@*", 0.3), 0, 900_000)), (FIRST, FIRST))
    caught(made, "though only in 0b1", faults=1, writes=2)


def test_finds_probes_outside_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those for the tail of what was sent, for example, of which no later packet shows the loss."""
    honest = ReliabilityProbes.request

    def everywhere(self: ReliabilityProbes, planes: int, usable: int, again: bool) -> None:
        honest(self, planes, usable, again)
        self.mask = 0b11

    monkeypatch.setattr(ReliabilityProbes, "request", everywhere)
    monkeypatch.setattr(Timeouts, "_path_of_probe", lambda self, plane: self._peer.paths.members[plane][0])
    made = masked(plan((Loss("h3@*", 1.0), 0, 100_000), writes=[write(), write(time=9)]), (FIRST, FIRST))
    caught(made, "h1 sent 0xde", faults=1, writes=1)


def test_finds_data_and_answers_of_a_baseline_outside_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a mask its plane is that of a hash, which is wrong for one of two masks."""
    honest = RcPath.__init__
    monkeypatch.setattr(RcPath, "__init__", lambda self, *given: honest(self, *given[:6]))
    found = [run(masked(plan(kind=QpType.RC), (mask, mask))).violations for mask in (FIRST, SECOND)]
    assert any("though only in" in violation for violations in found for violation in violations), found


def test_finds_a_window_that_queue_pairs_on_different_planes_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dark plane holds up another one for an ACK timeout."""
    made = dark_planes(generator(1, "study"), plan())
    assert run(made).violations == ()
    honest = SharedWindows.join
    monkeypatch.setattr(
        SharedWindows, "join", lambda self, user, name, planes, *more: honest(self, user, name, 0, *more)
    )
    found = run(made).violations
    assert any("only other planes were cut" in violation for violation in found), found


def test_a_failure_is_excused_where_the_planes_of_the_queue_pair_are_dark() -> None:
    dark = (LinkDown("*@p0", "*"), 10_000, FOREVER)
    outcome = run(masked(plan(dark), (FIRST, FIRST)))
    assert (outcome.violations, outcome.failed_pairs) == ((), 1)
    assert run(masked(plan(dark), (SECOND, SECOND))).failed_pairs == 0
