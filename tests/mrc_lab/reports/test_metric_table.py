"""The table of metrics: rows are computed once, and say what of which case."""

from __future__ import annotations

import numpy as np
import pytest

from mrc_lab.experiments.files.metric_names import CURVES
from mrc_lab.experiments.files.model import Selection
from mrc_lab.reports import metric_table
from tests.mrc_lab.reports.recordings import metrics, recording


def test_a_row_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def compute(metric: str, *_: object) -> float:
        computed.append(metric)
        return 1.0

    monkeypatch.setattr(metric_table, "compute", compute)
    table = metrics({"a": recording(), "b": recording()})
    for of in (Selection(), Selection(variant="a"), Selection(variant="b"), Selection(flows="h1>*"), Selection()):
        assert table.value("throughput", of) == 1.0
    assert len(computed) == 3, "of a, of b, of a flow of a"


def test_a_row_is_of_the_first_case_unless_it_names_another() -> None:
    table = metrics({"a": recording(), "b": recording(((20, 30),) * 10)})
    assert table.row("throughput", Selection()).case.name == "a"
    assert table.value("throughput", Selection()) == pytest.approx(32e9)
    assert table.value("throughput", Selection(variant="b")) == pytest.approx(40e9)


def test_one_row_is_divided_by_another() -> None:
    table = metrics({"a": recording()})
    slow, fast, none = Selection(flows="h1>*"), Selection(flows="h2>*"), Selection(flows="h9>*")
    assert table.over("throughput", fast, slow) == pytest.approx(3)
    assert table.over("throughput", fast, None) == pytest.approx(24e9)
    assert table.over("throughput", fast, none) is None
    assert table.over("throughput", none, slow) is None
    assert table.over("lost", Selection(), Selection()) is None, "nothing was lost, so there is no ratio"


@pytest.mark.parametrize("metric", CURVES)
def test_a_series_has_a_value_for_each_bin(metric: str) -> None:
    table = metrics({"a": recording(((0, 0), (10, 30), (20, 0)))})
    series = table.row(metric, Selection()).series
    assert np.allclose(series, [0, 32e9, 16e9] if metric == "throughput" else [0, 0, 0])
    assert list(metric_table.middles(table.recordings["a"])) == [5_000, 15_000, 25_000]
