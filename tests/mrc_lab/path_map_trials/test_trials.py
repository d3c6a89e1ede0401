"""The mapper at work in the simulated world, the same run for the same seed: each kind of fault gets its name."""

from __future__ import annotations

import pytest

from mrc_lab.path_map_trials.trials import CASES, TrialCase, trial
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos()
SHORT = [case for case in CASES if "1 %" not in case.name and case.name not in ("no fault", "every link loses 0.1 %")]


def case(name: str) -> TrialCase:
    (found,) = (case for case in CASES if case.name == name)
    return found


@pytest.mark.parametrize("found", SHORT, ids=lambda case: case.name)
def test_a_fault_is_suspected_and_cleared_when_it_recovers(found: TrialCase) -> None:
    outcome = trial(found, FABRIC, seed=1)
    assert outcome.seconds is not None
    assert outcome.healed is not None
    assert outcome.wrong == ()


def test_a_link_down_is_suspected_within_two_seconds_with_its_direction() -> None:
    for name in ("T0-T1 link cut upward only", "NIC-T0 link cut downward only"):
        outcome = trial(case(name), FABRIC, seed=2)
        assert outcome.seconds is not None
        assert outcome.seconds < 2
        assert outcome.direction_right == 1


def test_nothing_is_suspected_without_a_fault() -> None:
    outcome = trial(TrialCase("no fault", case("no fault").make, 20), FABRIC, seed=3)
    assert outcome.wrong == ()


def test_the_same_seed_gives_the_same_run() -> None:
    assert trial(case("T0-T1 link loses 50 %"), FABRIC, seed=4) == trial(case("T0-T1 link loses 50 %"), FABRIC, seed=4)


@pytest.mark.parametrize(("name", "seed"), [("T1 blackhole", 16), ("T1 blackhole", 30), ("T1 powered off", 30)])
def test_no_link_is_suspected_when_its_switch_has_just_failed_or_recovered(name: str, seed: int) -> None:
    assert trial(case(name), FABRIC, seed).wrong == ()
