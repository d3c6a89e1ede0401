import pytest

from mrc_lab.experiments.running.recording import Fidelity
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.verdicts import Verdict, holds, judge, overall, passed, show
from tests.mrc_lab.reports.recordings import experiment, recording


def judged(expect, **changes):
    return judged_all(f"[{expect}]", **changes)[0]


def judged_all(expect="[]", backend="sim", **changes):
    read = experiment(expect)
    return judge(read, MetricTable(read.cases, {"only": recording(**changes)}), backend)


@pytest.mark.parametrize(
    ("ours", "relation", "expected", "tolerance", "held"),
    [
        (10, "at_least", 10, 0, True),
        (9.9, "at_least", 10, 0, False),
        (9.9, "at_least", 10, 0.02, True),
        (10, "at_most", 10, 0, True),
        (10.1, "at_most", 10, 0, False),
        (10.1, "at_most", 10, 0.02, True),
        (9.9, "about", 10, 0.02, True),
        (10.3, "about", 10, 0.02, False),
        (9.7, "about", 10, 0.02, False),
        (0, "at_most", 0, 0.5, True),
        (1, "at_most", 0, 0.5, False),
    ],
)
def test_every_relation_is_evaluated(ours, relation, expected, tolerance, held):
    assert holds(ours, relation, expected, tolerance) is held


def test_values_are_shown_beside_the_published_ones():
    one = judged(
        "{metric: throughput, relation: about, value: 32G, tolerance: 1%,"
        " published: {value: 40G, certainty: D, text: dig.}, note: why}"
    )
    assert one.verdict is Verdict.PASS
    assert (one.ours, one.published, one.certainty, one.note) == (pytest.approx(32e9), 40e9, "D", "why")
    assert one.ratio == pytest.approx(0.8)


def test_an_unmet_expectation_fails():
    one = judged("{metric: throughput, relation: at_least, value: 33G}")
    assert one.verdict is Verdict.FAIL


def test_expectations_that_cannot_be_computed_fail():
    one = judged("{metric: failover_time, relation: at_most, value: 1s}", paths=())
    assert (one.ours, one.verdict) == (None, Verdict.FAIL)


def test_ratios_of_two_metrics_are_evaluated():
    one = judged(
        '{metric: throughput, relation: about, value: "0.333", tolerance: 1%,'
        ' of: {flows: "h1>*"}, against: {flows: "h2>*"}}'
    )
    assert one.verdict is Verdict.PASS
    assert one.unit == "share"


def test_scaled_rates_and_times_are_compared_scaled():
    expect = "{metric: throughput, relation: about, value: 320G, tolerance: 1%, published: {value: 320G, certainty: C}}"
    one = judged(expect, rate_scale=0.1)
    assert (one.verdict, one.expected) == (Verdict.PASS, pytest.approx(32e9))
    assert one.ratio == pytest.approx(1)
    one = judged("{metric: failover_time, relation: at_most, value: 600ns, of: {start: 0us}}", time_scale=1.0)
    assert one.verdict is Verdict.FAIL


def test_an_untrusted_run_neither_passes_nor_fails():
    one = judged("{metric: throughput, relation: at_least, value: 1G}", fidelity=Fidelity(False, ("busy",)))
    assert one.verdict is Verdict.UNTRUSTED
    assert not passed([one])


def test_wrong_bytes_fail_a_run_regardless_of_timing():
    busy = Fidelity(False, ("busy",))
    expect = "[{metric: wrong_bytes, relation: at_most, value: 0}]"
    assert overall(judged_all(expect, wrong_bytes=1, fidelity=busy), False).value == "fail"
    assert overall(judged_all(wrong_bytes=1, fidelity=busy), False).value == "fail"


def test_bad_timing_prevents_a_pass_without_timing_expectations():
    found = judged_all(fidelity=Fidelity(False, ("busy",)))
    assert passed(found)
    assert overall(found, trusted=False) is Verdict.UNTRUSTED
    assert overall(found, trusted=True) is Verdict.PASS


def test_errors_and_wrong_bytes_are_always_checked():
    found = judged_all(wrong_bytes=1)
    assert [(one.metric, one.verdict) for one in found] == [("errors", Verdict.PASS), ("wrong_bytes", Verdict.FAIL)]
    assert not passed(found)
    expect = '[{metric: errors, relation: at_least, value: "1"}]'
    found = judged_all(expect, errors=("x",))
    assert [one.metric for one in found] == ["errors", "wrong_bytes"]
    assert passed(found)


def test_values_are_formatted_with_units():
    assert show(1.5e9, "rate") == "1.5 Gb/s"
    assert show(1500, "time") == "1.5 us"
    assert show(0.12345, "share") == "0.1235"
    assert show(None, "count") == "none"


def test_expectations_for_one_backend_are_skipped_on_the_other():
    expect = "[{metric: throughput, relation: at_least, value: 1T, title: fast, backend: sim}]"
    found = {world: judged_all(expect, world) for world in ("sim", "emulation")}
    assert [one.verdict for one in found["sim"] if one.title == "fast"] == [Verdict.FAIL]
    assert [one.title for one in found["emulation"] if one.title == "fast"] == []
    assert passed(found["emulation"])
