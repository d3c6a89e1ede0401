import pytest

from mrc_lab.experiments.running.recording import Fidelity
from mrc_lab.reports.verdicts import Verdict, holds, judge, overall, passed, show
from tests.mrc_lab.reports.recordings import experiment, recording


def judged(expect, **changes):
    return judge(experiment(f"[{expect}]"), {"only": recording(**changes)}, "sim")[0]


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
def test_relations(ours, relation, expected, tolerance, held):
    assert holds(ours, relation, expected, tolerance) is held


def test_a_figure_beside_the_published_one():
    one = judged(
        "{metric: throughput, relation: about, value: 32G, tolerance: 1%,"
        " published: {value: 40G, certainty: D, text: dig.}, note: why}"
    )
    assert one.verdict is Verdict.PASS
    assert (one.ours, one.published, one.certainty, one.note) == (pytest.approx(32e9), 40e9, "D", "why")
    assert one.ratio == pytest.approx(0.8)


def test_an_expectation_that_does_not_hold_fails():
    one = judged("{metric: throughput, relation: at_least, value: 33G}")
    assert one.verdict is Verdict.FAIL


def test_what_cannot_be_computed_fails():
    one = judged("{metric: failover_time, relation: at_most, value: 1s}", paths=())
    assert (one.ours, one.verdict) == (None, Verdict.FAIL)


def test_a_ratio_of_two_figures():
    one = judged(
        '{metric: throughput, relation: about, value: "0.333", tolerance: 1%,'
        ' of: {flows: "h1>*"}, against: {flows: "h2>*"}}'
    )
    assert one.verdict is Verdict.PASS
    assert one.unit == "share"


def test_scaled_rates_and_times_are_compared_with_scaled_figures():
    expect = "{metric: throughput, relation: about, value: 320G, tolerance: 1%, published: {value: 320G, certainty: C}}"
    one = judged(expect, rate_scale=0.1)
    assert (one.verdict, one.expected) == (Verdict.PASS, pytest.approx(32e9))
    assert one.ratio == pytest.approx(1)
    one = judged("{metric: failover_time, relation: at_most, value: 600ns, of: {start: 0us}}", time_scale=1.0)
    assert one.verdict is Verdict.FAIL


def test_an_untrusted_run_is_neither_good_nor_bad():
    one = judged("{metric: throughput, relation: at_least, value: 1G}", fidelity=Fidelity(False, ("busy",)))
    assert one.verdict is Verdict.UNTRUSTED
    assert not passed([one])


def test_a_run_with_wrong_bytes_fails_however_its_timing_was():
    busy = Fidelity(False, ("busy",))
    expect = "[{metric: wrong_bytes, relation: at_most, value: 0}]"
    assert (
        overall(judge(experiment(expect), {"only": recording(wrong_bytes=1, fidelity=busy)}, "sim"), False).value
        == "fail"
    )
    assert overall(judge(experiment(), {"only": recording(wrong_bytes=1, fidelity=busy)}, "sim"), False).value == "fail"


def test_a_run_that_expects_nothing_of_its_timing_is_not_good_when_that_was_bad():
    found = judge(experiment(), {"only": recording(fidelity=Fidelity(False, ("busy",)))}, "sim")
    assert passed(found)
    assert overall(found, trusted=False) is Verdict.UNTRUSTED
    assert overall(found, trusted=True) is Verdict.PASS


def test_errors_and_wrong_bytes_are_always_judged():
    found = judge(experiment(), {"only": recording(wrong_bytes=1)}, "sim")
    assert [(one.metric, one.verdict) for one in found] == [("errors", Verdict.PASS), ("wrong_bytes", Verdict.FAIL)]
    assert not passed(found)
    expect = '[{metric: errors, relation: at_least, value: "1"}]'
    found = judge(experiment(expect), {"only": recording(errors=("x",))}, "sim")
    assert [one.metric for one in found] == ["errors", "wrong_bytes"]
    assert passed(found)


def test_figures_in_words():
    assert show(1.5e9, "rate") == "1.5 Gb/s"
    assert show(1500, "time") == "1.5 us"
    assert show(0.12345, "share") == "0.1235"
    assert show(None, "count") == "none"


def test_what_is_expected_in_one_world_only_is_not_asked_of_the_other():
    expect = "[{metric: throughput, relation: at_least, value: 1T, title: fast, backend: sim}]"
    found = {world: judge(experiment(expect), {"only": recording()}, world) for world in ("sim", "emulation")}
    assert [one.verdict for one in found["sim"] if one.title == "fast"] == [Verdict.FAIL]
    assert [one.title for one in found["emulation"] if one.title == "fast"] == []
    assert passed(found["emulation"])
