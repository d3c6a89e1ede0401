from __future__ import annotations

import random

import finsy
import pytest

from mrc_common.p4_match import Exact, Ternary
from p4src import P4INFO
from tests.seeds import SEED
from tests.topologies.entries_of_faults import entries_of, tables_of
from topologies import addressing, fault_targets, paths
from topologies.clos import multi_plane_clos
from topologies.entries import TableAction, TableEntry
from topologies.errors import FabricError
from topologies.fault_entries import (
    ALWAYS,
    MAX_LOSSY_PATHS,
    DataPlaneFault,
    FaultTables,
    fault_entries,
    ppb,
)
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss

FABRIC = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)
PORT, WHOLE = 0x1FF, (1 << 128) - 1


def impair(loss: int = 0, corruption: int = 0) -> TableAction:
    return TableAction("impair", (("loss_ppb", loss), ("corrupt_ppb", corruption)))


def test_a_lossy_switch_link_gets_entries_at_both_receiving_ends() -> None:
    assert entries_of(FABRIC, [Loss("t0-1:t1-0@p1", 7e-9)]) == {
        "t0-1@p1": (TableEntry("arrival_fault", (Ternary(3, PORT),), impair(7), 1),),
        "t1-0@p1": (TableEntry("arrival_fault", (Ternary(2, PORT),), impair(7), 1),),
    }


def test_loss_towards_a_nic_is_a_departure_entry_of_its_switch() -> None:
    assert entries_of(FABRIC, [Corruption("h2@p0", 5e-9)]) == {
        "t0-0@p0": (
            TableEntry("arrival_fault", (Ternary(2, PORT),), impair(corruption=5), 1),
            TableEntry("departure_fault", (Exact(2),), impair(corruption=5)),
        ),
    }


@pytest.mark.parametrize(("towards", "table"), [("h2", "departure_fault"), ("t0-*", "arrival_fault")])
def test_a_one_directional_fault_has_one_entry(towards: str, table: str) -> None:
    ((switch, (entry,)),) = entries_of(FABRIC, [Loss("h2@p0", 5e-9, towards)]).items()
    assert (switch, entry.table) == ("t0-0@p0", table)


def test_faults_on_one_port_combine_into_one_entry() -> None:
    faults = [
        Loss("h1@p0", 0.5, "h1"),
        Loss("h*@p0", 0.5, "h1"),
        Corruption("h1@p0", 1.0, "h1"),
    ]
    assert entries_of(FABRIC, faults) == {
        "t0-0@p0": (TableEntry("departure_fault", (Exact(1),), impair(ALWAYS * 3 // 4, ALWAYS)),)
    }


def test_a_blackhole_entry_has_priority_over_port_entries() -> None:
    entries = entries_of(FABRIC, [Loss("t0-0:t1-0@p0", 1e-9), Blackhole("t1-0@p*")])
    assert set(entries) == {"t0-0@p0", "t1-0@p0", "t1-0@p1"}
    silent, loss = sorted(entries["t1-0@p0"], key=lambda entry: -entry.priority)
    assert silent == TableEntry("arrival_fault", (Ternary(0, 0),), TableAction("blackhole"), 2)
    assert loss.priority < silent.priority


def test_path_loss_matches_the_usid_list_at_the_senders_t0() -> None:
    source, target = FABRIC.nic("h1"), FABRIC.nic("h4")
    ev = addressing.entropy_value(1, 1)
    route = paths.destination(FABRIC, source, target)
    ((switch, (entry,)),) = entries_of(FABRIC, [PathLoss(ev, 3e-9, "h1", "h4")]).items()
    assert switch == "t0-0@p1"
    address = int.from_bytes(route.template.address(ev), "big")
    sender = int(addressing.nic_address(FABRIC, source))
    assert entry.match == (Ternary(address, WHOLE), Ternary(sender, WHOLE))
    assert entry.target == TableAction("lossy_path", (("loss_ppb", 3),))


def test_path_loss_of_all_senders_has_one_entry_per_usid_list() -> None:
    entries = entries_of(FABRIC, [PathLoss(addressing.entropy_value(0, 1))])
    assert set(entries) == {"t0-0@p0", "t0-1@p0"}
    for found in entries.values():
        assert len(found) == 2  # the NICs below the other T0
        assert all(entry.match[1] == Ternary(0, 0) for entry in found)


def test_loss_of_one_sender_is_combined_with_loss_of_all_senders() -> None:
    ev = addressing.entropy_value(0, 1)
    faults = [PathLoss(ev, 0.5), PathLoss(ev, 0.5, "h1", "h4")]
    entries = entries_of(FABRIC, faults)["t0-0@p0"]
    own = max(entries, key=lambda entry: entry.priority)
    assert own.target == TableAction("lossy_path", (("loss_ppb", ALWAYS * 3 // 4),))
    assert sum(entry.priority == own.priority for entry in entries) == 1
    assert len({entry.match for entry in entries}) == len(entries) == 3


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Loss("h9@p0", 0.5), "no link that matches"),
        (Loss("h1@p0", 0.5, "t1-*"), "leads to a node that matches"),
        (Blackhole("t2-0@p0"), "no switch that matches"),
        (PathLoss(2), "has entropy value 0x2"),
        (PathLoss(0, source="h5"), "no NIC that matches 'h5'"),
    ],
)
def test_unknown_names_are_refused(fault: Fault, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        entries_of(FABRIC, [fault])


def test_that_planes_and_uplinks_do_not_name_paths_over_t2s_is_said_where_there_are_any() -> None:
    tiers = multi_plane_clos(planes=2, t0=1, t1=2, hosts=2, pods=2, t2=2)
    for fabric, said in ((FABRIC, False), (tiers, True)):
        text = PathLoss(0x7777, source="h1", destination="h4").without_path(fabric)
        assert "from h1 to h4" in text
        assert "0x7777" in text
        assert ("over T2s are not named by plane and uplink" in text) == said


def test_probabilities_are_encoded_in_parts_per_billion() -> None:
    assert [ppb(0), ppb(1), ppb(1e-9), ppb(0.001)] == [0, ALWAYS, 1, 1_000_000]
    with pytest.raises(FabricError, match=r"between 0 and 1, not -0\.1"):
        ppb(-0.1)


def test_incrementally_updated_entries_equal_those_computed_afresh() -> None:
    seed = SEED
    print("seed", seed)
    chance, tables = random.Random(seed), FaultTables()
    kinds = [
        Loss("*", 7e-9), Corruption("h*@p0", 1 / 3), Loss("t0-*:t1-0@p1", 0.5),
        Loss("h1@p0", 1.0, "h1"), Blackhole("t1-*@p0"), PathLoss(0x1), PathLoss(0x1, 0.5, "h1"),
    ]  # fmt: skip
    too_many = DataPlaneFault(paths=tuple(("t0-0@p0", address, None) for address in range(MAX_LOSSY_PATHS + 1)))
    there: list[DataPlaneFault] = []
    for _ in range(200):
        if chance.random() < 0.02:
            with pytest.raises(FabricError):
                tables.entries([*there, too_many])
        elif there and chance.random() < 0.45:
            there.pop(chance.randrange(len(there)))
        else:
            there.append(tables_of(FABRIC, chance.choice(kinds)))
        assert tables.entries(there) == fault_entries(there)


def test_a_probability_below_one_part_per_billion_is_refused() -> None:
    assert ppb(1e-9) == 1
    assert ppb(0) == 0
    with pytest.raises(FabricError, match="no probability below one in a billion, and 1e-10 is less"):
        ppb(1e-10)


def test_path_loss_below_one_t0_matches_the_sender() -> None:
    fault = PathLoss(0, destination="h4")
    (h2, h4) = (FABRIC.nic(name) for name in ("h2", "h4"))
    last_hop = int.from_bytes(paths.destination(FABRIC, FABRIC.nic("h3"), h4).template.address(0), "big")
    senders = {entry.match[1] for entry in entries_of(FABRIC, [fault])["t0-1@p0"] if entry.match[0].value == last_hop}
    assert senders == {Ternary(int(addressing.nic_address(FABRIC, FABRIC.nic("h3"))), WHOLE)}
    across = int.from_bytes(paths.destination(FABRIC, h2, h4).template.address(0), "big")
    (entry,) = entries_of(FABRIC, [fault])["t0-0@p0"]
    assert entry.match == (Ternary(across, WHOLE), Ternary(0, 0))


def test_path_loss_entries_fit_the_p4_table() -> None:
    assert finsy.P4Schema(P4INFO).tables["path_fault"].size == MAX_LOSSY_PATHS


def test_more_lossy_paths_than_a_t0_holds_are_refused() -> None:
    """Below one T0 of 33 NICs there are 33 x 32 pairs that have entries of their own: 32 too many."""
    fabric = multi_plane_clos(planes=1, t0=1, t1=1, hosts=33)
    with pytest.raises(FabricError, match=r"take 1056 entries of table path_fault of t0-0@p0, which has 1024"):
        PathLoss(0).effect(fabric)
    tables, below = FaultTables(), [tables_of(fabric, PathLoss(0, source=f"h{number}")) for number in range(1, 33)]
    assert len(tables.entries(below)["t0-0@p0"]) == 1024
    with pytest.raises(FabricError, match="take 1025 entries"):
        tables.entries([*below, tables_of(fabric, PathLoss(0, source="h33", destination="h1"))])
    assert len(tables.entries(below)["t0-0@p0"]) == 1024, "what was refused is forgotten"


# Kernel switches

MIXED = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4, kernel_switches=["t1-0@p0", "t0-1@p0"])


def test_what_goes_to_a_kernel_switch_is_lost_where_a_p4_switch_sends_it() -> None:
    assert entries_of(MIXED, [Loss("t0-0:t1-0@p0", 7e-9)]) == {
        "t0-0@p0": (
            TableEntry("arrival_fault", (Ternary(3, PORT),), impair(7), 1),
            TableEntry("departure_fault", (Exact(3),), impair(7)),
        ),
    }


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (Loss("h3@p0", 7e-9), "from h3 to t0-1@p0 has no end at a P4 switch"),
        (Loss("h3@p0", 7e-9, "h3"), "from t0-1@p0 to h3 has no end at a P4 switch"),
        (Loss("t0-1:t1-0@p0", 7e-9), "has no end at a P4 switch"),
        (Blackhole("t1-*@p0"), "switch t1-0@p0 is the kernel's"),
        (PathLoss(0, 0.5, "h3", "h1"), "switch t0-1@p0 is the kernel's"),
    ],
)
def test_faults_that_a_kernel_switch_would_have_to_make_are_refused(fault: Fault, problem: str) -> None:
    with pytest.raises(FabricError, match=problem):
        entries_of(MIXED, [fault])


def test_delays_are_made_at_the_other_end() -> None:
    link = MIXED.link("t0-0:t1-0@p0")
    assert fault_targets.delaying_end(MIXED, link.lower) == link.lower
    assert fault_targets.delaying_end(MIXED, link.upper) == link.lower
    assert fault_targets.delaying_end(MIXED, MIXED.link("h1@p0").lower) == MIXED.link("h1@p0").upper
    assert fault_targets.delaying_end(MIXED, MIXED.link("h3@p0").lower) is None
