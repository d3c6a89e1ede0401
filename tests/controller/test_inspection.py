"""Tables and counters as they are reported: by switches that only remember, and by one that cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from finsy.proto import p4r

from controller import inspection
from controller.fleet import Fleet
from tests.controller.p4runtime_stand_in import StandIn
from tests.controller.test_fleet import make
from topologies.entries import switch_entries
from topologies.entry_difference import count
from topologies.errors import FabricError
from topologies.fabric import Fabric

T = TypeVar("T")
HEADERS = Path(__file__).parents[2] / "p4src" / "headers.p4"


def with_fleet(fleet: Fleet, ask: Callable[[], Awaitable[T]]) -> T:
    async def scenario() -> T:
        fleet.start()
        try:
            assert await fleet.wait_verified(20)
            return await ask()
        finally:
            await fleet.stop()

    return asyncio.run(scenario())


def test_comparing_tables_repairs_nothing(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Callable[[], None]
) -> None:
    serving()
    fleet = make(fabric, address)
    held = stand_in.devices[1].entities

    async def ask() -> list[inspection.SwitchTables]:
        routes = [key for key in held if key[0] == "table_entry"]
        first, second, third = [key for key in routes if held[key].table_entry.action.action.params][:3]
        stray = p4r.Entity()
        stray.CopyFrom(held[third])
        stray.table_entry.match[0].exact.value = b"\x07"
        held["stray"] = stray
        del held[first]
        held[second].table_entry.action.action.params[0].value = b"\x01\xfe"
        held[third].table_entry.counter_data.packet_count = 5
        held[third].table_entry.counter_data.byte_count = 500
        return await inspection.tables(fabric, fleet, "t0-0@p0", entries=True)

    (found,) = with_fleet(fleet, ask)
    assert "stray" in held, "looking repaired something"
    assert len(found.problems) == 3
    total = {name: sum(getattr(table, name) for table in found.tables) for name in ("missing", "wrong", "superfluous")}
    assert total == {"missing": 1, "wrong": 1, "superfluous": 1}
    assert sum(table.expected for table in found.tables) == count(switch_entries(fabric, fabric.switches[0]))
    assert all(len(table.entries) == table.present for table in found.tables)
    assert (sum(table.packets for table in found.tables), sum(table.bytes for table in found.tables)) == (5, 500)
    assert [entry.packets for table in found.tables for entry in table.entries if entry.packets] == [5]


def test_a_pattern_chooses_switches(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Callable[[], None]
) -> None:
    serving()
    fleet = make(fabric, address)
    found = with_fleet(fleet, lambda: inspection.tables(fabric, fleet, "t1-*@p1", entries=False))
    assert [switch.switch for switch in found] == ["t1-0@p1", "t1-1@p1"]
    assert all(table.entries == () for switch in found for table in switch.tables)
    with pytest.raises(FabricError, match="no switch that matches 't7'"):
        asyncio.run(inspection.tables(fabric, fleet, "t7", entries=False))


def test_an_unreachable_switch_is_reported_as_a_problem(fabric: Fabric, address: str) -> None:
    fleet = make(fabric, address)
    tables = asyncio.run(inspection.tables(fabric, fleet, "", entries=True))
    assert next(switch.problems for switch in tables) == ("Switch t0-0@p0 is not reachable.",)
    counters = asyncio.run(inspection.counters(fabric, fleet, ""))
    assert {switch.problem for switch in counters} == {f"Switch {s.name} is not reachable." for s in fabric.switches}


def test_drop_reason_names_match_the_p4_program() -> None:
    """By number: the enumeration in the P4 program, in its order."""
    text = HEADERS.read_text()
    body = text[text.index("enum bit<8> DropReason") :].partition("{")[2].partition("}")[0]
    members = [line.partition("=")[0].strip(" ,").lower() for line in body.splitlines() if "=" in line]
    assert len(members) == len(inspection.DROP_REASONS)
    for member, reason in zip(members, inspection.DROP_REASONS, strict=True):
        assert member.replace("_", "") == reason.replace(" ", "").lower(), (member, reason)
