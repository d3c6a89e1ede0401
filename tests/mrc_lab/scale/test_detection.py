from __future__ import annotations

import numpy as np
import pytest

from mrc_host.config import TransportSettings
from mrc_lab.scale.detection import Detection, Sending, first_use
from tests.seeds import SEED

TRIP = 10_000


def detection(**settings) -> Detection:
    return Detection.of(TransportSettings(base_rtt=TRIP, **settings))


def rates(per_path: float, per_stream: float, trip: int = TRIP, silent: bool = False) -> Sending:
    each = (np.array([value]) for value in (per_path, per_stream, 4096.0, trip, silent))
    return Sending(*each)


def test_a_path_of_many_packets_is_found_out_after_a_round_trip_and_the_reorder_window():
    (time,) = detection().time(rates(1e9, 1e11))  # the next packet is no wait
    assert time == pytest.approx(TRIP * 1.25, rel=1e-3)


def test_a_path_that_is_not_used_again_is_found_out_by_its_plane():
    (time,) = detection().time(rates(1e3, 1e9))
    assert time == pytest.approx(TRIP * 1.25, rel=1e-3)
    assert detection().packets(rates(1e3, 1e9)) == pytest.approx(1, abs=1e-3)


def test_a_packet_that_follows_delays_it_by_up_to_a_round_trip():
    (time,) = detection().time(rates(1.3e5, 1e9))  # within a round trip and a half at most
    assert 1.8 * TRIP < time < 2 * TRIP


def test_a_wider_reorder_window_takes_longer():
    narrow, wide = (detection(reorder_fraction=part).time(rates(1e8, 1e8)) for part in (25, 50))
    assert wide - narrow == pytest.approx(TRIP / 4, rel=1e-2)


def test_a_longer_way_takes_longer():
    (near,), (far,) = (detection().time(rates(1e9, 1e11, trip)) for trip in (TRIP, 2 * TRIP))
    assert far == pytest.approx(2 * near, rel=1e-3)


def test_a_plane_without_any_path_is_silent_after_two_more_round_trips():
    assert detection().time(rates(1e7, 1e11, silent=True)) == pytest.approx(3 * TRIP, rel=1e-3)
    assert detection().packets(rates(1e6, 1e11, silent=True)) == pytest.approx(30.5, rel=1e-2)


def test_a_stream_without_packets_has_finite_times():
    assert np.isfinite(detection().time(rates(0, 0))).all()
    assert detection().packets(rates(0, 0)) == [1]


@pytest.mark.parametrize("turn", [TRIP / 8, TRIP / 2, TRIP, 1.5 * TRIP, 2 * TRIP, 5 * TRIP])
@pytest.mark.parametrize("wait", [0.1, 0.5])  # for the next SACK, of a round trip
def test_losses_are_those_of_one_packet_in_each_turn_at_any_time(turn: float, wait: float):
    print("seed", SEED)
    chance = np.random.default_rng(SEED)
    first = chance.random(100_000)
    sent = (np.arange(1, 20)[:, None] + chance.random((19, len(first))) - first) * turn  # after the first one lost
    window, known = TRIP / 4, TRIP * (1 + wait)
    unused = sent[0] > known + window
    lasts = known + np.where(unused, window, np.minimum(sent[0] + window, TRIP))
    lost = 1 + (sent < lasts).sum(axis=0)
    sending = rates(1e9 / turn, 1e9 * 8 / (2 * wait * TRIP))  # eight packets have an answer
    assert detection().time(sending) == pytest.approx([lasts.mean()], rel=0.01)
    assert detection().packets(sending) == pytest.approx([lost.mean()], rel=0.04)


def test_a_path_is_used_first_after_the_mean_residual_time():
    print("seed", SEED)
    sent = np.arange(100_000) + np.random.default_rng(SEED).random(100_000)
    gaps = np.diff(sent)
    assert first_use(np.array([1e9]))[0] == pytest.approx((gaps**2).mean() / (2 * gaps.mean()), rel=0.02)
