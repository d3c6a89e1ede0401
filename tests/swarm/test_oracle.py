import pytest

from tests.simulation.worlds import small_fabric
from tests.swarm.application_faults import Mute
from tests.swarm.channel_faults import BitFlips, ClassLoss, TrafficClass
from tests.swarm.denylists import Denied, addresses
from tests.swarm.oracle import (
    has_whole_planes,
    longest_impairment,
    longest_separation,
    merge,
    most_hit,
    paths,
    shared_planes,
    silences,
    touched,
    untouched_share,
)
from tests.swarm.scenario import EVERY_PLANE, ScenarioFault
from topologies.faults.blackhole import Blackhole
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.power_off import PowerOff

FABRIC = small_fabric()  # 2 planes, 2 T0, 2 T1, h1 h2 | h3 h4


def planned(*faults):
    return [ScenarioFault(fault, start, end) for fault, start, end in faults]


def test_paths_are_counted_by_plane_and_uplink():
    assert len(paths(FABRIC, "h1", "h3")) == 4
    assert len(paths(FABRIC, "h1", "h2")) == 2
    assert all(len(ends) == 4 for _, ends in paths(FABRIC, "h1", "h3"))


@pytest.mark.parametrize(
    ("faults", "gone"),
    [
        ([], 0),
        ([(LinkDown("h1@p0"), 0, 100)], 0),
        ([(LinkDown("h1@*"), 10, 100)], 90),
        ([(LinkDown("h1@p0"), 0, 100), (LinkDown("h3@p1"), 60, 200)], 40),
        ([(LinkDown("h1@p0"), 0, 100), (LinkDown("h2@p1"), 0, 100)], 0),
        ([(PowerOff("t1-*@p*"), 0, 70)], 70),
        ([(PowerOff("t1-0@p*"), 0, 70)], 0),
        ([(Blackhole("t0-1@p*"), 0, 70)], 70),
        ([(LinkDown("h1@*", towards="h1"), 0, 50)], 50),  # nothing comes back
        ([(Flap("h1@*", 5_000, 5_000), 0, 80)], 80),
        ([(Denied(tuple(addresses(FABRIC, "h1").values())), 0, 80)], 80),
        ([(Denied(tuple(addresses(FABRIC, "h3").values())), 0, 80)], 80),  # nothing comes back
        ([(Denied((("h1", "h3", 0), ("h1", "h3", 1), ("h1", "h3", 1024))), 0, 80)], 0),
        ([(Denied(tuple(addresses(FABRIC, "h2").values())), 0, 80)], 0),
        ([(Loss("h1@*", 0.5), 0, 80)], 0),
        ([(Loss("h1@*", 1.0), 0, 80)], 80),
        ([(PathLoss(0), 0, 80), (PathLoss(1), 0, 80), (LinkDown("h3@p1"), 0, 60)], 60),
        ([(LinkDown("h1@*"), 0, 50), (LinkDown("h1@*"), 55, 100)], 100),  # too short a time to be used
        ([(LinkDown("h1@*"), 0, 50), (LinkDown("h1@*"), 80, 100)], 50),
    ],
)
def test_longest_separation_of_a_pair(faults, gone):
    assert longest_separation(FABRIC, planned(*faults), "h1", "h3", 10) == gone


@pytest.mark.parametrize(
    ("fault", "attempts", "gone"),
    [
        (Loss("*@p*", 0.3), 0, 0),
        (Loss("*@p*", 0.3), 10, 80),  # of ten packets in a row over four links none arrives in 6 % of all cases
        (Loss("*@p*", 0.3), 32, 0),
        (Loss("*@p*", 0.1), 10, 0),
        (Loss("*@p0", 0.3), 10, 0),  # there is another plane
        (ClassLoss("*@p*", TrafficClass.DATA, 0.3), 10, 80),
    ],
)
def test_a_path_is_gone_while_so_many_packets_in_a_row_may_be_lost(fault, attempts, gone):
    assert longest_separation(FABRIC, planned((fault, 0, 80)), "h1", "h3", 10, attempts) == gone


def test_longest_damage_and_touched_hosts():
    faults = planned((Loss("t0-0:t1-0@p0", 0.1), 0, 30), (LinkDown("h2@p0"), 0, 90))
    assert longest_impairment(FABRIC, faults, "h1", "h3", 0) == 30
    assert longest_impairment(FABRIC, faults, "h2", "h3", 0) == 90
    assert not touched(FABRIC, faults, "h1")
    assert touched(FABRIC, faults, "h2")
    assert longest_impairment(FABRIC, planned((BitFlips("h1@p0", 0.1), 0, 20)), "h1", "h3", 0) == 20


def test_a_silence_separates_its_own_pair_alone():
    faults = planned((Mute(1, True), 20, 50), (Mute(0, False), 0, 10), (LinkDown("h1@*"), 60, 90))
    assert silences(faults, 1) == [(20, 50)]
    assert silences(faults, 2) == []
    assert longest_separation(FABRIC, faults, "h1", "h3", 5, also=silences(faults, 1)) == 30
    assert longest_separation(FABRIC, faults, "h1", "h3", 10, also=silences(faults, 1)) == 70  # they count as one
    assert longest_impairment(FABRIC, faults, "h2", "h4", 0, silences(faults, 1)) == 30


def test_overlapping_and_near_spans_are_merged():
    assert merge([(5, 6), (0, 2), (1, 3)]) == [(0, 3), (5, 6)]
    assert merge([(5, 6), (0, 3)], 2) == [(0, 6)]


def test_paths_that_a_fault_hit_are_counted_in_the_worst_plane():
    on = small_fabric(t1=4)
    assert most_hit(on, [], "h1", "h3") == 0
    assert untouched_share(on, [], "h1", "h3") == 1
    cuts = planned((PowerOff("t1-0@p0"), 0, 400), (PowerOff("t1-[0-2]@p1"), 300, 500))
    assert most_hit(on, cuts, "h1", "h3") == 3
    assert untouched_share(on, cuts, "h1", "h3") == 0.25
    assert most_hit(on, planned((LinkDown("h1@p0"), 0, 100)), "h1", "h3") == 4


def test_nics_share_the_planes_that_both_have_a_link_to():
    assert shared_planes(small_fabric(), "h1", "h3") == [0, 1]


@pytest.mark.parametrize(
    ("masks", "gone"),
    [((0b01, 0b01), 50), ((0b10, 0b10), 0), ((0b10, 0b01), 50), ((0b01, 0b11), 50), ((0b11, 0b11), 0)],
)
def test_only_the_planes_count_on_which_an_end_sends(masks, gone):
    faults = planned((LinkDown("h1@p0"), 10, 60))
    assert longest_separation(FABRIC, faults, "h1", "h3", 10, masks=masks) == gone


def test_a_plane_that_is_cut_in_one_direction_harms_only_who_sends_there():
    faults = planned((LinkDown("h1@p0", towards="h1"), 10, 60))
    assert longest_separation(FABRIC, faults, "h1", "h3", 10, masks=(0b01, 0b10)) == 0
    assert longest_separation(FABRIC, faults, "h1", "h3", 10, masks=(0b10, 0b01)) == 50
    lossy = planned((Loss("h1@p0", 0.1, towards="h1"), 10, 60))
    assert longest_impairment(FABRIC, lossy, "h1", "h3", 10, masks=(0b01, 0b10)) == 0
    assert longest_impairment(FABRIC, lossy, "h1", "h3", 10, masks=(0b10, 0b01)) == 50


def test_whole_planes_are_those_of_the_masks():
    cuts = planned((PowerOff("t1-0@p0"), 0, 400))
    assert has_whole_planes(FABRIC, cuts, "h1", "h3", EVERY_PLANE)
    assert not has_whole_planes(FABRIC, cuts, "h1", "h3", (0b01, 0b11))
    assert most_hit(FABRIC, cuts, "h1", "h3", (0b10, 0b10)) == 0
    assert untouched_share(FABRIC, cuts, "h1", "h3", (0b10, 0b01)) == 0.5
    assert shared_planes(FABRIC, "h1", "h3", 0b10) == [1]
