"""Reroutes in the simulated world: at their exact time, for as long as links are down, and what traffic gets."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace

import pytest

from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpType
from p4runtime_shim.pipeline import Pipeline
from simulation.errors import SimulationError
from simulation.rerouting import Reroute
from simulation.world import SimulatedWorld, load_program
from tests.simulation.worlds import GIGA, US, Pair, small_fabric, transfer
from topologies.clos import multi_plane_clos
from topologies.ecmp_choice import source_ports
from topologies.entries import ECMP, UPLINKS, switch_entries
from topologies.entry_difference import route_difference
from topologies.fabric import Fabric
from topologies.ip_routes import NO_LINKS
from topologies.p4_program import fabric_program

REROUTE = 50 * US
LINK = "t0-0:t1-1@p0"


def rerouting_world(fabric: Fabric | None = None, after: int | None = REROUTE, **changes: int) -> SimulatedWorld:
    return SimulatedWorld(replace(fabric or small_fabric(**changes), reroute_ns=after), seed=1)


def groups(world: SimulatedWorld, switch: str, profile: str = ECMP) -> dict[int, tuple[tuple[int, int], ...]]:
    device = world.switch(switch)
    assert device.pipeline is not None
    (name,) = (p.name for p in device.pipeline.program.profiles if p.name.endswith(f".{profile}"))
    return device.control_plane.profile(name).groups()


def routes(world: SimulatedWorld, switch: str) -> int:
    device = world.switch(switch)
    assert device.pipeline is not None
    tables = [t.name for t in device.pipeline.program.tables if t.name.endswith(("ipv6_route", "adaptive_route"))]
    return sum(len(device.control_plane.table(name).entries()) for name in tables)


def done(world: SimulatedWorld) -> list[tuple[int, int, set[str]]]:
    assert world.rerouting is not None
    return [(one.time, one.plane, set(one.without)) for one in world.rerouting.done]


def test_routes_change_at_their_time_to_the_nanosecond_and_back() -> None:
    with rerouting_world() as world:
        before = groups(world, "t0-0@p0")
        world.faults.link_down(LINK, at=7, until=100 * US)
        world.run(REROUTE + 6)
        assert groups(world, "t0-0@p0") == before
        world.run(REROUTE + 7)
        assert groups(world, "t0-0@p0")[1] == ((3, 1),)
        assert groups(world, "t0-0@p0", UPLINKS)[1] == ((3, 1),)
        assert list(groups(world, "t0-0@p1").values()) == [((3, 1), (4, 1))]
        world.run(100 * US + REROUTE - 1)
        assert groups(world, "t0-0@p0")[1] == ((3, 1),)
        world.run(100 * US + REROUTE)
        assert groups(world, "t0-0@p0") == before
        assert done(world) == [(REROUTE + 7, 0, {LINK}), (100 * US + REROUTE, 0, set())]


def test_without_the_key_nothing_changes() -> None:
    with rerouting_world(after=None) as world:
        before = groups(world, "t0-0@p0")
        world.faults.link_down(LINK, at=0)
        world.run(10_000 * US)
        assert world.rerouting is None
        assert groups(world, "t0-0@p0") == before


@pytest.mark.parametrize("cut", ["link_down", "power_off", "port_down", "flap"])
def test_whatever_takes_a_link_down_counts(cut: str) -> None:
    with rerouting_world() as world:
        if cut == "port_down":
            world.faults.port_down("h1", 0)
            expected = {"h1@p0"}
        elif cut == "power_off":
            world.faults.power_off("t1-1@p0")
            expected = {"t0-0:t1-1@p0", "t0-1:t1-1@p0"}
        else:
            world.faults.link_down(LINK) if cut == "link_down" else world.faults.flap(LINK, down=10_000 * US, up=US)
            expected = {LINK}
        world.run(2 * REROUTE)
        assert done(world) == [(REROUTE, 0, expected)]


@pytest.mark.parametrize("silent", ["blackhole", "loss"])
def test_silent_faults_do_not(silent: str) -> None:
    with rerouting_world() as world:
        world.faults.blackhole("t1-1@p0") if silent == "blackhole" else world.faults.loss(LINK, 1.0)
        world.run(2 * REROUTE)
        assert done(world) == []


def test_a_link_that_flaps_causes_one_reroute_a_time_at_most_and_never_one_for_nothing() -> None:
    with rerouting_world() as world:
        world.faults.flap(LINK, down=3 * US, up=4 * US, until=1_000 * US)
        world.run(2_000 * US)
        times = [time for time, *_ in done(world)]
        assert all(later - earlier >= REROUTE for earlier, later in itertools.pairwise(times))
        states = [without for *_, without in done(world)]
        assert states[-1] == set() if states else True
        assert all(one != other for one, other in itertools.pairwise(states))
        for time, _, without in done(world)[:-1]:
            assert without == ({LINK} if time % (7 * US) < 3 * US else set())


def test_a_link_that_is_back_before_the_time_changes_nothing() -> None:
    with rerouting_world() as world:
        world.faults.link_down(LINK, until=REROUTE - 1)
        world.run(3 * REROUTE)
        assert done(world) == []


def test_a_second_link_goes_with_the_first_and_planes_are_apart() -> None:
    with rerouting_world() as world:
        world.faults.link_down(LINK, at=0)
        world.faults.link_down("t0-1:t1-0@p0", at=REROUTE // 2)
        world.faults.link_down("h2@p1", at=REROUTE // 2)
        world.run(3 * REROUTE)
        assert done(world) == [
            (REROUTE, 0, {LINK, "t0-1:t1-0@p0"}),
            (REROUTE + REROUTE // 2, 1, {"h2@p1"}),
        ]


def test_the_switches_hold_what_the_fabric_demands_whatever_happens_to_a_plane() -> None:
    fabric = multi_plane_clos(planes=2, pods=2, t0=2, t1=2, t2=4, hosts=8)
    with rerouting_world(fabric) as world:
        for number, link in enumerate(link for link in fabric.links if link.plane == 1):
            world.faults.link_down(link.name, at=number * 20 * US, until=5_000 * US + number * 30 * US)
        whole = {switch.name: routes(world, switch.name) for switch in fabric.switches}
        for now in range(0, 8_000 * US, 250 * US):
            world.run(now)
            assert world.rerouting is not None
            without = world.rerouting.done[-1].without if world.rerouting.done else NO_LINKS
            for switch in fabric.switches:
                wanted = switch_entries(fabric, switch, without if switch.plane == 1 else NO_LINKS)
                tables = ("ipv6_route", "adaptive_route")
                assert routes(world, switch.name) == sum(entry.table in tables for entry in wanted.entries)
                for profile in (ECMP, UPLINKS):
                    expected = {g.group_id: g.members for g in wanted.groups if g.profile == profile}
                    assert groups(world, switch.name, profile) == expected
        assert {switch.name: routes(world, switch.name) for switch in fabric.switches} == whole


def test_while_the_controller_is_away_nothing_changes_and_then_all_at_once() -> None:
    with rerouting_world() as world:
        world.faults.controller_down(at=10 * US, until=200 * US)
        world.faults.link_down(LINK, at=0)
        world.run(200 * US - 1)
        assert done(world) == []
        world.run(300 * US)
        assert done(world) == [(200 * US, 0, {LINK})]
    with rerouting_world() as world:
        world.faults.controller_down(at=10 * US, until=20 * US)
        world.faults.link_down(LINK, at=0)
        world.run(300 * US)
        assert done(world) == [(REROUTE, 0, {LINK})]


def test_kernel_switches_reroute_too() -> None:
    fabric = small_fabric().with_kernel_switches(["t0-*@p0"])
    with rerouting_world(fabric) as world:
        world.faults.link_down(LINK)
        world.run(REROUTE)
        assert groups(world, "t0-0@p0")[1] == ((3, 1),)


def test_only_what_differs_is_written() -> None:
    fabric = replace(small_fabric(), reroute_ns=REROUTE)
    expected = sum(len(route_difference(fabric, switch, frozenset({LINK}), NO_LINKS)) for switch in fabric.switches)
    with rerouting_world(fabric) as world:
        world.faults.link_down(LINK)
        world.run(REROUTE)
        assert world.rerouting is not None
        assert world.rerouting.done == [Reroute(REROUTE, 0, frozenset({LINK}), expected)]
        # Both groups of the T0, the route of the T1, and at the other T0 entries of both tables, each with a new group.
        assert expected == 2 + 1 + 2 * 2


def test_a_program_without_the_tables_is_refused_with_the_key() -> None:
    pipeline = load_program()
    fabric = replace(small_fabric(), reroute_ns=REROUTE)
    other = _without_routes()
    SimulatedWorld(fabric, seed=1, pipeline=pipeline).close()
    with pytest.raises(SimulationError, match=r"^Reroute: the P4 program has no ecmp and no ipv6_route, so it has no"):
        SimulatedWorld(fabric, seed=1, pipeline=other)
    SimulatedWorld(replace(fabric, reroute_ns=None), seed=1, pipeline=other).close()


# ---- what traffic gets of it ----------------------------------------------------------------------------------------


TRAFFIC = multi_plane_clos(planes=1, t0=2, t1=4, hosts=4, rate_bps=100 * GIGA)
TIMEOUT = 9  # of an ACK: 1.024 us times 2 to the power of this, 524 us
FIRST = "t0-0:t1-2@p0"  # the uplink that the flow's source port leads to


def attributes(world: SimulatedWorld, timeout: int = TIMEOUT, retries: int = 3) -> QpAttributes:
    near, far = world.fabric.nic("h1"), world.fabric.nic("h3")
    sport = next(source_ports(world.fabric, near, far, 0, 2))
    return replace(world.attributes(), udp_sport=sport, timeout=timeout, retry_count=retries)


def written_meanwhile(world: SimulatedWorld, kind: QpType, cut: int) -> tuple[CompletionStatus, int, int]:
    """A write during which its uplink dies at `cut`: status, time and ACK timeouts."""
    with contextlib.closing(Pair(world, kind=kind, length=8 << 20, attributes=attributes(world))) as pair:
        world.faults.link_down(FIRST, at=cut)

        async def write() -> CompletionStatus:
            pair.write()
            return (await pair.cq.next()).status

        status = world.run(write())
        assert status is not None
        return status, world.now, pair.qp.counters().timeouts


@pytest.mark.parametrize("after", [50 * US, 500 * US])
def test_rc_goes_on_with_its_first_retransmission_after_the_reroute(after: int) -> None:
    cut = 100 * US
    with rerouting_world(TRAFFIC, after) as world:
        status, ended, timeouts = written_meanwhile(world, QpType.RC, cut)
        assert world.rerouting is not None
        assert [one.time for one in world.rerouting.done] == [cut + after]
        assert status is CompletionStatus.SUCCESS
        timeout = 1024 << TIMEOUT
        whole_write = 8 * (8 << 20) / 100  # ns at 100 Gb/s, without headers
        assert timeouts == 1
        assert cut + timeout < ended < cut + timeout + 1.2 * whole_write


def test_rc_needs_no_timeout_where_routes_change_before_its_window_is_lost() -> None:
    with rerouting_world(TRAFFIC, 1) as world:
        status, ended, timeouts = written_meanwhile(world, QpType.RC, 100 * US)
        assert status is CompletionStatus.SUCCESS
        assert timeouts == 0
        assert ended < 1_000 * US


def test_rc_needs_more_retransmissions_while_the_routes_take_longer() -> None:
    with rerouting_world(TRAFFIC, 1_000 * US) as world:
        status, ended, timeouts = written_meanwhile(world, QpType.RC, 100 * US)
        assert status is CompletionStatus.SUCCESS
        assert timeouts == 2
        assert ended > 1_100 * US


@pytest.mark.parametrize("kind", [QpType.RC, QpType.RC_SR])
def test_without_reroutes_a_flow_on_one_path_fails(kind: QpType) -> None:
    with rerouting_world(TRAFFIC, None) as world:
        status, *_ = written_meanwhile(world, kind, 100 * US)
        assert status is CompletionStatus.RETRY_EXCEEDED


@pytest.mark.parametrize("kind", [QpType.RC_SR, QpType.RC_AR])
def test_selective_repeat_goes_on_too(kind: QpType) -> None:
    with rerouting_world(TRAFFIC, 50 * US) as world:
        status, ended, _ = written_meanwhile(world, kind, 100 * US)
        assert status is CompletionStatus.SUCCESS
        assert ended < 2_000 * US


def test_adaptive_routing_loses_nothing_more_once_both_selectors_know() -> None:
    with rerouting_world(TRAFFIC, 50 * US) as world:
        world.faults.link_down(FIRST, at=0)
        world.run(60 * US)
        assert world.run(transfer(world, length=4 << 20, kind=QpType.RC_AR)).equal
        lost = sum(count for stats in world.link_stats(FIRST) for count in (stats.lost,))
        assert lost == 0
        drops = world.switch("t0-0@p0").stats().ports[5].down_drops
        assert drops == 0


def test_mrc_takes_no_notice() -> None:
    found = []
    for after in (None, US):
        with rerouting_world(TRAFFIC, after) as world:
            world.faults.link_down(FIRST, at=20 * US, until=300 * US)
            result = world.run(transfer(world, length=4 << 20))
            assert result is not None
            assert result.equal
            found.append((result.took, result.counters))
    assert found[0] == found[1]


def _without_routes() -> Pipeline:
    text = fabric_program().json.replace('.ipv6_route"', '.other"').replace('.ecmp"', '.members"')
    return Pipeline.load(text)
