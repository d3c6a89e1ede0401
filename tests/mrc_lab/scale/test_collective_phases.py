"""Streams, groups and phases of collectives, on three racks of two NICs."""

from __future__ import annotations

import numpy as np
import pytest

from mrc_lab.experiments.files.fabric_part import FabricPart, build_fabric
from mrc_lab.scale.collective_phases import rank_streams
from mrc_lab.scale.latency import Latency
from mrc_lab.scale.network import Network

NETWORK = Network.of(build_fabric(FabricPart(planes=2, t0=3, t1=2, hosts=6)))
LATENCY = Latency((1000, 5000, 0), (1800, 8000, 0))  # below one T0, and to another rack
RANKS = np.arange(6)


def test_a_flat_ring_is_one_group_and_one_phase() -> None:
    found = rank_streams("all_reduce", RANKS, 1, NETWORK, LATENCY)
    assert found.pairs == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))
    assert set(found.groups) == {0}
    (phase,) = found.phases
    assert (phase.first, phase.last, phase.ranks, phase.farthest) == (0, 6, 6, 5000)
    assert (phase.arrival, phase.way_and_back) == (3000.0, 8000)  # every second stream stays in its rack


@pytest.mark.parametrize(("operation", "streams"), [("all_to_all", 30), ("send_receive", 6)])
def test_streams_that_pass_nothing_on_have_rates_of_their_own(operation: str, streams: int) -> None:
    found = rank_streams(operation, RANKS, 1, NETWORK, LATENCY)
    assert len(set(found.groups)) == len(found.pairs) == streams


def test_two_levels_are_rings_in_the_racks_and_rings_between_them() -> None:
    found = rank_streams("all_reduce", RANKS, 3, NETWORK, LATENCY)
    assert found.pairs[:6] == ((0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4))
    assert found.pairs[6:] == ((0, 2), (2, 4), (4, 0), (1, 3), (3, 5), (5, 1))
    assert found.groups == (0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4)
    assert [(one.operation, one.first, one.last, one.ranks) for one in found.phases] == [
        ("reduce_scatter", 0, 6, 2), ("all_reduce", 6, 12, 3), ("all_gather", 0, 6, 2),
    ]  # fmt: skip
    assert [one.farthest for one in found.phases] == [1000, 5000, 1000]


@pytest.mark.parametrize("clusters", [1, 2, 3, 6])
def test_a_rank_sends_each_byte_as_often_in_two_levels_as_in_one(clusters: int) -> None:
    """Twice (N - 1) / N of all bytes: S - 1 of S, then twice (C - 1) / C of one in S, then S - 1 of S again."""
    found = rank_streams("all_reduce", RANKS, clusters, NETWORK, LATENCY)
    sent = sum(one.passing(6000 * 8, 8, 1, 1 << 16, 8).size for one in found.phases)
    assert sent == 2 * 5 * 8000


def test_clusters_of_one_rank_have_no_rings_inside() -> None:
    found = rank_streams("all_reduce", RANKS, 6, NETWORK, LATENCY)
    assert [one.operation for one in found.phases] == ["all_reduce"]
    assert len(found.pairs) == 6
