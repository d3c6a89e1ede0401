"""The range of PSNs for a bandwidth-delay product."""

import pytest

from mrc_host.transport.psn_range import mpr_for, range_bytes


@pytest.mark.parametrize(
    ("bdp", "path_mtu", "mpr"),
    [
        (0, 4096, 8),
        (8 * 128 * 4096 // 3, 4096, 8),
        (8 * 128 * 4096 // 3 + 1, 4096, 9),
        (8 * 128 * 4096 // 3 + 1, 8192, 8),
        (8 * 128 * 4096 // 3, 1024, 32),
        (254 * 128 * 4096 // 3 + 1, 4096, 255),
        (1 << 40, 4096, 255),
    ],
)
def test_three_products_fit_in_as_far_as_the_field_goes_and_never_less_than_the_documented_range(bdp, path_mtu, mpr):
    assert mpr_for(bdp, path_mtu) == mpr


def test_the_range_counts_packets_beyond_the_cumulative_one():
    assert range_bytes(8, 4096) == 1023 * 4096
