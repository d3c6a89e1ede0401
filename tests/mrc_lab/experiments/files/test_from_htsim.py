"""The experiment that a connection matrix and a topology of htsim make."""

from __future__ import annotations

import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.from_htsim import default_tree, load_matrix
from mrc_lab.workloads.htsim.topology import parse_topology
from topologies.parts import LinkKind

MATRIX = "Nodes 16\nConnections 2\n0->5 start 0 size 1000\n1->15 start 5000000 size 3000000\n"
TOPOLOGY = """Nodes 16
Tiers 3
Podsize 8
Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 4
Downlink_Latency_ns 1000
Switch_Latency_ns 500
Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 1
Downlink_Latency_ns 700
Switch_Latency_ns 500
Tier 2
Downlink_speed_Gbps 200
Radix_Down 2
Downlink_Latency_ns 5000
Switch_Latency_ns 500
"""


def load(folder, matrix=MATRIX, topology=None):
    (folder / "x.cm").write_text(matrix)
    if topology is not None:
        (folder / "x.topo").write_text(topology)
    return load_matrix(folder / "x.cm", None)


def test_a_matrix_alone_runs_on_a_fabric_for_its_nodes(tmp_path):
    experiment = load(tmp_path)
    part = experiment.cases[0].fabric
    assert (part.hosts, part.t0, part.t1, part.planes, part.rate_bps, part.delay) == (16, 4, 4, 1, 100 * 10**9, 1000)
    assert "on the default fabric" in experiment.about


@pytest.mark.parametrize("nodes", [2, 3, 7, 16, 100, 128, 1000, 1024, 8192, 60000])
def test_the_default_fabric_has_room_for_all_nodes_and_is_not_oversubscribed(nodes):
    tree = default_tree(nodes)
    assert parse_topology(tree.text(), "x") == tree
    assert nodes <= tree.nodes < nodes + tree.tiers[0].down
    assert tree.tiers[0].down == tree.t1_per_pod
    assert tree.t0_per_pod <= 1024


def test_of_128_nodes_it_is_the_fabric_that_htsim_makes_of_two_tiers():
    tree = default_tree(128)  # K = 16: K ToRs of K/2 hosts, and K/2 spines
    assert (tree.t0_per_pod, tree.t1_per_pod, tree.tiers[0].down) == (16, 8, 8)


def test_a_topology_beside_it_gives_fabric_latencies_and_rates(tmp_path):
    experiment = load(tmp_path, topology=TOPOLOGY)
    case = experiment.cases[0]
    fabric = build_fabric(case.fabric)
    assert (fabric.pods, fabric.t1_per_pod, fabric.t2_count, len(fabric.nics)) == (2, 4, 4, 16)
    assert case.timing.switch == 500
    links = {(link.kind, link.rate_bps // 10**9, link.delay_ns) for link in fabric.links}
    expected = {(LinkKind.NIC_T0, 100, None), (LinkKind.T0_T1, 100, 700), (LinkKind.T1_T2, 200, 5000)}
    assert links == expected
    assert case.fabric.delay == 1000


def test_failures_become_faults_at_the_links_that_htsim_means(tmp_path):
    failing = MATRIX.replace("2\n0", "2\nFailures 2\n0")
    failing += "failure switch_type AGG switch_id 1 link_id 1\nfailure switch_type AGG switch_id 4 link_id 0\n"
    four = TOPOLOGY.replace("Radix_Up 1\n", "Radix_Up 4\n").replace("speed_Gbps 200", "speed_Gbps 50")
    case = load(tmp_path, failing, four).cases[0]
    # htsim fails AGG 1's link to core 1 * 4 + 1: with n = 4 AGGs a pod, uplink (5 - 1) / 4 = 1. AGG 4 is the first of
    # the second pod, whose link to core 0 is uplink 0.
    assert [fault.fault.link for fault in case.faults] == ["t1-1:t2-5@p0", "t1-4:t2-0@p0"]


@pytest.mark.parametrize(
    ("matrix", "topology", "message"),
    [
        (MATRIX.replace("16", "20"), TOPOLOGY, "x.cm has 20 nodes, but .*x.topo has 16"),
        (MATRIX, TOPOLOGY.replace("500", "400", 1), "Switch_Latency_ns differs between tiers"),
        (MATRIX, TOPOLOGY.replace("Tiers 3", "Tiers x"), "x.topo, line 2: Tiers is a whole number"),
        ("Nodes 16\nConnections 2\n", None, "x.cm, line 2: Connections is 2, but the file has 0"),
        (
            MATRIX.replace("2\n0", "2\nFailures 1\n0") + "failure switch_type AGG switch_id 0 link_id 0",
            None,
            "x.cm, line 6: htsim fails links from T1s to T2s only",
        ),
        (
            MATRIX.replace("2\n0", "2\nFailures 1\n0") + "failure switch_type AGG switch_id 9 link_id 0",
            TOPOLOGY,
            "x.cm, line 6: there are 8 AGG switches with 1 uplinks each",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, matrix, topology, message):
    with pytest.raises(FileError, match=message) as refused:
        load(tmp_path, matrix, topology)
    assert "\n" not in str(refused.value)


def test_a_name_that_is_none_of_an_experiment_is_changed(tmp_path):
    place = tmp_path / "a matrix (1).cm"
    place.write_text(MATRIX)
    assert load_matrix(place, None).name == "a-matrix-1-"
