from __future__ import annotations

import numpy as np
import pytest

from mrc_host.config import TransportSettings
from mrc_lab.scale.detection import Detection
from tests.seeds import SEED

TRIP = 10_000


def detection(**settings) -> Detection:
    return Detection.of(TransportSettings(base_rtt=TRIP, **settings))


def test_a_path_of_many_packets_is_found_out_after_a_round_trip_and_the_reorder_window():
    often = np.array([1e9])  # packets a second: the next one is no wait
    (time,) = detection().time(often, often * 100, np.array([4096.0]))
    assert time == pytest.approx(TRIP * 1.25, rel=1e-3)


def test_a_path_that_is_seldom_used_is_found_out_by_its_plane():
    (time,) = detection().time(np.array([1e3]), np.array([1e9]), np.array([4096.0]))
    assert time == pytest.approx(2 * TRIP, rel=1e-3)


def test_a_wider_reorder_window_takes_longer():
    often = np.array([1e8])
    narrow, wide = (detection(reorder_fraction=part).time(often, often, np.array([4096.0])) for part in (25, 50))
    assert wide - narrow == pytest.approx(TRIP / 4, rel=1e-3)


def test_the_first_packet_is_lost_and_those_that_follow_it():
    assert Detection.packets(np.array([1e6]), np.array([10_000.0]))[0] == 10.5


@pytest.mark.parametrize("turns", [0.25, 0.75, 1.5, 4.0])
def test_losses_are_those_of_one_packet_in_each_turn_at_any_time(turns: float):
    print("seed", SEED)
    chance = np.random.default_rng(SEED)
    first = chance.random(200_000)
    later = np.arange(1, 7)[:, None] + chance.random((6, len(first)))
    lost = 1 + (later < first + turns).sum(axis=0)
    error = float(lost.std()) / np.sqrt(len(first))
    (expected,) = Detection.packets(np.array([1e6]), np.array([turns * 1000]))
    assert abs(float(lost.mean()) - expected) < 5 * error + 1e-9
