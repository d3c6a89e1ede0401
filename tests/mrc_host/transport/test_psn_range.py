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
def test_the_psn_range_covers_three_bdp_within_field_and_documented_minimum(bdp, path_mtu, mpr):
    assert mpr_for(bdp, path_mtu) == mpr


def test_the_psn_range_counts_from_the_cumulative_psn():
    assert range_bytes(8, 4096) == 1023 * 4096
