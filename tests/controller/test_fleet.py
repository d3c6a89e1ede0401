from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

import finsy
import pytest
from finsy.proto import p4r

from controller import translate
from controller.errors import ControllerError
from controller.fleet import TIMEOUT_S, Fleet
from controller.values import FleetStatus, SwitchState
from p4src import P4INFO
from simulation.core.native import Clock
from simulation.virtual_time_loop import VirtualTimeLoop
from tests.controller.p4runtime_stand_in import StandIn, serve
from tests.controller.p4runtime_stand_in import key as entity_key
from tests.topologies.entries_of_faults import entries_of
from tests.waiting import until_async
from topologies.clos import multi_plane_clos
from topologies.entries import switch_entries
from topologies.entry_difference import count
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.blackhole import Blackhole
from topologies.faults.loss import Loss
from topologies.p4_program import fabric_program, saved_program

BUILD = Path(__file__).parents[2] / "p4src" / "build"
Start = Callable[[], None]


def make(fabric: Fabric, address: str, timeout_s: float = TIMEOUT_S) -> Fleet:
    return Fleet(fabric, address, fabric_program(), timeout_s=timeout_s)


async def run(fleet: Fleet, timeout_s: float = 20) -> FleetStatus:
    fleet.start()
    try:
        await fleet.wait_verified(timeout_s)
        return fleet.status
    finally:
        await fleet.stop()


def test_every_switch_is_programmed_and_verified(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()
    status = asyncio.run(run(make(fabric, address)))
    assert status.ready, status.problems
    for switch, reported in zip(fabric.switches, status.switches, strict=True):
        device = stand_in.devices[switch.device_id]
        assert reported.entries == reported.repaired == len(device.entities) == count(switch_entries(fabric, switch))
        assert device.pipelines == 1
        assert device.config.p4_device_config == (BUILD / "fabric.json").read_bytes()


def test_switches_may_start_after_the_controller(fabric: Fabric, address: str, serving: Start) -> None:
    async def scenario() -> FleetStatus:
        task = asyncio.create_task(run(make(fabric, address)))
        await asyncio.sleep(0)  # the controller dials before anybody listens
        await asyncio.get_running_loop().run_in_executor(None, serving)
        return await task

    assert asyncio.run(scenario()).ready


def test_a_second_controller_changes_nothing(fabric: Fabric, stand_in: StandIn, address: str, serving: Start) -> None:
    serving()
    asyncio.run(run(make(fabric, address)))
    before = {device_id: (device.writes, device.pipelines) for device_id, device in stand_in.devices.items()}
    status = asyncio.run(run(make(fabric, address)))
    assert status.ready
    assert all(switch.repaired == 0 for switch in status.switches)
    after = {device_id: (device.writes, device.pipelines) for device_id, device in stand_in.devices.items()}
    assert after == before


def test_missing_changed_and_extra_entries_are_repaired(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()

    async def scenario() -> FleetStatus:
        fleet = make(fabric, address)
        fleet.start()
        try:
            assert await fleet.wait_verified(20)
            held = stand_in.devices[1].entities
            right = {key: entity.SerializeToString() for key, entity in held.items()}
            tables = [key for key in held if key[0] == "table_entry"]
            first, second, third = [key for key in tables if held[key].table_entry.action.action.params][:3]
            stray = p4r.Entity()
            stray.CopyFrom(held[third])
            stray.table_entry.match[0].exact.value = b"\x07"
            held[entity_key(stray)] = stray
            del held[first]
            held[second].table_entry.action.action.params[0].value = b"\x01\xfe"
            await fleet.reconcile()
            assert {key: entity.SerializeToString() for key, entity in held.items()} == right
            return fleet.status
        finally:
            await fleet.stop()

    status = asyncio.run(scenario())
    assert status.ready
    assert [switch.repaired for switch in status.switches] == [3] + [0] * (len(fabric.switches) - 1)


def test_an_entry_the_switch_does_not_keep_is_reported(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    lost: set[object] = set()

    def swallow(device_id: int, entity: p4r.Entity) -> bool:
        if device_id == 2 and not lost and entity.HasField("table_entry"):
            lost.add(entity_key(entity))
        return device_id == 2 and entity_key(entity) in lost

    stand_in.swallow = swallow
    serving()
    status = asyncio.run(run(make(fabric, address)))
    assert not status.ready
    assert [switch.name for switch in status.switches if switch.state is SwitchState.FAILED] == ["t0-1@p0"]
    (problem,) = status.problems
    assert problem == "t0-1@p0: entry fc00:0:2001::/48 of table usid_local is missing"


def test_a_refused_pipeline_is_reported(fabric: Fabric, stand_in: StandIn, address: str, serving: Start) -> None:
    stand_in.refuse_pipeline = "construct varbit at fabric.p4:12 is not supported"
    serving()
    status = asyncio.run(run(make(fabric, address)))
    assert not status.ready
    assert status.problems[0] == ("t0-0@p0: could not be set up: construct varbit at fabric.p4:12 is not supported")


def test_unreachable_switches_are_named(fabric: Fabric, address: str) -> None:
    status = asyncio.run(run(make(fabric, address), timeout_s=0.1))
    assert not status.ready
    assert len(status.problems) == len(fabric.switches)
    assert "t0-0@p0: is still connecting at unix:" in status.problems[0]


def test_a_missing_p4_program_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FabricError, match=r"fabric\.json cannot be read"):
        saved_program(tmp_path)


def test_each_switch_may_have_its_own_address(fabric: Fabric) -> None:
    async def scenario() -> set[str]:
        return {switch.address for switch in make(fabric, "unix:/run/switch-{name}.sock").switches.values()}

    assert "unix:/run/switch-t1-1@p1.sock" in asyncio.run(scenario())


def test_a_restarted_empty_switch_is_programmed_again(
    fabric: Fabric, stand_in: StandIn, address: str, tmp_path: Path
) -> None:
    async def scenario() -> list[int]:
        loop = asyncio.get_running_loop()
        server = await loop.run_in_executor(None, serve, stand_in, address)
        fleet = make(fabric, address)
        fleet.start()
        try:
            assert await fleet.wait_verified(20)
            await loop.run_in_executor(None, lambda: server.stop(0).wait())
            await until_async(lambda: not fleet.status.ready)
            replacement = StandIn(range(1, len(fabric.switches) + 1))
            server = await loop.run_in_executor(None, serve, replacement, address)
            await until_async(lambda: fleet.status.ready)
            return [len(device.entities) for device in replacement.devices.values()]
        finally:
            await fleet.stop()
            await loop.run_in_executor(None, lambda: server.stop(0).wait())

    held = asyncio.run(scenario())
    assert held == [count(switch_entries(fabric, switch)) for switch in fabric.switches]


def test_fault_entries_are_added_and_removed_and_survive_reconciliation(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    faults = entries_of(fabric, [Blackhole("t1-0@p0"), Loss("h1@p0", 5e-9)])
    wanted = [count(switch_entries(fabric, switch)) + len(faults.get(switch.name, ())) for switch in fabric.switches]

    def held() -> list[int]:
        return [len(device.entities) for device in stand_in.devices.values()]

    async def scenario() -> None:
        fleet = make(fabric, address)
        fleet.start()
        try:
            assert await fleet.wait_verified(20)
            before = held()
            writes = [device.writes for device in stand_in.devices.values()]
            await fleet.set_faults(faults)
            assert held() == wanted
            touched = [device.writes > old for device, old in zip(stand_in.devices.values(), writes, strict=True)]
            assert sum(touched) == len(faults) == 2
            await fleet.reconcile()
            assert held() == wanted
            assert fleet.status.ready
            assert [switch.entries for switch in fleet.status.switches] == wanted
            await fleet.set_faults({})
            assert held() == before
        finally:
            await fleet.stop()

    serving()
    asyncio.run(scenario())


def test_a_new_controller_removes_the_previous_ones_fault_entries(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    async def leave_faults() -> None:
        fleet = make(fabric, address)
        fleet.start()
        try:
            assert await fleet.wait_verified(20)
            await fleet.set_faults(entries_of(fabric, [Blackhole("t1-*@p0")]))
        finally:
            await fleet.stop()

    serving()
    asyncio.run(leave_faults())
    status = asyncio.run(run(make(fabric, address)))
    assert status.ready
    assert sum(switch.repaired for switch in status.switches) == 2
    held = [len(device.entities) for device in stand_in.devices.values()]
    assert held == [count(switch_entries(fabric, switch)) for switch in fabric.switches]


def test_a_fault_refused_by_an_unresponsive_switch_is_absent_when_it_answers_again(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    async def scenario() -> None:
        fleet = make(fabric, address, timeout_s=0.3)
        fleet.start()
        try:
            assert await fleet.wait_verified(20)
            before = [len(device.entities) for device in stand_in.devices.values()]
            writes = sum(device.writes for device in stand_in.devices.values())
            stand_in.answering.clear()
            with pytest.raises(ControllerError, match="t1-0@p0 does not answer, so it can make no fault"):
                await fleet.set_faults(entries_of(fabric, [Blackhole("t1-0@p0")]))
            assert not fleet.status.ready
            await until_async(stand_in.waits, "the fault's write to have come")
            stand_in.answering.set()
            assert await fleet.wait_verified(20)
            assert sum(device.writes for device in stand_in.devices.values()) > writes, "it made the change after all"
            assert [len(device.entities) for device in stand_in.devices.values()] == before
            assert fleet.switches["t1-0@p0"].status.entries == count(switch_entries(fabric, fabric.switch("t1-0@p0")))
            for switch in fleet.switches.values():
                switch.timeout_s = 20
            await fleet.set_faults(entries_of(fabric, [Blackhole("t1-0@p0")]))
            assert sum(len(device.entities) for device in stand_in.devices.values()) == sum(before) + 1
        finally:
            stand_in.answering.set()
            await fleet.stop()

    serving()
    asyncio.run(scenario())


def test_a_switch_that_hangs_during_a_read_delays_no_other_and_catches_up_later(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    hung, other = "t1-0@p0", "t1-1@p0"
    black = {name: entries_of(fabric, [Blackhole(name)]) for name in (hung, other)}

    async def scenario() -> None:
        fleet = make(fabric, address, timeout_s=20)
        fleet.start()
        try:
            assert await fleet.wait_verified(20)
            held = stand_in.devices[fabric.switch(hung).device_id].entities
            before = len(held)
            await fleet.set_faults(black[hung])
            assert len(held) == before + 1
            stand_in.slow = fabric.switch(hung).device_id
            stand_in.reading.clear()
            reading = asyncio.create_task(fleet.reconcile())
            await until_async(lambda: fleet.switches[hung].status.state is SwitchState.PROGRAMMING)
            asked = asyncio.create_task(fleet.switches[hung].read(translate.wildcards(fleet.switches[hung].schema)))
            await asyncio.wait_for(fleet.set_faults({**black[hung], **black[other]}), 10)
            assert not reading.done(), "or this test shows nothing"
            fleet.switches[hung].timeout_s = 0.1
            assert await fleet.set_faults(black[other]) == (), "what takes a fault away is put off"
            with pytest.raises(ControllerError, match=r"t1-0@p0 (does not answer|is not reachable), so it can make no"):
                await fleet.set_faults({**black[hung], **black[other]})
            with pytest.raises(ControllerError, match="t1-0@p0 is not reachable"):
                await asked
            await reading  # the session was given up, and what was asked in it with it
            stand_in.reading.set()
            await until_async(lambda: len(held) == before and fleet.status.ready)
            fleet.switches[hung].timeout_s = 20
            await fleet.set_faults({**black[hung], **black[other]})
            assert len(held) == before + 1
        finally:
            stand_in.reading.set()
            await fleet.stop()

    serving()
    asyncio.run(scenario())


def test_faults_of_an_unreachable_switch_are_refused_or_deferred_and_may_be_cleared(
    fabric: Fabric, stand_in: StandIn, address: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.run_in_executor(None, serve, stand_in, address)
        fleet = make(fabric, address)
        fleet.start()
        try:
            assert await fleet.wait_verified(20)
            await fleet.set_faults(entries_of(fabric, [Blackhole("t1-0@p0")]))
            await loop.run_in_executor(None, lambda: server.stop(0).wait())
            await until_async(lambda: not any(switch.state is SwitchState.VERIFIED for switch in fleet.status.switches))
            with pytest.raises(ControllerError, match="is not reachable, so it can make no fault"):
                await fleet.set_faults(entries_of(fabric, [Blackhole("t[0,1]-0@p[0,1]")]))
            await fleet.set_faults({})
            late = entries_of(fabric, [Blackhole("t1-0@p0")])
            assert await fleet.set_faults(late, later=True) == ("t1-0@p0",)
            waiting = asyncio.create_task(fleet.verified(["t1-0@p0"]))
            server = await loop.run_in_executor(None, serve, stand_in, address)
            await asyncio.wait_for(waiting, 20)
            await until_async(lambda: fleet.status.ready)
        finally:
            await fleet.stop()
            await loop.run_in_executor(None, lambda: server.stop(0).wait())
        for switch in fabric.switches:
            more = len(late.get(switch.name, ()))
            held = len(stand_in.devices[switch.device_id].entities)
            assert held == count(switch_entries(fabric, switch)) + more, switch.name

    asyncio.run(scenario())


# ---- slow switches, in virtual time


class SlowClient:
    """Stands for finsy's client of a switch that takes `takes_s` for each request; it holds nothing."""

    def __init__(self, takes_s: float) -> None:
        self.p4info = finsy.P4Schema(P4INFO)
        self.takes_s = takes_s
        self.writes: list[int] = []

    async def write(self, updates: Iterable[object]) -> None:
        await asyncio.sleep(self.takes_s)
        self.writes.append(len(list(updates)))

    async def read(self, request: object) -> AsyncIterator[object]:
        await asyncio.sleep(self.takes_s)
        return
        yield


def slow_fleet(fabric: Fabric, takes_s: float) -> tuple[Fleet, list[SlowClient]]:
    """A fleet with a session to each switch, all of which are slow."""
    fleet = make(fabric, "unix:none")
    clients = [SlowClient(takes_s) for _ in fleet.switches]
    for switch, client in zip(fleet.switches.values(), clients, strict=True):
        # A session makes its own client of finsy, which cannot run in virtual time: it is put in place of it.
        switch._client = client  # type: ignore[assignment]
        switch._set(SwitchState.VERIFIED)
    return fleet, clients


@pytest.fixture
def loop() -> Iterator[VirtualTimeLoop]:
    found = VirtualTimeLoop(Clock())
    yield found
    found.close()


def test_a_slow_switch_stays_connected_however_many_requests_a_change_takes(
    fabric: Fabric, loop: VirtualTimeLoop
) -> None:
    fleet, clients = slow_fleet(fabric, 5)
    loop.run_until_complete(fleet.set_faults(entries_of(fabric, [Blackhole("*")])))
    assert loop.time() == pytest.approx(5), "all at once"
    loop.run_until_complete(fleet.set_faults(entries_of(fabric, [Loss("*", 5e-9)])))
    assert loop.time() == pytest.approx(5 + 2 * 5), "new entries, and then the old ones away"
    assert all(len(client.writes) == 3 for client in clients)
    assert fleet.status.ready


def test_a_change_waits_for_a_slow_switch_that_is_being_reconciled(fabric: Fabric, loop: VirtualTimeLoop) -> None:
    fleet, clients = slow_fleet(fabric, 5)

    async def both() -> tuple[str, ...]:
        checking = asyncio.create_task(fleet.reconcile())
        await asyncio.sleep(1)
        found = await fleet.set_faults(entries_of(fabric, [Blackhole("*")]))
        await checking
        return found

    assert loop.run_until_complete(both()) == ()
    assert loop.time() > 2 * TIMEOUT_S
    assert all(client.writes[-1] == 1 for client in clients)


def test_many_unresponsive_switches_are_waited_for_together(loop: VirtualTimeLoop) -> None:
    large = multi_plane_clos("large", planes=4, t0=8, t1=8, hosts=8)
    fleet, clients = slow_fleet(large, 3600)
    assert len(clients) == 64
    with pytest.raises(ControllerError, match="does not answer, so it can make no fault"):
        loop.run_until_complete(fleet.set_faults(entries_of(large, [Blackhole("*")])))
    assert loop.time() == pytest.approx(TIMEOUT_S)
    assert not any(client.writes for client in clients)


class DrippingClient(SlowClient):
    """Stands for the client of a switch that sends an entity of an answer every `takes_s`, for a day."""

    async def read(self, request: object) -> AsyncIterator[object]:
        for _ in range(round(86_400 / self.takes_s)):
            await asyncio.sleep(self.takes_s)
            yield None


def test_a_switch_that_trickles_its_answer_cannot_block_a_change_for_ever(
    fabric: Fabric, loop: VirtualTimeLoop
) -> None:
    """It is given as long as one that takes the timeout for each request: 10 times 7 s."""
    fleet, _ = slow_fleet(fabric, 1)
    dripping = fleet.switches["t1-0@p0"]
    dripping._client = DrippingClient(6)  # type: ignore[assignment]

    async def both() -> None:
        checking = asyncio.create_task(dripping.reconcile())
        await asyncio.sleep(0)
        began = loop.time()
        with pytest.raises(ControllerError, match="t1-0@p0 is not ready after 70 s, so it can make no fault"):
            await fleet.set_faults(entries_of(fabric, [Blackhole("*")]))
        assert loop.time() - began == pytest.approx(70)
        assert dripping.status.problems == ("t1-0@p0: is not ready after 70 s",)
        assert await fleet.set_faults({}) == (), "what takes faults away is put off"
        checking.cancel()

    loop.run_until_complete(both())


def test_a_switch_just_within_the_timeout_for_each_request_completes_its_changes(
    fabric: Fabric, loop: VirtualTimeLoop
) -> None:
    """A change that waits for a reconciliation of all stages is the longest there is."""
    fleet, clients = slow_fleet(fabric, 0.99 * TIMEOUT_S)
    loop.run_until_complete(fleet.set_faults(entries_of(fabric, [Blackhole("*")])))

    async def both() -> tuple[str, ...]:
        checking = asyncio.create_task(fleet.reconcile())
        await asyncio.sleep(0)
        found = await fleet.set_faults(entries_of(fabric, [Loss("*", 5e-9)]))
        await checking
        return found

    before = loop.time()
    assert loop.run_until_complete(both()) == ()
    assert loop.time() - before > 6 * TIMEOUT_S, "two reads, three writes, and those of the change"
    assert all(client.writes[-1] == 1 for client in clients), "blackholes went last"
