from __future__ import annotations

import numpy as np
import pytest

from mrc_lab.scale.network import Floats
from mrc_lab.scale.sharing import PlaneLinks, shared_capacity


def two_tiers(demand: Floats, up: Floats, down: Floats) -> Floats:
    """What racks of one pod carry, upwards and downwards."""
    pod = np.zeros(len(up), dtype=np.int64)
    found = shared_capacity(demand, PlaneLinks(np.array([up, down]), np.empty((2, up.shape[1], 0)), pod))
    assert found.pods.tolist() == [[0.0], [0.0]]
    return found.racks


def test_racks_with_all_uplinks_carry_what_these_do():
    up, down = two_tiers(np.full((3, 3), 13.0), np.full((3, 4), 10.0), np.full((3, 4), 10.0))
    assert up.tolist() == down.tolist() == [40.0] * 3


def test_a_rack_without_one_uplink_carries_less_and_the_others_all():
    demand = (1.0 - np.eye(4)) * 80 / 3
    demand[0] *= 7 / 8
    up = np.full((4, 8), 10.0)
    up[0, 0] = 0.0
    above, below = two_tiers(demand, up, np.full((4, 8), 10.0))
    assert above == pytest.approx([70, 80, 80, 80], rel=2e-3)
    assert below == pytest.approx([80] * 4, rel=2e-3)  # others leave the fuller downlinks to those from rack 0


def test_others_leave_the_fuller_downlinks_to_those_that_have_no_choice():
    demand = np.array([[0.0, 0.0, 20.0], [0.0, 0.0, 20.0], [0.0, 0.0, 0.0]])
    up = np.array([[10.0, 10.0, 0.0, 0.0], [10.0] * 4, [10.0] * 4])
    above, below = two_tiers(demand, up, np.full((3, 4), 10.0))
    assert above[:2] == pytest.approx([20, 40], rel=2e-3)  # of which it is asked for 20, over the two other T1s
    assert below[2] == pytest.approx(40, rel=2e-2)  # weights only approach 0


def test_racks_that_share_one_t1_alone_carry_no_more_than_its_uplinks():
    up = np.array([[10.0, 10.0, 0.0], [0.0, 10.0, 10.0]])
    above, below = two_tiers(np.array([[0.0, 20.0], [0.0, 0.0]]), up, up)
    assert above[0] == pytest.approx(10.0)
    assert below[1] == pytest.approx(10.0)


POD = np.array([0, 0, 1, 1])  # two racks in each of two pods, each with two T1s of two T2s


def three_tiers(demand: Floats, of_racks: Floats, of_t1s: Floats) -> tuple[Floats, Floats]:
    """What racks and pods carry upwards."""
    found = shared_capacity(demand, PlaneLinks(of_racks, of_t1s, POD))
    return found.racks[0], found.pods[0]


def between_pods(each: float) -> Floats:
    """The same from each rack to those of the other pod."""
    return each * (POD[:, None] != POD[None]).astype(float)


def test_pods_with_all_links_carry_what_these_do():
    racks, pods = three_tiers(between_pods(20.0), np.full((2, 4, 2), 20.0), np.full((2, 4, 2), 10.0))
    assert racks.tolist() == [40.0] * 4
    assert pods.tolist() == [40.0] * 2


def test_a_pod_without_one_link_to_a_t2_carries_less_and_the_other_all():
    above = np.full((2, 4, 2), 10.0)
    above[0, 0, 0] = 0.0  # upwards, of T1 0 of pod 0, so that this T2 has 10 less for pod 1
    demand = between_pods(20.0)
    demand[:2] *= 3 / 8  # 30 of 40
    racks, pods = three_tiers(demand, np.full((2, 4, 2), 20.0), above)
    assert pods == pytest.approx([30, 40], rel=2e-3)
    assert racks == pytest.approx([40] * 4)


def test_traffic_within_pods_leaves_uplinks_to_that_over_t2s_that_has_fewer():
    above = np.full((2, 4, 2), 10.0)
    above[:, [0, 2], :] = 0.0  # over T1s of number 1 alone
    demand = between_pods(5.0) + 20.0 * np.array([[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    racks, pods = three_tiers(demand, np.full((2, 4, 2), 15.0), above)
    assert racks[0] == pytest.approx(30, rel=2e-3)  # 10 between pods over one uplink, 20 over both
    assert pods == pytest.approx([20, 20], rel=2e-3)


def test_a_rack_without_the_uplinks_that_lead_to_t2s_sends_nothing_to_other_pods():
    below = np.full((2, 4, 2), 20.0)
    below[0, 0, 1] = 0.0
    above = np.full((2, 4, 2), 10.0)
    above[:, [0, 2], :] = 0.0
    demand = between_pods(5.0)
    demand[0] = 0.0
    racks, pods = three_tiers(demand, below, above)
    assert racks[1] == pytest.approx(40)
    assert pods[0] == pytest.approx(20)
