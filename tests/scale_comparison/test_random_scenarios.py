"""Random scenarios on both backends with fixed seeds, and what makes a comparison fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrc_lab.experiments.files import load_text
from tests.scale_comparison.compare import differences
from tests.scale_comparison.scenario import draw

HOSTS = 16  # the soak has more


@pytest.mark.second_ring
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 13))
def test_both_backends_agree(seed: int) -> None:
    print(f"python -m tests.scale_comparison --seed {seed} --hosts {HOSTS}")
    assert differences(draw(seed, HOSTS)) == []


def test_every_scenario_is_a_file_for_both_backends() -> None:
    for seed in range(60):
        scenario = draw(seed)
        experiment = load_text(f"backend: scale\n{scenario.text}")
        assert experiment.cases[0].duration >= max((end for _, end in scenario.steady), default=0)
    assert draw(7) == draw(7)


@pytest.mark.second_ring
def test_a_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = next(scenario for scenario in map(draw, range(100), [HOSTS] * 100) if scenario.dead and scenario.losses)
    monkeypatch.setattr("tests.scale_comparison.compare.RATE", -1.0)
    monkeypatch.setattr("tests.scale_comparison.compare._DEVIATIONS", 0)
    found = differences(replace(scenario, losses=-1.0))
    assert [problem.partition(":")[0] for problem in found] == ["throughput", "throughput", "retransmissions"]
