"""On which paths answers travel, and what happens when these die."""

import random

from mrc_host.transport.reverse_paths import CONFIRMED, DOUBTED, GUESSED, LOST, UNTRIED, ReversePaths
from tests.mrc_host.nic_world import MS, US

INTERVAL = 10 * MS
NOTHING: dict[int, None] = {}
LATER = 5 * MS  # than what is used was confirmed, and than the peer can have received it


def reverse_paths(planes: int = 1, paths: int = 8) -> ReversePaths:
    members = [list(range(plane * paths, (plane + 1) * paths)) for plane in range(planes)]
    return ReversePaths(random.Random(5), members, INTERVAL)


def used(back: ReversePaths, plane: int, now: int, count: int = 100) -> set[int]:
    return {back.choose(plane, NOTHING, NOTHING, now) for _ in range(count)}


def test_acks_use_any_path_until_some_are_confirmed_and_then_only_those() -> None:
    back = reverse_paths()
    assert len(used(back, 0, 0)) == 8
    for index in (2, 5):
        back.confirm(index, 0, MS)
    assert used(back, 0, 2 * MS) == {2, 5}


def test_four_paths_in_total_and_one_per_plane_are_kept_confirmed() -> None:
    for planes, each in ((1, 4), (2, 2), (4, 1), (8, 1)):
        back = reverse_paths(planes)
        for plane in range(planes):
            for step in range(6):
                back.confirm(plane * 8 + step, plane, step * MS)
            newest = {plane * 8 + step for step in range(6 - each, 6)}
            assert used(back, plane, 7 * MS) == newest, "the latest confirmed ones are kept"


def test_bad_and_denied_paths_are_used_only_without_others() -> None:
    back = reverse_paths()
    bad, denied = dict.fromkeys(range(4)), dict.fromkeys(range(4, 7))
    assert {back.choose(0, bad, denied, 0) for _ in range(50)} == {7}
    assert {back.choose(0, dict.fromkeys(range(8)), denied, 0) for _ in range(100)} <= {0, 1, 2, 3, 7}
    assert back.choose(0, bad, dict.fromkeys(range(8)), 0) == -1


def test_after_lost_acks_all_paths_in_use_are_probed_and_left() -> None:
    back = reverse_paths()
    for index in (1, 2):
        back.confirm(index, 0, 0)
    used(back, 0, MS)
    back.confirm(3, 0, 2 * MS)
    wanted = back.doubt(1, NOTHING, NOTHING, LATER)
    assert wanted == [1, 2]
    assert used(back, 0, 2 * MS) == {3}, "confirmed since it was last used"
    for number, index in enumerate(wanted):
        back.probe_sent(number, index, 0, 2 * MS)
    assert back.doubt(1, NOTHING, NOTHING, LATER)[:1] == [3]
    assert not {1, 2, 3} & used(back, 0, 2 * MS), "in doubt are all three"
    back.probe_answered(0, 3 * MS)
    back.confirm(1, 0, 3 * MS)
    assert used(back, 0, 4 * MS) == {1}


def test_untried_paths_are_probed_where_no_confirmed_one_remains() -> None:
    back = reverse_paths(2)
    back.confirm(1, 0, 0)
    used(back, 0, MS)
    wanted = back.doubt(0b01, NOTHING, NOTHING, LATER)
    assert wanted[0] == 1
    assert len(wanted) == 3
    assert all(index < 8 for index in wanted), "of usable planes only"


def test_probes_in_flight_are_bounded() -> None:
    back = reverse_paths(4, 64)
    sent = 0
    for step in range(100):
        for index in back.doubt(0b1111, NOTHING, NOTHING, LATER):
            back.probe_sent(sent, index, index // 64, step * US)
            sent += 1
    assert sent == 8
    assert sorted(back.expire(4 * INTERVAL + MS)) == list(range(8))
    assert back.planes(0b1111, 0) == 0
    back.confirm(0, 0, 5 * INTERVAL)
    assert back.planes(0b1111, 0) == 0b0001


def test_a_failed_path_is_detected_by_interval_probes_and_dropped() -> None:
    back = reverse_paths()
    for index in range(4):
        back.confirm(index, 0, 0)
    now, number = 0, 0
    dead = 2
    while dead in used(back, 0, now) and number < 100:
        now += INTERVAL
        back.expire(now)
        index = back.next_probe(1, NOTHING, NOTHING)
        back.probe_sent(number, index, 0, now)
        if index != dead:
            back.probe_answered(number, now + 20 * US)
            back.confirm(index, 0, now + 20 * US)
        number += 1
    assert number <= 8, "each of four in its turn, and the probe timeout"
    for _ in range(20):
        index = back.next_probe(1, NOTHING, NOTHING)
        if index != dead:
            back.confirm(index, 0, now)
    assert dead not in used(back, 0, now)
    assert len(used(back, 0, now)) == 4, "another has taken its place"


def test_acks_without_a_confirmed_path_each_try_another_path() -> None:
    back = reverse_paths()
    taken = []
    for number in range(8):
        taken.append(back.choose(0, NOTHING, NOTHING, number * LATER))
        back.doubt(1, NOTHING, NOTHING, (number + 1) * LATER, probed=True)
    assert len(set(taken)) == 8
    back.confirm(4, 0, 9 * LATER)
    assert used(back, 0, 9 * LATER) == {4}


def test_a_tried_path_is_not_suspected_before_the_ack_can_have_arrived() -> None:
    back = reverse_paths()
    used(back, 0, LATER)
    back.doubt(1, NOTHING, NOTHING, LATER + US, probed=True)
    assert len(used(back, 0, LATER + US)) == 8


def test_only_the_last_tried_path_of_a_plane_is_suspected() -> None:
    back = reverse_paths()
    used(back, 0, 0)
    last = back.choose(0, NOTHING, NOTHING, MS)
    assert len(back.doubt(1, NOTHING, NOTHING, LATER + MS, probed=True)) == 2, "others are probed"
    assert used(back, 0, LATER + MS) == set(range(8)) - {last}


def test_a_tried_path_confirmed_since_is_not_suspected() -> None:
    back = reverse_paths()
    tried = back.choose(0, NOTHING, NOTHING, 0)
    back.confirm(tried, 0, LATER)
    back.doubt(1, NOTHING, NOTHING, 2 * LATER, probed=True)
    assert used(back, 0, 2 * LATER) == {tried}


def test_retransmissions_are_weaker_evidence_than_probes() -> None:
    back = reverse_paths()
    back.choose(0, NOTHING, NOTHING, 0)
    back.doubt(1, NOTHING, NOTHING, LATER)
    assert used(back, 0, LATER) == set(range(8))


def test_a_working_bad_path_is_used_only_without_others() -> None:
    back = reverse_paths(planes=2)
    back.confirm(3, 0, MS, bad=True)
    assert used(back, 0, MS) == {3}
    back.confirm(9, 1, 2 * MS)
    back.confirm(10, 1, 3 * MS, bad=True)
    assert used(back, 1, 4 * MS) == {9}
    assert back.planes(0b11, bad=0b01) == 0b10
    assert back.planes(0b11, bad=0b10) == 0b11, "nothing newer is known of the other"


def test_a_recent_ack_does_not_make_its_path_suspected() -> None:
    back = reverse_paths()
    back.confirm(3, 0, 0)
    back.choose(0, NOTHING, NOTHING, LATER)
    for _ in range(3):
        assert not back.doubt(1, NOTHING, NOTHING, LATER, probed=True)
        assert back.choose(0, NOTHING, NOTHING, LATER) == 3
    assert back.doubt(1, NOTHING, NOTHING, 2 * LATER, probed=True)[0] == 3


def test_a_path_passes_through_its_states() -> None:
    back = reverse_paths(paths=1)
    states = [back.state(0)]

    def then(*_done: object) -> None:
        states.append(back.state(0))

    then(back.choose(0, NOTHING, NOTHING, 0))
    then(back.confirm(0, 0, LATER))
    then(back.choose(0, NOTHING, NOTHING, LATER), back.doubt(1, NOTHING, NOTHING, 2 * LATER))
    then(back.probe_sent(7, 0, 0, 2 * LATER), back.expire(2 * LATER + 4 * INTERVAL))
    then(back.allow(0, 0))
    then(back.choose(0, NOTHING, NOTHING, 0), back.doubt(1, NOTHING, NOTHING, LATER, probed=True))
    then(back.confirm(0, 0, LATER))
    then(back.forget(0))
    assert states == [UNTRIED, GUESSED, CONFIRMED, DOUBTED, LOST, UNTRIED, DOUBTED, CONFIRMED, UNTRIED]


def test_acks_leave_a_plane_that_lost_them_until_a_path_is_confirmed() -> None:
    """As long as there are others: swarm seed 12936."""
    back = reverse_paths(planes=3)
    back.confirm(0, 0, 0)
    back.confirm(8, 1, 0)
    assert back.planes(0b111, 0) == 0b111
    back.choose(1, NOTHING, NOTHING, 1)
    back.doubt(0b111, NOTHING, NOTHING, LATER)
    assert back.planes(0b111, 0) == 0b001, "plane 1 has lost its path and plane 2 has none"
    back.confirm(9, 1, LATER)
    assert back.planes(0b111, 0) == 0b011
    assert back.planes(0b100, 0) == 0b100, "there is no other"
