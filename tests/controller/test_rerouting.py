"""When the controller reroutes and what switches hold then: over ones that only remember, and P4Runtime's stand-in."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.errors import ControllerError
from controller.events import Events, Subscription
from controller.fleet import Fleet
from controller.rerouting import FleetRerouting
from controller.table_changes import TableChanges
from controller.values import EntryWords, EventKind, Replanned, SwitchState, TableChange
from simulation.core.native import Clock
from simulation.virtual_time_loop import VirtualTimeLoop
from tests.controller.p4runtime_stand_in import StandIn, serve
from tests.topologies.entries_of_faults import entries_of
from tests.waiting import until_async
from topologies.clos import multi_plane_clos
from topologies.entries import switch_entries
from topologies.entry_difference import count
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.blackhole import Blackhole
from topologies.p4_program import fabric_program

FABRIC = multi_plane_clos("again", planes=2, t0=2, t1=2, hosts=4)
LINK, OTHER = "t0-0:t1-1@p0", "t0-1:t1-0@p0"
MS = 1_000_000
AFTER = 50 * MS


class Remembering:
    """Switches that take `takes` s for other routes, and are `away` or not."""

    def __init__(self) -> None:
        self.without: dict[str, list[frozenset[str]]] = {switch.name: [] for switch in FABRIC.switches}
        self.takes: dict[str, float] = {}
        self.away: set[str] = set()
        self.failing: set[str] = set()

    async def reroute(self, name: str, without: frozenset[str]) -> Replanned:
        await asyncio.sleep(self.takes.get(name, 0.0))
        if name in self.failing:
            raise RuntimeError("a mistake")
        self.without[name].append(without)
        return Replanned(2, name not in self.away)

    def last(self) -> dict[str, frozenset[str]]:
        return {name: found[-1] for name, found in self.without.items() if found}


class World:
    """A fabric whose links lose their carrier by hand, in virtual time."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loop = VirtualTimeLoop(self.clock)
        self.switches = Remembering()
        self.events = Events(clock=self.now)
        self.lost: set[str] = set()
        self.rerouting = FleetRerouting(FABRIC, self.switches, self.events, lambda: self.lost, AFTER, clock=self.now)

    def now(self) -> int:
        return self.clock.now

    def run(self, job: Coroutine[Any, Any, None]) -> list[tuple[int, str, str]]:
        """Times, names and details of reroutes while a job runs."""
        seen = self.events.subscribe()

        async def whole() -> None:
            await job
            await asyncio.sleep(100)
            await self.rerouting.close()

        self.loop.run_until_complete(whole())
        return self.loop.run_until_complete(_taken(seen))

    def down(self, *links: str) -> None:
        for link in links:
            self.lost.add(link)
            self.rerouting.link_changed(link)

    def up(self, link: str) -> None:
        self.lost.discard(link)
        self.rerouting.link_changed(link)


async def _taken(seen: Subscription) -> list[tuple[int, str, str]]:
    found = []
    while seen._waiting:
        event = await seen.next()
        if event.kind is EventKind.REROUTED:
            found.append((event.at_ns, event.name, event.detail))
    return found


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.loop.close()


def plane(number: int) -> set[str]:
    return {switch.name for switch in FABRIC.switches if switch.plane == number}


def test_switches_of_the_plane_change_after_the_time_and_an_event_says_so(world: World) -> None:
    async def job() -> None:
        world.down(LINK)
        await asyncio.sleep(AFTER / 1e9 - 0.001)
        assert world.switches.last() == {}
        await asyncio.sleep(0.002)
        assert world.switches.last() == dict.fromkeys(plane(0), frozenset({LINK}))

    assert world.run(job()) == [(AFTER, "p0", f"without {LINK}: 8 entries in 50 ms")]


def test_a_link_that_flaps_causes_one_reroute_a_time(world: World) -> None:
    async def job() -> None:
        for _ in range(100):
            world.down(LINK)
            await asyncio.sleep(0.003)
            world.up(LINK)
            await asyncio.sleep(0.004)

    times = [at for at, *_ in world.run(job())]
    assert all(later - earlier >= AFTER for earlier, later in itertools.pairwise(times))
    assert set(world.switches.last().values()) <= {frozenset()}


def test_a_link_that_is_back_in_time_changes_nothing(world: World) -> None:
    async def job() -> None:
        world.down(LINK)
        await asyncio.sleep(0.04)
        world.up(LINK)

    assert world.run(job()) == []
    assert world.switches.last() == {}


def test_two_links_go_together_and_planes_apart(world: World) -> None:
    async def job() -> None:
        world.down(LINK)
        await asyncio.sleep(0.02)
        world.down(OTHER, "h1@p1")

    assert world.run(job()) == [
        (AFTER, "p0", f"without {LINK}, {OTHER}: 8 entries in 50 ms"),
        (AFTER + 20 * MS, "p1", "without h1@p1: 8 entries in 50 ms"),
    ]


def test_a_slow_switch_holds_nobody_up_and_gets_the_latest(world: World) -> None:
    world.switches.takes = {"t0-0@p0": 5.0}

    async def job() -> None:
        world.down(LINK)
        await asyncio.sleep(0.1)
        assert world.switches.last() == dict.fromkeys(plane(0) - {"t0-0@p0"}, frozenset({LINK}))
        for other in ("t0-1:t1-0@p0", "h1@p0", "h2@p0"):
            world.down(other)
            await asyncio.sleep(0.1)
        assert world.switches.last() == dict.fromkeys(plane(0) - {"t0-0@p0"}, frozenset(world.lost))

    found = world.run(job())
    assert world.switches.without["t0-0@p0"] == [frozenset({LINK}), frozenset(world.lost)]
    assert found == [(AFTER + 10_000 * MS, "p0", found[0][2])]
    assert found[0][2].startswith("without h1@p0, h2@p0, t0-0:t1-1@p0, t0-1:t1-0@p0: ")


def test_many_links_are_counted_and_those_away_named(world: World) -> None:
    world.switches.away = {"t1-0@p0"}
    every = [link.name for link in FABRIC.links if link.plane == 0]

    async def job() -> None:
        world.down(*every)

    ((_, _, detail),) = world.run(job())
    assert detail == (
        "without h1@p0, h2@p0, h3@p0, h4@p0 and 4 more: 8 entries in 50 ms; later t1-0@p0, which cannot be reached"
    )


def test_a_mistake_at_one_switch_is_logged_and_the_others_go_on(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.switches.failing = {"t0-0@p0"}

    async def job() -> None:
        world.down(LINK)

    assert len(world.run(job())) == 1
    assert set(world.switches.last()) == plane(0) - {"t0-0@p0"}
    assert "the routes of t0-0@p0 could not be changed" in caplog.text


def test_links_that_are_dead_at_the_beginning_are_no_news(world: World) -> None:
    world.lost = {LINK}
    assert world.rerouting.begin() == frozenset({LINK})

    async def job() -> None:
        world.down(LINK)
        await asyncio.sleep(0.1)
        world.up(LINK)

    assert [detail for *_, detail in world.run(job())] == ["over all links: 8 entries in 50 ms"]


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_all_switches_end_with_what_there_is(world: World, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    world.switches.takes = {switch.name: rng.choice((0.0, 0.01, 0.3)) for switch in FABRIC.switches}

    async def job() -> None:
        for _ in range(60):
            link = rng.choice(FABRIC.links).name
            (world.up if link in world.lost else world.down)(link)
            await asyncio.sleep(rng.choice((0.0, 0.01, 0.1)))

    world.run(job())
    for switch in FABRIC.switches:
        there = frozenset(name for name in world.lost if FABRIC.link(name).plane == switch.plane)
        assert world.switches.last().get(switch.name, frozenset()) == there


# ---- over P4Runtime

Start = Callable[[], None]


@asynccontextmanager
async def up(fabric: Fabric, address: str) -> AsyncIterator[Fleet]:
    fleet = Fleet(fabric, address, fabric_program())
    fleet.start()
    try:
        assert await fleet.wait_verified(20), fleet.status.problems
        yield fleet
    finally:
        await fleet.stop()


async def check(fleet: Fleet, fabric: Fabric, stand_in: StandIn, dead: frozenset[str], more: int = 0) -> None:
    """Switches hold just these routes, and reconciling finds nothing to repair."""
    for switch in fabric.switches:
        held = len(stand_in.devices[switch.device_id].entities)
        assert held == count(switch_entries(fabric, switch, dead)) + (more if switch.name == "t0-0@p0" else 0)
    await fleet.reconcile()
    assert fleet.status.ready
    assert {switch.repaired for switch in fleet.status.switches} == {0}


def test_only_what_differs_is_written_and_kept(fabric: Fabric, stand_in: StandIn, address: str, serving: Start) -> None:
    serving()
    dead = frozenset({LINK})

    async def scenario() -> None:
        async with up(fabric, address) as fleet:
            before = {number: device.writes for number, device in stand_in.devices.items()}
            changes = [await fleet.reroute(switch.name, dead) for switch in fabric.switches]
            assert all(made.done for made in changes)
            assert sum(made.changes for made in changes) == 7
            written = {number: device.writes - before[number] for number, device in stand_in.devices.items()}
            for switch, made in zip(fabric.switches, changes, strict=True):
                assert bool(written[switch.device_id]) == bool(made.changes)
            await check(fleet, fabric, stand_in, dead)
            assert await fleet.reroute("t0-0@p0", dead) == Replanned(0, True)
            for switch in fabric.switches:
                await fleet.reroute(switch.name, frozenset())
            await check(fleet, fabric, stand_in, frozenset())

    asyncio.run(scenario())


def test_other_routes_faults_and_hand_entries_do_not_undo_each_other(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()
    dead = frozenset({LINK})

    async def scenario() -> None:
        async with up(fabric, address) as fleet:
            tables = TableChanges(fabric, fleet)
            words = EntryWords("traffic_class", ("55",), "set_priority", ("1",))
            faults = entries_of(fabric, [Blackhole("t0-0@p0")])
            await asyncio.gather(
                tables.change("t0-0@p0", TableChange.ADD, words),
                *(fleet.reroute(switch.name, dead) for switch in fabric.switches),
                fleet.set_faults(faults),
            )
            await check(fleet, fabric, stand_in, dead, more=1 + len(faults["t0-0@p0"]))
            await asyncio.gather(
                fleet.set_faults({}),
                *(fleet.reroute(switch.name, frozenset()) for switch in fabric.switches),
                fleet.change_program(dataclasses.replace(fabric_program(), name="other.p4")),
            )
            await check(fleet, fabric, stand_in, frozenset(), more=1)

    asyncio.run(scenario())


def test_a_switch_that_refuses_is_reconciled(fabric: Fabric, stand_in: StandIn, address: str, serving: Start) -> None:
    """As one from which somebody has deleted what is to be changed."""
    serving()
    dead = frozenset({LINK})

    async def scenario() -> None:
        async with up(fabric, address) as fleet:
            held = stand_in.devices[fabric.switch("t0-0@p0").device_id].entities
            for key in [key for key in held if key[0] == "action_profile_group"]:
                del held[key]
            for switch in fabric.switches:
                assert (await fleet.reroute(switch.name, dead)).done
            await check(fleet, fabric, stand_in, dead)

    asyncio.run(scenario())


def test_a_switch_that_is_away_gets_them_when_it_is_back(fabric: Fabric, stand_in: StandIn, address: str) -> None:
    dead = frozenset({LINK})

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.run_in_executor(None, serve, stand_in, address)
        async with up(fabric, address) as fleet:
            await loop.run_in_executor(None, lambda: server.stop(0).wait())
            await until_async(lambda: not any(switch.state is SwitchState.VERIFIED for switch in fleet.status.switches))
            assert await fleet.reroute("t0-0@p0", dead) == Replanned(2, False)
            await asyncio.gather(*(fleet.reroute(switch.name, dead) for switch in fabric.switches))
            server = await loop.run_in_executor(None, serve, stand_in, address)
            await until_async(lambda: fleet.status.ready)
            await check(fleet, fabric, stand_in, dead)
        await loop.run_in_executor(None, lambda: server.stop(0).wait())

    asyncio.run(scenario())


def test_a_fleet_may_begin_with_other_routes(fabric: Fabric, stand_in: StandIn, address: str, serving: Start) -> None:
    serving()
    dead = frozenset({LINK, "h1@p1"})

    async def scenario() -> None:
        fleet = Fleet(fabric, address, fabric_program())
        fleet.expect_routes(dead)
        fleet.start()
        try:
            assert await fleet.wait_verified(20)
            await check(fleet, fabric, stand_in, dead)
        finally:
            await fleet.stop()

    asyncio.run(scenario())


def test_a_program_without_the_tables_is_refused_with_the_key(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()
    own = fabric_program()
    other = dataclasses.replace(own, name="other.p4", json=own.json.replace('.ipv6_route"', '.routes"'))

    async def scenario() -> None:
        async with up(fabric, address) as fleet:
            tables = TableChanges(dataclasses.replace(fabric, reroute_ns=50_000), fleet)
            with pytest.raises(FabricError, match=r"^reroute: other\.p4 has no ipv6_route, so it has no routes"):
                await tables.load_program(other)
            with pytest.raises(ControllerError, match="other"):  # any program is taken by one that does not reroute
                await TableChanges(fabric, fleet).load_program(dataclasses.replace(other, p4info=""))

    asyncio.run(scenario())
