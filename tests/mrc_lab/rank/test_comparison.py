"""What `mrc rank` compares: that every composed experiment is in order, and what is composed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrc_host.verbs_types import QpType
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_file, load_text
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.rank.comparison import case_of, experiment_files, load, write_experiments

COMPARISON = load()


@pytest.mark.parametrize("transport", COMPARISON.transports, ids=lambda part: str(part["name"]))
def test_every_workload_meets_every_condition_in_an_experiment_that_can_be_read(transport: dict[str, object]) -> None:
    made = COMPARISON.experiments(transport)
    assert len(made) == len(COMPARISON.workloads) * len(COMPARISON.conditions)
    for content in made.values():
        (case,) = load_text(json.dumps(content)).cases
        rates = {link.rate_bps for link in build_fabric(case.fabric).links}
        assert rates == {800_000_000_000 // case.fabric.planes}, "hosts have the same rate everywhere"
        assert bool(case.faults) == bool(content["faults"])


def test_each_type_of_queue_pair_is_ranked() -> None:
    kinds = {str(part["transport"]["type"]) for part in COMPARISON.transports}
    assert kinds == {kind.value for kind in QpType}


def test_each_condition_is_one_of_every_network() -> None:
    for condition in COMPARISON.conditions:
        assert set(condition.get("faults", {})) in (set(), set(COMPARISON.networks))
        assert not (condition["name"] == "healthy" and (condition.get("faults") or condition.get("fabric")))


def test_names_choose_of_their_kind_alone() -> None:
    some = COMPARISON.only(["mrc", "rc", "incast-8"])
    assert [part["name"] for part in some.transports] == ["mrc", "rc"]
    assert [part["name"] for part in some.workloads] == ["incast-8"]
    assert list(some.conditions) == list(COMPARISON.conditions)


def test_a_misspelt_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ExperimentError, match="incast-8"):
        COMPARISON.only(["incast8"])


def test_queue_pairs_are_limited_where_there_are_as_many_to_each_peer() -> None:
    (transport,) = COMPARISON.only(["rc"]).transports
    made = COMPARISON.experiments(transport)
    assert case_of(made["permutation", "healthy"]).transport.qps == 8
    assert case_of(made["all-to-all", "healthy"]).transport.qps == 1


def test_files_say_what_was_composed(tmp_path: Path) -> None:
    some = COMPARISON.only(["mrc", "incast-8", "cut-link"])
    (file,) = files = experiment_files(some, some.transports[0], tmp_path / "new")
    write_experiments(files)
    (case,) = load_file(file.path).cases
    assert file.path.name == "incast-8.cut-link.yaml"
    composed = case_of(some.experiments(some.transports[0])["incast-8", "cut-link"])
    assert [planned.fault for planned in case.faults] == [planned.fault for planned in composed.faults]
    assert (case.fabric, case.workload, case.transport) == (composed.fabric, composed.workload, composed.transport)
