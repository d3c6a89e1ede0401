"""Runs over Ray, on a cluster of this machine. Skipped where the extra is not installed."""

from __future__ import annotations

import importlib.util

import pytest

from experiments.errors import ExperimentError
from experiments.sweeps.cluster import over_ray
from tests.experiments.sweeps.workers import killed_at_13, runs

_HERE = importlib.util.find_spec("ray") is not None


@pytest.mark.skipif(not _HERE, reason="Ray is not installed: pip install '.[ray]'")
def test_ray_runs_them_and_one_that_kills_its_worker_is_lost_alone():
    outcomes = list(over_ray("local", killed_at_13)(runs(11, 12, 13)))
    assert sorted(outcome.run.seed for outcome in outcomes if outcome.record) == [11, 12]
    (lost,) = [outcome for outcome in outcomes if outcome.record is None]
    assert lost.run.seed == 13
    assert lost.lost


@pytest.mark.skipif(_HERE, reason="Ray is installed")
def test_without_ray_one_sentence_says_what_to_install():
    with pytest.raises(ExperimentError, match="Ray is not installed") as raised:
        over_ray("local")
    assert "[ray]" in raised.value.hint
