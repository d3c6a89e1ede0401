"""Path probes cover every link, evenly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from mrc_host.config import EvFormat, ProtocolSettings
from tests.topologies.shapes import SHAPES, build
from tests.topologies.walk import Walker
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import LinkEnd, LinkKind
from topologies.probe_plan import Crossing, FabricProbePlan, ProbeKind, probe_plan


def crossings(plan: FabricProbePlan) -> Counter[Crossing]:
    return Counter(crossing for route in plan.all_routes for crossing in route.crossings)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_link_is_probed_in_both_directions_at_the_requested_rate_or_more(shape: dict[str, int]) -> None:
    fabric = build(shape)
    plan = probe_plan(fabric, rate=8)
    found = crossings(plan)
    assert set(found) == {Crossing(link.name, upward) for link in fabric.links for upward in (True, False)}
    slowest = min(found.values()) * 1e9 / plan.round_ns
    assert slowest == pytest.approx(8)


@pytest.mark.parametrize("agents", [1, 2, 5])
def test_t0_t1_links_are_probed_from_several_hosts_with_even_load(agents: int) -> None:
    fabric = multi_plane_clos("wide", planes=2, t0=2, t1=6, hosts=8)
    plan = probe_plan(fabric, agents=agents)
    hosts: dict[str, set[str]] = {}
    for route in plan.all_routes:
        if route.kind is ProbeKind.T1:
            hosts.setdefault(route.crossings[1].link, set()).add(route.source)
    uplinks = [link.name for link in fabric.links if link.kind is LinkKind.T0_T1]
    assert {name: len(hosts[name]) for name in uplinks} == dict.fromkeys(uplinks, min(agents, 4))
    loads = [len(routes) for routes in plan.routes.values()]
    assert max(loads) - min(loads) <= fabric.planes


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_probes_follow_the_planned_paths(shape: dict[str, int]) -> None:
    fabric = build(shape)
    walker = Walker(fabric)
    for route in probe_plan(fabric).all_routes:
        start = fabric.peer(LinkEnd(route.source, route.plane))
        assert start is not None
        nodes, end, _rest = walker.usid_path(start, int.from_bytes(route.path.outer, "big"))
        assert tuple(nodes) == route.switches
        assert end == LinkEnd(route.target, route.plane)
        assert route.path.destination == addressing.nic_address(fabric, fabric.nic(route.target)).packed
        ends = [route.source, *nodes, route.target]
        for crossing, (near, far) in zip(route.crossings, pairwise(ends), strict=True):
            link = fabric.link(crossing.link)
            expected = (near, far) if crossing.upward else (far, near)
            assert (link.lower.node, link.upper.node) == expected


def test_every_host_is_probed_by_as_many_others() -> None:
    plan = probe_plan(multi_plane_clos("many", planes=1, t0=4, t1=4, hosts=32), peers=5)
    pairs = {(route.source, route.target) for route in plan.all_routes if route.kind is ProbeKind.PEER}
    assert set(Counter(target for _, target in pairs).values()) == {5}
    assert set(Counter(source for source, _ in pairs).values()) == {5}


def test_a_plan_is_split_into_one_plan_per_nic() -> None:
    plan = probe_plan(multi_plane_clos())
    host_plan = plan.of("h2", 9)
    assert host_plan.first_round == 9
    assert host_plan.round_ns == plan.round_ns
    assert host_plan.paths == tuple(route.path for route in plan.routes["h2"])


def test_impossible_plans_are_refused() -> None:
    fabric = multi_plane_clos()
    with pytest.raises(FabricError, match=r"0\.1 to 1000 times"):
        probe_plan(fabric, rate=0)
    with pytest.raises(FabricError, match="1 host or more"):
        probe_plan(fabric, agents=0)
    with pytest.raises(FabricError, match="SRv6"):
        probe_plan(replace(fabric, settings=ProtocolSettings(ev_format=EvFormat.STRUCTURED)))
