import gc
import weakref

import pytest

from mrc_common.p4_match import Exact, Lpm
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from p4src import PROGRAM
from simulation.errors import SimulationError
from simulation.world import load_program
from simulation.write_entries import owner_names, write_entries
from tests.simulation.worlds import small_fabric
from topologies.entries import Member, SwitchEntries, TableAction, TableEntry, switch_entries


@pytest.fixture
def switch():
    with EmbeddedSwitch(load_program(), ports=(1, 2, 3, 4), seed=1) as made:
        yield made


def test_all_entries_of_a_switch_are_in_its_tables(switch):
    fabric = small_fabric()
    entries = switch_entries(fabric, fabric.switch("t0-1@p1"))
    write_entries(switch, entries)
    held = {table.rpartition(".")[2]: switch.control_plane.table(table).entries() for table in switch.pipeline.tables}
    for table in {entry.table for entry in entries.entries}:
        assert len(held[table]) == sum(entry.table == table for entry in entries.entries)
    for name in switch.pipeline.profiles:
        profile, short = switch.control_plane.profile(name), name.rpartition(".")[2]
        assert len(profile.members()) == sum(member.profile == short for member in entries.members) > 1
        assert profile.groups() == {group.group_id: group.members for group in entries.groups if group.profile == short}
    local = next(entry for entry in entries.entries if entry.table == "usid_local")
    (found,) = held["usid_local"]
    assert found.match == (Exact(local.match[0].value),)
    assert found.target.name.endswith(".usid_shift")


def test_action_arguments_follow_the_order_of_the_program(switch):
    action = TableAction("set_egress", (("smac", 0x0200_0000_0002), ("dmac", 0x0200_0000_0001), ("port", 3)))
    write_entries(switch, SwitchEntries("s", (), (), (TableEntry("usid_next", (Exact(5),), action),)))
    table = next(name for name in switch.pipeline.tables if name.endswith(".usid_next"))
    (entry,) = switch.control_plane.table(table).entries()
    assert isinstance(entry, Entry)
    assert isinstance(entry.target, ActionCall)
    assert entry.target.args == (3, 0x0200_0000_0001, 0x0200_0000_0002)
    assert not isinstance(entry.match[0], Lpm)


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        (SwitchEntries("s", (), (), (TableEntry("nowhere", (Exact(5),), TableAction("drop")),)), "table nowhere"),
        (SwitchEntries("s", (), (), (TableEntry("usid_next", (Exact(5),), TableAction("fly")),)), "action fly"),
        (SwitchEntries("s", (Member("nobody", 1, TableAction("set_egress")),), (), ()), "action profile nobody"),
    ],
)
def test_names_missing_from_the_program_are_reported(switch, entries, what):
    with pytest.raises(SimulationError, match=what):
        write_entries(switch, entries)


def test_a_switch_without_a_program_is_refused():
    with EmbeddedSwitch(None, ports=(1,), seed=1) as empty, pytest.raises(SimulationError, match="no program"):
        write_entries(empty, SwitchEntries("s", (), (), ()))


def test_a_program_can_be_unloaded_when_its_switches_are_gone():
    pipeline = Pipeline.load(PROGRAM.read_text("utf-8"))
    fabric = small_fabric()
    with EmbeddedSwitch(pipeline, ports=(1, 2, 3, 4), seed=1) as made:
        write_entries(made, switch_entries(fabric, fabric.switch("t0-1@p1")))
    gone = weakref.ref(pipeline)
    del made, pipeline
    gc.collect()
    assert gone() is None


def test_a_name_that_two_tables_have_means_neither_of_them():
    text = PROGRAM.read_text().replace("FabricIngress.traffic_class.traffic_class", "FabricIngress.usid_next")
    names = owner_names(Pipeline.load(text))
    assert "usid_local" in names
    assert "usid_next" not in names
