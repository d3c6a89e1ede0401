"""Ours beside published numbers and curves, from recordings whose figures are known."""

import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running.recording import Fidelity
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.published import Standing, place, stand, summarize_published
from tests.mrc_lab.reports.recordings import HEAD, recording


def summarized(text, **changes):
    read = load_text(f"{HEAD}published:\n  {text}\n")
    return summarize_published(read, MetricTable(read.cases, {"only": recording(**changes)}))


def number(text, **changes):
    (found,) = summarized(f"numbers: [{text}]", **changes)["numbers"]
    return found


@pytest.mark.parametrize(
    ("ours", "published", "bound", "standing"),
    [
        (110, 100, "", Standing.WITHIN),
        (90, 100, "", Standing.WITHIN),
        (110.1, 100, "", Standing.DIFFERS),
        (89.9, 100, "", Standing.DIFFERS),
        (2, 100, "", Standing.DIFFERS),
        (0, 0, "", Standing.WITHIN),
        (100, 100, "at_most", Standing.MET),
        (2, 100, "at_most", Standing.MET),  # far below a bound is not far from a value
        (100.1, 100, "at_most", Standing.MISSED),
        (100, 100, "at_least", Standing.MET),
        (99.9, 100, "at_least", Standing.MISSED),
        (None, 100, "", Standing.UNMEASURED),
        (None, 100, "at_most", Standing.UNMEASURED),
    ],
)
def test_values_are_within_ten_percent_and_bounds_met_or_missed(ours, published, bound, standing):
    assert stand(ours, published, bound) is standing


def test_only_numbers_within_tolerance_or_met_are_good():
    assert [one for one in Standing if one.good] == [Standing.WITHIN, Standing.MET]


def test_a_number_has_its_factor_and_cause():
    one = number("{metric: throughput, value: 16G, factor: 0.5, certainty: C, cause: half of both}")
    assert (one["ours"], one["standing"], one["cause"]) == (pytest.approx(16e9), "within 10 %", "half of both")
    assert number("{metric: throughput, value: 16G}")["standing"] == "differs"  # 32 Gb/s


def test_the_slowest_flow_is_compared_with_the_slowest():
    rows = summarized("numbers: [{metric: throughput, flows: [8G, 25G], title: flow}]")["numbers"]
    assert [one["ours"] for one in rows] == [pytest.approx(8e9), pytest.approx(24e9)]  # h2>h4 is the faster one
    assert [one["standing"] for one in rows] == ["within 10 %", "within 10 %"]


def test_a_different_number_of_flows_is_unmeasured():
    rows = summarized("numbers: [{metric: throughput, flows: [8G, 24G, 30G]}]")["numbers"]
    assert {(one["ours"], one["standing"]) for one in rows} == {(None, "not measured")}


def test_sizes_without_a_case_are_unmeasured():
    rows = summarized("numbers: [{metric: throughput, sizes: [256K, 1M], values: [32G, 1G]}]")["numbers"]
    assert [one["standing"] for one in rows] == ["within 10 %", "not measured"]


def test_individual_sizes_may_be_fitted():
    rows = summarized("numbers: [{metric: throughput, sizes: [256K, 1M], values: [32G, 1G], fitted_sizes: [1M]}]")[
        "numbers"
    ]
    assert [row["fitted"] for row in rows] == [False, True]


def test_untrusted_runs_measure_nothing_and_scaled_rates_are_compared_scaled():
    assert number("{metric: throughput, value: 32G}", fidelity=Fidelity(False, ("busy",)))["standing"] == "untrusted"
    one = number("{metric: throughput, value: 320G}", rate_scale=0.1)
    assert (one["published"], one["standing"]) == (pytest.approx(32e9), "within 10 %")


def test_published_times_are_interpolated_and_extrapolated():
    moments = [(100, 10), (200, 20), (400, 100)]
    assert [place(x, moments) for x in (0, 100, 150, 200, 300, 500)] == [0, 10, 15, 20, 60, 140]
    assert place(7, []) == 7
    assert place(7, [(5, 50)]) == 52


def test_published_and_own_curves_over_time_are_compared():
    (one,) = summarized(
        "curves: [{metric: throughput, of: {flows: 'h1>*'}, points: [[0s, 8G], [1s, 9G], [9s, 1G]],"
        " moments: [[0s, 10us], [1s, 60us]]}]"
    )["curves"]
    assert one["published"] == [[10_000, 8e9], [60_000, 9e9]]  # the third is after the run
    assert one["ours"][0] == [5000, pytest.approx(8e9)]
    assert len(one["ours"]) == 10


def test_relative_curves_are_relative_to_the_largest_value():
    (one,) = summarized("curves: [{metric: throughput, points: [[0s, 1G], [50us, 4G]], relative: max}]")["curves"]
    assert [y for _, y in one["published"]] == [0.25, 1]
    assert max(y for _, y in one["ours"]) == 1
    assert one["unit"] == "share"
