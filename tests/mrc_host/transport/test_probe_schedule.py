from mrc_host.config import PathTimers
from mrc_host.transport.probe_schedule import FlapDamping, ProbeSchedule

TIMERS = PathTimers(tail_probe_min=100, probe_interval=1000, probe_timeout=300, reverse_probe_interval=100)


def test_enough_answers_in_a_row_restore_the_path():
    probing = ProbeSchedule(TIMERS, 3, 0)
    due = []
    for now in (1000, 2000, 3000):
        assert probing.probed(now) == now + 300
        due.append(probing.answered(now + 50))
    assert due == [2000, 3000, 0]
    assert not probing.died


def test_a_lost_probe_restarts_the_count_and_doubles_the_wait_four_times_at_most():
    probing = ProbeSchedule(TIMERS, 2, 0)
    probing.probed(0)
    probing.answered(10)
    waits = []
    for _ in range(4):
        probing.lost()
        waits.append(probing.probed(0))
    assert waits == [600, 1200, 1200, 1200]
    assert probing.died
    assert probing.answered(10) == 1000  # the first of two again
    assert probing.probed(0) == 300


def test_a_path_that_flaps_is_probed_less_often():
    assert ProbeSchedule(TIMERS, 3, 2).interval == 4000


def test_probes_that_are_all_lost_are_passed_over():
    for now in (100, 299, 301, 5000, 12_345, 1_000_000):
        one_by_one, at_once = ProbeSchedule(TIMERS, 3, 0), ProbeSchedule(TIMERS, 3, 0)
        due = one_by_one.probed(0)
        while due < now:
            one_by_one.lost()
            due = one_by_one.probed(due)
        assert at_once.next_after(0, now) == due


def test_damping_forgets_by_halves():
    damping = FlapDamping(1000)
    assert [damping.failed(7, now) for now in (0, 0, 0)] == [0, 1, 2]
    assert damping.failed(7, 10_000) == 0
    assert damping.failed(8, 10_000) == 0
    damping.undo(7)
    assert damping.failed(7, 10_000) == 0
