"""Round-trip times of a fabric that is idle."""

import pytest

from topologies.clos import multi_plane_clos
from topologies.round_trip import ACK, FRAME, OVERHEAD, bandwidth_delay_product, base_round_trip, serialization


def fabric(t1, rate=100_000_000_000, uplink=None):
    return multi_plane_clos("t", planes=2, t0=max(t1, 1), t1=t1, hosts=4, rate_bps=rate, uplink_rate_bps=uplink)


def test_a_frame_takes_its_bits_and_what_stands_around_it():
    assert serialization(FRAME, 8_000_000_000) == FRAME + OVERHEAD
    assert serialization(1, 3_000_000_000) == 67  # 66.7, rounded up


def test_every_line_of_the_longest_path_counts_both_ways():
    line = serialization(FRAME, 10**11) + serialization(ACK, 10**11)
    assert base_round_trip(fabric(2), 1000) == 4 * (line + 2000)
    assert base_round_trip(fabric(0), 1000) == 2 * (line + 2000)
    assert base_round_trip(fabric(2)) == 4 * line


def test_the_slowest_line_is_assumed_everywhere():
    assert base_round_trip(fabric(2, uplink=10**10)) == pytest.approx(10 * base_round_trip(fabric(2)), rel=0.01)


def test_the_bandwidth_delay_product_is_what_all_ports_of_a_nic_carry():
    assert bandwidth_delay_product(fabric(2), 8_000) == 2 * 10**11 * 8_000 // 8_000_000_000
