"""What faults do, as reports and warnings see it: the links that they touch, and the directions that lose frames."""

from __future__ import annotations

import pytest

from topologies.clos import multi_plane_clos
from topologies.fabric import LinkEnd
from topologies.fault_entries import ALWAYS
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.controller_down import ControllerDown
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.power_off import PowerOff

FABRIC = multi_plane_clos("effect", planes=1, t0=2, t1=2, hosts=4)
HALF = ALWAYS // 2
H1, T0_H1 = LinkEnd("h1", 0), LinkEnd("t0-0@p0", 1)


@pytest.mark.parametrize(
    ("fault", "touched", "losses"),
    [
        (Loss("h1@p0", 0.5), {"h1@p0"}, {(H1, HALF, 0), (T0_H1, HALF, 0)}),
        (Loss("h1@p0", 0.5, "h1"), {"h1@p0"}, {(T0_H1, HALF, 0)}),
        (Corruption("h1@p0", 0.5, "t0-*"), {"h1@p0"}, {(H1, 0, HALF)}),
        (LinkDown("h1@p0"), {"h1@p0"}, {(H1, ALWAYS, 0), (T0_H1, ALWAYS, 0)}),
        (LinkDown("h1@p0", "h1"), {"h1@p0"}, {(T0_H1, ALWAYS, 0)}),
        (Delay("h1@p0", 5), {"h1@p0"}, set()),
        (ControllerDown(), set(), set()),
        (PathLoss(0, 0.5, "h1", "h3"), {"h1@p0"}, set()),
        (
            Blackhole("t1-0@p0"),
            {"t0-0:t1-0@p0", "t0-1:t1-0@p0"},
            {(LinkEnd("t0-0@p0", 3), ALWAYS, 0), (LinkEnd("t0-1@p0", 3), ALWAYS, 0)},
        ),
    ],
)
def test_touched_links_and_lossy_directions(
    fault: Fault, touched: set[str], losses: set[tuple[LinkEnd, int, int]]
) -> None:
    effect = fault.effect(FABRIC)
    assert set(effect.touched_links(FABRIC)) == touched
    assert set(effect.losses(FABRIC)) == losses


def test_neighbouring_blackholes_lose_what_goes_between_them() -> None:
    link = FABRIC.link("t0-0:t1-0@p0")
    losses = {end for end, _, _ in Blackhole("*").effect(FABRIC).losses(FABRIC)}
    assert {link.lower, link.upper} <= losses
    assert losses == {FABRIC.peer(LinkEnd(switch.name, port)) for switch in FABRIC.switches for port in switch.ports}


def test_links_are_in_the_order_of_the_fabric() -> None:
    for fault in (PowerOff("*"), Loss("*", 0.5), Loss("*", 0.5, "h[1,3]"), Blackhole("t*")):
        touched = fault.effect(FABRIC).touched_links(FABRIC)
        assert list(touched) == [link.name for link in FABRIC.links if link.name in touched]
