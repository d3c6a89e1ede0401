"""Confidence that is earned: suspicions against the truth, over trials with fixed seeds and one to four faults."""

from __future__ import annotations

from controller.path_map.values import ElementKind
from mrc_lab.path_map_trials.calibration import calibrate, total
from mrc_lab.path_map_trials.sampled import FaultyElement, hidden
from topologies.clos import multi_plane_clos
from topologies.probe_plan import probe_plan


def test_with_one_fault_no_healthy_element_is_named_with_confidence() -> None:
    for seed in range(1, 21):
        assert not calibrate(seed, 1).misled, f"seed {seed}"


def test_with_four_faults_suspicions_are_as_accurate_as_their_confidence() -> None:
    found = total(calibrate(seed, 4) for seed in range(1000, 1006))
    for band in (0.9, 0.98):
        made, wrong = found.at_least(band)
        assert made > 500, band
        assert wrong <= (1 - band) * made, band


def test_trials_are_repeatable_with_the_same_seed() -> None:
    assert calibrate(5, 2) == calibrate(5, 2)


def test_a_fault_behind_another_is_hidden() -> None:
    plan = probe_plan(multi_plane_clos())
    t1, behind = FaultyElement(ElementKind.SWITCH, "t1-1@p0"), FaultyElement(ElementKind.T0_T1, "t0-0:t1-1@p0", 0.5)
    assert hidden(behind, (t1, behind), plan)
    assert not hidden(t1, (t1, behind), plan)
