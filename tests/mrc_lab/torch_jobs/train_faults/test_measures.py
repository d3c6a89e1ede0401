"""Times, counts and costs follow from a run's events; a rank that is out, or was killed, has no part in them."""

from __future__ import annotations

import pytest

from mrc_lab.torch_jobs.train_faults.events import RankEvent, What
from mrc_lab.torch_jobs.train_faults.measures import events_of, measure, schedule
from tests.mrc_lab.torch_jobs.train_faults import runs


def test_a_recovery_has_the_times_of_the_last_rank_from_the_fault_on() -> None:
    found = measure(runs.recovered())
    assert found.left == (0, 1, 3)
    assert (found.rounds, found.reconfigurations, found.steps_lost) == (2, 1, 1), "only one failure was a step's"
    assert found.detected == pytest.approx(0.202)
    assert found.aborted == pytest.approx(0.212)
    assert found.reconfigured == pytest.approx(0.892)
    assert found.stepped == pytest.approx(1.0)
    assert found.step == pytest.approx(0.1)
    assert found.pause == pytest.approx(1.01)
    assert found.cost == pytest.approx(0.91), "later steps take as long as the usual ones"


def test_without_a_recovery_there_is_a_cost_alone() -> None:
    found = measure(runs.undisturbed(late_ms=250))
    assert found.finished
    assert (found.rounds, found.detected, found.reconfigured, found.stepped) == (0, None, None, None)
    assert found.cost == pytest.approx(0.25)


def test_without_a_fault_nothing_costs_anything() -> None:
    assert measure(runs.undisturbed(case="healthy")).cost == pytest.approx(0)


def test_steps_that_are_shorter_with_fewer_ranks_make_up_for_nothing() -> None:
    plain = runs.undisturbed(late_ms=250)
    events = [
        RankEvent(e.what, e.rank, e.at - 30 * runs.MS * max(0, e.step - 9), e.step, e.members) for e in events_of(plain)
    ]
    assert measure(plain | {"events": [e.plain() for e in events]}).cost == pytest.approx(0.25)


def test_a_job_that_ended_has_attempts_and_no_cost() -> None:
    found = measure(runs.ended())
    assert not found.finished
    assert (found.rounds, found.reconfigurations) == (1, 0)
    assert found.detected == pytest.approx(0.19)
    assert (found.reconfigured, found.cost, found.difference) == (None, None, None)


def test_the_schedule_has_the_members_of_each_step_as_survivors_saw_them() -> None:
    assert schedule(events_of(runs.recovered())) == [[0, 1, 2, 3]] * 8 + [[0, 1, 3]] * 4


def test_a_step_that_only_a_lost_rank_completed_is_not_in_the_schedule() -> None:
    record = runs.recovered()
    lost = runs.event(What.STEP, 2, 900, 9)
    events = [*events_of(record), lost]
    assert schedule(events)[8] == [0, 1, 3]
