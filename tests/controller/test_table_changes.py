"""What users change of running switches: by hand and by another program, with a P4Runtime server that remembers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from controller.errors import ControllerError
from controller.fleet import Fleet
from controller.table_changes import TableChanges
from controller.values import EntryWords, SwitchState, TableChange
from tests.controller.p4runtime_stand_in import StandIn
from tests.topologies.entries_of_faults import entries_of
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.loss import Loss
from topologies.p4_program import P4Program, fabric_program, saved_program

Start = Callable[[], None]
CLASS = EntryWords("traffic_class", ("55",), "set_priority", ("1",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "p4"
    made.mkdir()
    return made


@contextlib.asynccontextmanager
async def up(fabric: Fabric, address: str, folder: Path | None = None) -> AsyncIterator[tuple[Fleet, TableChanges]]:
    fleet = Fleet(fabric, address, fabric_program())
    tables = TableChanges(fabric, fleet, folder)
    tables.take_over()
    fleet.start()
    try:
        assert await fleet.wait_verified(20), fleet.status.problems
        yield fleet, tables
    finally:
        await fleet.stop()


def other() -> P4Program:
    """The same with another name in its JSON, so that it is another program."""
    own = fabric_program()
    return dataclasses.replace(own, name="other.p4", json=own.json.replace('"fabric', '"other'))


def held(stand_in: StandIn, device: int) -> int:
    return len(stand_in.devices[device].entities)


def test_a_change_by_hand_stays_through_reconciliation_and_a_restart_of_both(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start, folder: Path
) -> None:
    serving()

    async def first() -> None:
        async with up(fabric, address, folder) as (fleet, tables):
            before = held(stand_in, 1)
            assert await tables.change("t0-0@p0", TableChange.ADD, CLASS) == ["t0-0@p0"]
            assert held(stand_in, 1) == before + 1
            await fleet.reconcile()
            assert held(stand_in, 1) == before + 1
            assert fleet.status.ready
            (info,) = tables.listed("")
            assert (info.switch, info.table, info.match, info.deleted) == ("t0-0@p0", "traffic_class", "dscp=55", False)

    async def second() -> None:
        stand_in.devices[1].entities.clear()  # a switch that was restarted meanwhile
        async with up(fabric, address, folder) as (fleet, tables):
            assert len(tables.listed("t0-0@p0")) == 1
            there = held(stand_in, 1)
            assert await tables.restore("") == 1
            assert held(stand_in, 1) == there - 1
            assert await tables.restore("") == 0
            assert not list(folder.iterdir())
            assert fleet.status.ready

    asyncio.run(first())
    asyncio.run(second())


def test_a_pattern_changes_all_switches_or_none(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()

    async def scenario() -> None:
        async with up(fabric, address) as (fleet, tables):
            await tables.change("t0-1@p1", TableChange.ADD, CLASS)
            before = [held(stand_in, device) for device in stand_in.devices]
            with pytest.raises(ControllerError, match="t0-1@p1: Table traffic_class has such an entry already"):
                await tables.change("*", TableChange.ADD, CLASS)
            assert [held(stand_in, device) for device in stand_in.devices] == before
            last = max(stand_in.devices)
            stand_in.swallow = lambda device, entity: device == last
            await tables.restore("")
            stand_in.swallow = lambda device, entity: False
            with pytest.raises(FabricError, match="t9"):
                await tables.change("t9-*", TableChange.ADD, CLASS)
            assert len(await tables.change("*", TableChange.ADD, CLASS)) == len(fabric.switches)
            assert fleet.status.ready

    asyncio.run(scenario())


def test_changes_by_hand_and_faults_do_not_undo_each_other(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()

    async def scenario() -> None:
        async with up(fabric, address) as (fleet, tables):
            plain = held(stand_in, 1)
            faults = entries_of(fabric, [Loss("h1@p0", 0.5)])
            await fleet.set_faults(faults)
            await tables.change("t0-0@p0", TableChange.ADD, CLASS)
            both = held(stand_in, 1)
            assert both > plain + 1
            await fleet.set_faults({})
            assert held(stand_in, 1) == plain + 1
            await fleet.set_faults(faults)
            await tables.restore("t0-0@p0")
            assert held(stand_in, 1) == both - 1

    asyncio.run(scenario())


def test_an_entry_is_made_by_hand_or_by_a_fault_but_not_by_both(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()

    async def scenario() -> None:
        async with up(fabric, address) as (fleet, tables):
            faults = entries_of(fabric, [Loss("h1@p0", 0.5)])
            (entry, *_) = (made for made in faults["t0-0@p0"] if made.table == "departure_fault")
            port = str(entry.match[0].value)
            before = held(stand_in, 1)
            await fleet.set_faults(faults)
            with pytest.raises(ControllerError, match=r"t0-0@p0: This entry makes a fault: 'fault list' and 'fault"):
                await tables.change("t0-0@p0", TableChange.DELETE, EntryWords("departure_fault", (port,)))
            await fleet.set_faults({})
            by_hand = EntryWords("departure_fault", (port,), "impair", ("1", "0"))
            await tables.change("t0-0@p0", TableChange.ADD, by_hand)
            with pytest.raises(ControllerError, match=r"by hand of table departure_fault.*'table restore t0-0@p0'"):
                await fleet.set_faults(faults)
            await tables.restore("")
            assert held(stand_in, 1) == before
            await fleet.set_faults(faults)
            assert fleet.status.ready

    asyncio.run(scenario())


def test_another_program_comes_with_all_that_switches_hold_and_is_kept_for_the_next_controller(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start, folder: Path
) -> None:
    serving()

    async def scenario() -> None:
        async with up(fabric, address, folder) as (fleet, tables):
            before = {device: (known.writes, len(known.entities)) for device, known in stand_in.devices.items()}
            await tables.load_program(other())
            assert fleet.status.ready
            assert {d: (known.writes, len(known.entities)) for d, known in stand_in.devices.items()} == before
            for device in stand_in.devices.values():
                assert device.pipelines == 2
                assert device.config.p4_device_config == other().json.encode()
            assert saved_program(folder).json == other().json
            await fleet.set_faults(entries_of(fabric, [Loss("h1@p0", 0.5)]))  # in the new session

    asyncio.run(scenario())


def test_if_one_switch_refuses_a_program_all_keep_theirs(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start, folder: Path
) -> None:
    serving()

    async def scenario() -> None:
        async with up(fabric, address, folder) as (fleet, tables):
            stand_in.refuse_devices = {3: "the forwarding state cannot be kept under the new pipeline"}
            with pytest.raises(ControllerError, match="keeps its program: the forwarding state cannot be kept"):
                await tables.load_program(other())
            stand_in.refuse_devices = {}
            assert fleet.program == fabric_program()
            for device in stand_in.devices.values():
                assert device.config.p4_device_config == fabric_program().json.encode()
            assert {switch.state for switch in fleet.status.switches} == {SwitchState.VERIFIED}
            assert not list(folder.iterdir())
            without = dataclasses.replace(other(), p4info="")
            with pytest.raises(ControllerError, match=r"other\.p4 has no P4Info"):
                await tables.load_program(without)

    asyncio.run(scenario())


def test_a_fault_that_is_ordered_while_the_program_changes_waits_and_is_made(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()

    async def scenario() -> None:
        async with up(fabric, address) as (fleet, tables):
            change = asyncio.create_task(tables.load_program(other()))
            await asyncio.sleep(0)
            before = held(stand_in, 1)
            assert await fleet.set_faults(entries_of(fabric, [Loss("h1@p0", 0.5)])) == ()
            await change
            assert held(stand_in, 1) > before
            assert fleet.status.ready

    asyncio.run(scenario())


def test_a_fault_and_a_change_by_hand_at_once_both_stay(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()

    async def scenario() -> None:
        async with up(fabric, address) as (fleet, tables):
            plain = held(stand_in, 1)
            faults = entries_of(fabric, [Loss("h1@p0", 0.5)])
            await asyncio.gather(fleet.set_faults(faults), tables.change("t0-0@p0", TableChange.ADD, CLASS))
            both = held(stand_in, 1)
            assert both == plain + len(faults["t0-0@p0"]) + 1
            await fleet.reconcile()
            assert held(stand_in, 1) == both

    asyncio.run(scenario())


def test_a_switch_that_cannot_hold_its_entries_under_the_new_program_gets_the_old_one_back(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()

    async def scenario() -> None:
        async with up(fabric, address) as (fleet, tables):
            there = [held(stand_in, device) for device in stand_in.devices]
            own = fabric_program()
            renamed = own.json.replace("usid_shift", "usid_shove"), own.p4info.replace("usid_shift", "usid_shove")
            stand_in.devices[2].entities.clear()  # the controller has to write what the new one has no action for
            with pytest.raises(ControllerError, match="no action usid_shift there"):
                await tables.load_program(P4Program("renamed.p4", *renamed))
            assert await fleet.wait_verified(20), fleet.status.problems
            assert [held(stand_in, device) for device in stand_in.devices] == there
            for device in stand_in.devices.values():
                assert device.config.p4_device_config == own.json.encode()

    asyncio.run(scenario())


def test_a_program_that_an_entry_of_somebody_does_not_fit_is_refused_before_any_switch_changes(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start
) -> None:
    serving()

    async def scenario() -> None:
        async with up(fabric, address) as (fleet, tables):
            await tables.change("t0-1@p0", TableChange.ADD, CLASS)
            own = fabric_program()
            p4info = own.p4info.replace("set_priority", "set_class")
            with pytest.raises(ControllerError, match=r"no action set_priority there.*'table restore t0-1@p0'"):
                await tables.load_program(P4Program("new.p4", own.json.replace("set_priority", "set_class"), p4info))
            await tables.restore("")
            await fleet.set_faults(entries_of(fabric, [Loss("h1@p0", 0.5)]))
            p4info, json = (text.replace("departure_fault", "other_fault") for text in (own.p4info, own.json))
            with pytest.raises(ControllerError, match=r"a fault's entry of table departure_fault .*'fault clear'"):
                await tables.load_program(P4Program("new.p4", json, p4info))
            assert {device.pipelines for device in stand_in.devices.values()} == {1}

    asyncio.run(scenario())


def test_a_change_whose_client_leaves_in_the_middle_is_made_on_all_switches(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Start, folder: Path
) -> None:
    serving()

    async def leave(change: Coroutine[Any, Any, Any], begun: Callable[[], bool]) -> None:
        task = asyncio.create_task(change)
        while not begun():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait((task,))
        stand_in.answering.set()

    async def scenario() -> None:
        async with up(fabric, address, folder) as (fleet, tables):
            there = [held(stand_in, device) for device in stand_in.devices]
            stand_in.answering.clear()
            await leave(tables.change("*", TableChange.ADD, CLASS), stand_in.waits)
            assert await tables.restore("t0-0@p0") == 1
            assert [held(stand_in, device) for device in stand_in.devices][1:] == [count + 1 for count in there[1:]]
            stand_in.answering.clear()
            await leave(
                tables.load_program(other()), lambda: any(one.pipelines > 1 for one in stand_in.devices.values())
            )
            assert await tables.restore("") == len(there) - 1
            assert {one.config.p4_device_config for one in stand_in.devices.values()} == {other().json.encode()}
            assert fleet.program == other()
            assert saved_program(folder).json == other().json

    asyncio.run(scenario())
