"""Round-trip times of a fabric that is idle."""

import random
from itertools import permutations

import pytest

from tests.topologies.random_fabrics import random_fabric
from topologies.clos import multi_plane_clos
from topologies.loader import load_text
from topologies.round_trip import (
    ACK,
    FRAME,
    OVERHEAD,
    PathRoundTrips,
    bandwidth_delay_product,
    base_round_trip,
    serialization,
    varied,
)


def fabric(t1, rate=100_000_000_000, uplink=None):
    return multi_plane_clos("t", planes=2, t0=max(t1, 1), t1=t1, hosts=4, rate_bps=rate, uplink_rate_bps=uplink)


def test_frame_time_includes_preamble_fcs_and_gap():
    assert serialization(FRAME, 8_000_000_000) == FRAME + OVERHEAD
    assert serialization(1, 3_000_000_000) == 67  # 66.7, rounded up


def test_every_link_of_the_longest_path_counts_in_both_directions():
    line = serialization(FRAME, 10**11) + serialization(ACK, 10**11)
    assert base_round_trip(fabric(2), 1000) == 4 * (line + 2000)
    assert base_round_trip(fabric(0), 1000) == 2 * (line + 2000)
    assert base_round_trip(fabric(2)) == 4 * line


def test_the_slowest_link_rate_is_assumed_everywhere():
    assert base_round_trip(fabric(2, uplink=10**10)) == pytest.approx(10 * base_round_trip(fabric(2)), rel=0.01)


def test_the_bandwidth_delay_product_covers_all_ports_of_a_nic():
    assert bandwidth_delay_product(fabric(2), 8_000) == 2 * 10**11 * 8_000 // 8_000_000_000


def test_a_path_over_one_long_link_counts_it_once():
    text = """
    {name: two, planes: 1, pods: 2, t0: 1, t1: 1, t2: 1, hosts: 4, rate: 10G,
     links: {"t1-1:t2-*": {rate: 2500M, delay: 5ms}}}
    """
    near, far = (serialization(FRAME, rate) + serialization(ACK, rate) for rate in (10**10, 2_500_000_000))
    assert base_round_trip(load_text(text), 1000) == 2 * 5_000_000 + far + 5 * (near + 2000)


@pytest.mark.parametrize("seed", range(40))
def test_the_longest_path_is_that_of_the_farthest_hosts(seed):
    print("seed", seed)
    rng = random.Random(seed)
    fabric = random_fabric(rng, missing=False)
    while not varied(fabric):
        fabric = random_fabric(rng, missing=False)
    trips = PathRoundTrips(fabric, 700)
    assert base_round_trip(fabric, 700) == max(trips.of(*pair) for pair in permutations(fabric.nics, 2))


@pytest.mark.parametrize("seed", range(40))
def test_with_missing_links_no_pair_is_farther_than_the_longest_path(seed):
    print("seed", seed)
    rng = random.Random(seed)
    fabric = random_fabric(rng)
    trips = PathRoundTrips(fabric, 700)
    assert base_round_trip(fabric, 700) >= max(trips.of(*pair) for pair in permutations(fabric.nics, 2))
