from __future__ import annotations

import numpy as np
import pytest

from mrc_lab.scale.sharing import shared_capacity


def test_racks_with_all_uplinks_carry_what_these_do():
    up, down = shared_capacity(np.full((3, 3), 13.0), np.full((3, 4), 10.0), np.full((3, 4), 10.0))
    assert up.tolist() == down.tolist() == [40.0] * 3


def test_a_rack_without_one_uplink_carries_less_and_the_others_all():
    demand = (1.0 - np.eye(4)) * 80 / 3
    demand[0] *= 7 / 8
    up = np.full((4, 8), 10.0)
    up[0, 0] = 0.0
    above, below = shared_capacity(demand, up, np.full((4, 8), 10.0))
    assert above == pytest.approx([70, 80, 80, 80], rel=2e-3)
    assert below == pytest.approx([80] * 4, rel=2e-3)  # others leave the fuller downlinks to those from rack 0


def test_others_leave_the_fuller_downlinks_to_those_that_have_no_choice():
    demand = np.array([[0.0, 0.0, 20.0], [0.0, 0.0, 20.0], [0.0, 0.0, 0.0]])
    up = np.array([[10.0, 10.0, 0.0, 0.0], [10.0] * 4, [10.0] * 4])
    above, below = shared_capacity(demand, up, np.full((3, 4), 10.0))
    assert above[:2] == pytest.approx([20, 40], rel=2e-3)  # of which it is asked for 20, over the two other T1s
    assert below[2] == pytest.approx(40, rel=2e-2)  # weights only approach 0


def test_racks_that_share_one_t1_alone_carry_no_more_than_its_uplinks():
    up = np.array([[10.0, 10.0, 0.0], [0.0, 10.0, 10.0]])
    above, below = shared_capacity(np.array([[0.0, 20.0], [0.0, 0.0]]), up, up)
    assert above[0] == pytest.approx(10.0)
    assert below[1] == pytest.approx(10.0)
