from __future__ import annotations

import pytest

from mrc_lab.scale.ring_times import Passing, passing_steps

RATE = 100e9
CHUNK = 65_536


def test_segments_that_fill_the_line_go_at_its_rate():
    passing = Passing(30, 64 * CHUNK, CHUNK, 64, arrival=6_000, way_and_back=11_000)
    assert passing.most(RATE) == RATE


def test_a_segment_of_one_chunk_waits_for_each_of_them():
    passing = Passing(30, CHUNK, CHUNK, 64, arrival=6_000, way_and_back=11_000)
    on_line = CHUNK * 8e9 / RATE
    whole = 29 * (on_line + 6_000) + on_line
    assert passing.size * 8e9 / passing.most(RATE) == pytest.approx(whole)


def test_few_slots_slow_a_stream_down():
    passing = Passing(30, 64 * CHUNK, CHUNK, 2, arrival=6_000, way_and_back=11_000)
    turn = CHUNK * 8e9 / RATE + 11_000
    assert passing.most(RATE) == pytest.approx(2 * CHUNK * 8e9 / turn)


@pytest.mark.parametrize(
    ("operation", "steps"), [("all_reduce", 14), ("all_gather", 7), ("reduce_scatter", 7), ("send_receive", 1)]
)
def test_steps_of_eight_ranks(operation, steps):
    assert passing_steps(operation, 8) == steps
