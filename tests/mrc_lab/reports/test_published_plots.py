"""Plots of published beside ours: every kind, as SVG, with and without intervals."""

from xml.etree import ElementTree

import pytest

from mrc_lab.reports.published_plots import drawings

ROW = {
    "id": "x", "what": "x", "unit": "rate", "published": 2e9, "bound": "", "ours": 1e9, "size": None, "place": None,
    "entry": "x", "low": None, "high": None,
}  # fmt: skip
CURVE = {
    "title": "rate", "plot": "rate", "over": "time", "unit": "rate", "relative": "",
    "published": [[0, 1e9], [9e3, 2e9]],
    "ours": [[0, 1e9], [9e3, 1e9]], "low": None, "high": None,
}  # fmt: skip


def drawn(numbers=(), curves=()):
    found = dict(drawings({"numbers": list(numbers), "curves": list(curves)}))
    for text in found.values():
        assert ElementTree.fromstring(text).tag.endswith("svg")
    return found


def words(svg):
    """Texts that matplotlib leaves beside the outlines of letters, as comments."""
    return [line.strip()[5:-4] for line in svg.splitlines() if line.strip().startswith("<!-- ")]


def test_without_data_nothing_is_plotted():
    assert drawn() == {}
    assert drawn([{**ROW, "ours": None}]) == {}


def test_published_and_own_curves_share_a_plot():
    found = drawn(curves=[CURVE, {**CURVE, "title": "other"}, {**CURVE, "plot": "second"}])
    assert list(found) == ["rate", "second"]
    assert {"rate, published", "rate, ours", "other, published", "other, ours"} <= set(words(found["rate"]))
    assert {"published", "ours"} <= set(words(found["second"]))


def test_curves_over_sizes_have_size_labels():
    sizes = [[1 << 20, 1e9], [1 << 24, 2e9]]
    (svg,) = drawn(curves=[{**CURVE, "over": "size", "published": sizes, "ours": sizes}]).values()
    assert "1 MiB" in words(svg)


@pytest.mark.parametrize("over", ["time", "size"])
def test_the_band_of_several_seeds_is_drawn(over):
    curve = {**CURVE, "over": over, "published": [[1e3, 1e9], [2e3, 1e9]], "ours": [[1e3, 1e9], [2e3, 1e9]]}
    banded = {**curve, "low": [0.5e9, 0.5e9], "high": [1.5e9, 1.5e9]}
    without, with_band = (next(iter(drawn(curves=[one]).values())) for one in (curve, banded))
    assert with_band.count("FillBetween") == without.count("FillBetween") + 1


def test_flows_sizes_and_single_numbers_are_plotted():
    flows = [{**ROW, "entry": "flow", "place": place} for place in (1, 2)]
    sizes = [{**ROW, "entry": "by size", "size": size} for size in (1 << 20, 2 << 20)]
    bound = {**ROW, "bound": "at_most"}
    found = drawn([*flows, *sizes, ROW, bound])
    assert list(found) == ["Flows from the slowest to the fastest: flow", "by size", "Ours over published"]
    assert drawn([bound]) == {}  # a bound has no ratio


def test_very_small_and_zero_ratios_are_plotted():
    drawn([{**ROW, "ours": 0.0}, {**ROW, "ours": 1e15}, {**ROW, "published": 0.0}])
    drawn([{**ROW, "low": -1e9, "high": 3e9}])
    drawn([{**ROW, "place": 1, "low": 0.5e9, "high": 1.5e9}])
