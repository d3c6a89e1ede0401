"""What may be given from Python, and what is said of anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from mrc_lab.api.inputs import as_experiment, as_seeds, as_settings
from mrc_lab.errors import ExperimentError, FileError
from mrc_lab.experiments.files import load_text
from tests.mrc_lab.experiments.files.texts import SMALL


def test_an_experiment_is_a_path_text_mapping_or_value(tmp_path: Path):
    place = tmp_path / "small.yaml"
    place.write_text(SMALL)
    (case,) = load_text(SMALL).cases
    for given in (place, str(place), SMALL, yaml.safe_load(SMALL), load_text(SMALL)):
        (found,) = as_experiment(given).cases
        assert (found.fabric, found.tenants, found.duration) == (case.fabric, case.tenants, case.duration)
        assert [fault.fault for fault in found.faults] == [fault.fault for fault in case.faults]


def test_a_mapping_may_have_tuples_and_paths(tmp_path: Path):
    given = {
        "fabric": {"hosts": 4, "t0": 2, "t1": 2},
        "workload": {"kind": "write_bw", "pairs": ("h1>h3", "h2>h4")},
        "duration": "60us",
    }
    assert as_experiment(given) == as_experiment(yaml.safe_dump({**given, "workload": {
        "kind": "write_bw", "pairs": ["h1>h3", "h2>h4"]}}, sort_keys=False))  # fmt: skip
    with pytest.raises(FileError, match=r"fabric\.file.*none\.yaml"):
        as_experiment({**given, "fabric": {"file": tmp_path / "none.yaml"}})


@pytest.mark.parametrize(
    ("given", "message"),
    [(5, "not int"), (None, "not NoneType"), ({"fabric": object()}, "cannot be written as YAML")],
)
def test_anything_else_is_refused(given: Any, message: str):
    with pytest.raises(ExperimentError, match=message):
        as_experiment(given)


@pytest.mark.parametrize(
    ("given", "seeds"), [(3, (1, 2, 3)), (1, (1,)), ([7], (7,)), ((5, 1, 5), (5, 1)), (range(2, 4), (2, 3))]
)
def test_seeds_are_a_number_or_a_list(given: Any, seeds: tuple[int, ...]):
    assert as_seeds(given) == seeds


@pytest.mark.parametrize("given", [0, -1, True, 2.5, [], "12", [1, -1], [1.5], [True], None])
def test_other_seeds_are_refused(given: Any):
    with pytest.raises(ExperimentError, match="seed"):
        as_seeds(given)


def test_values_of_settings_are_written_as_yaml():
    settings = {
        "workload.message": ["64K", "1M"],
        "fabric.planes": np.array([1, 2]),
        "fabric.pfc": [True, False],
        "workload.pairs": [["h1>h3"], ["h1>h3", "h2>h4"]],
        "faults.cut.link": "t0-*:t1-[0,1]@p*",
        "transport.qps": 4,
        "fabric.links": {"t1-t2": {"rate": "50G"}},
    }
    assert as_settings(settings) == [
        "workload.message=64K,1M",
        "fabric.planes=1,2",
        "fabric.pfc=true,false",
        'workload.pairs=["h1>h3"],["h1>h3","h2>h4"]',
        'faults.cut.link="t0-*:t1-[0,1]@p*"',
        "transport.qps=4",
        'fabric.links={"t1-t2":{"rate":"50G"}}',
    ]


@pytest.mark.parametrize("values", [[], [object()], [float("nan")]])
def test_settings_without_values_are_refused(values: list[object]):
    with pytest.raises(ExperimentError, match="value"):
        as_settings({"workload.message": values})
