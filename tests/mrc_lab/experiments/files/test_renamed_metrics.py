"""Names of earlier releases in experiment files: understood, with a note that gives today's name."""

from __future__ import annotations

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.renamed_keys import METRICS
from tests.mrc_lab.experiments.files.texts import SMALL

OLD = """
expect:
  - {metric: bypass_time, relation: at_most, value: 1s, world: sim}
  - {metric: interruption, relation: at_most, value: 1s}
show:
  - {metric: return_time}
  - {metric: paths_left}
"""
NEW = """
expect:
  - {metric: failover_time, relation: at_most, value: 1s, backend: sim}
  - {metric: outage, relation: at_most, value: 1s}
report:
  - {metric: recovery_time}
  - {metric: path_failures}
"""
BASE = SMALL.partition("expect:")[0]


def test_a_file_with_old_names_is_the_same_experiment() -> None:
    old, new = load_text(BASE + OLD, source="f.yaml"), load_text(BASE + NEW, source="f.yaml")
    assert (old.cases, old.expect, old.report) == (new.cases, new.expect, new.report)
    assert old.report
    assert new.notes == ()


def test_each_old_name_causes_a_note_with_its_line() -> None:
    first = BASE.count("\n") + 1
    assert sorted(load_text(BASE + OLD, source="f.yaml").notes) == sorted(
        (
            f"f.yaml, line {first + 2}: bypass_time is called failover_time now",
            f"f.yaml, line {first + 2}: world is called backend now",
            f"f.yaml, line {first + 3}: interruption is called outage now",
            f"f.yaml, line {first + 4}: show is called report now",
            f"f.yaml, line {first + 5}: return_time is called recovery_time now",
            f"f.yaml, line {first + 6}: paths_left is called path_failures now",
        )
    )


def test_an_old_name_beside_the_new_one_counts_as_a_duplicate() -> None:
    with pytest.raises(ExperimentError, match=r"report: is given twice"):
        load_text(BASE + "\nshow: [{metric: lost}]\nreport: [{metric: lost}]\n")


@pytest.mark.parametrize("text", ["show: 5", "show: [5]", "expect: [[1]]", "[]", "show: [{metric: [1]}]", "? [1]\n: 2"])
def test_invalid_metrics_are_still_refused(text: str) -> None:
    with pytest.raises(ExperimentError):
        load_text(text)


def test_old_names_differ_from_all_current_metrics() -> None:
    assert not set(METRICS) & set(METRICS.values())
