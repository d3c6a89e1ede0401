"""Tables and counters of one switch in words, read from a switch over P4Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import finsy
import pytest

import p4src
from controller import translate
from controller.errors import ControllerError
from controller.switch_reader import SwitchReader, table_names
from p4src import P4INFO
from tests.controller.p4runtime_stand_in import StandIn, key
from topologies.entries import switch_entries
from topologies.fabric import Fabric, Switch


@pytest.fixture
def switch(fabric: Fabric, stand_in: StandIn, serving: Callable[[], None]) -> Switch:
    """A T0 that holds what it should."""
    switch = fabric.switch("t0-0@p0")
    schema = finsy.P4Schema(P4INFO)
    wanted = switch_entries(fabric, switch)
    for entry in (*wanted.members, *wanted.groups, *wanted.entries):
        entity = translate.encode(entry, schema).encode(schema)
        stand_in.devices[switch.device_id].entities[key(entity)] = entity
    serving()
    return switch


def test_entries_use_the_names_of_the_p4_program(fabric: Fabric, switch: Switch, address: str) -> None:
    with SwitchReader(switch.name, address, switch.device_id, p4src.BUILD) as reader:
        local = reader.table("usid_next")
        route = reader.table("ipv6_route")
        empty = reader.table("arrival_fault")
    assert (local.name, local.entries, local.counted) == ("usid_next", fabric.t1_count + len(fabric.nics_of(0)), True)
    rows = {row.match: row.action for row in local.rows}
    assert rows["locator=0xfc0000006000"] == "set_egress(port=1, dmac=02:30:00:00:00:00, smac=02:10:00:00:00:01)"
    towards = {row.match: row.action for row in route.rows}
    assert towards["dst=fd00:6d:7263::1/128"].startswith("set_egress(port=1, dmac=02:30:")
    across = next(action for match, action in towards.items() if match.endswith("1::/64"))
    assert across.startswith("one of set_egress(port=")
    assert across.count("set_egress") == fabric.t1_count
    assert empty.entries == 0


def test_every_table_of_the_program_can_be_read(switch: Switch, address: str) -> None:
    with SwitchReader(switch.name, address, switch.device_id, p4src.BUILD) as reader:
        assert {reader.table(name).name for name in reader.table_names} == set(table_names(p4src.BUILD))


def test_an_unreachable_switch_is_reported(tmp_path: Path) -> None:
    with SwitchReader("t0-0@p0", f"unix:{tmp_path}/nobody.sock", 1, p4src.BUILD) as reader:
        with pytest.raises(ControllerError, match="Switch t0-0@p0 does not answer"):
            reader.table("usid_next")
        with pytest.raises(ControllerError, match="does not answer"):
            reader.counter("drop_reasons")


def test_a_refused_read_is_reported(switch: Switch, address: str) -> None:
    refused = pytest.raises(ControllerError, match="refused to be read")
    with SwitchReader(switch.name, address, 4711, p4src.BUILD) as reader, refused:
        reader.table("usid_next")
