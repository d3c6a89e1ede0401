import numpy as np
import pytest

from mrc_lab.experiments.files.metric_names import METRICS
from mrc_lab.experiments.files.model import Selection
from mrc_lab.experiments.running.recording import OperationRecord
from mrc_lab.reports.metrics import _METRICS, compute
from mrc_lab.reports.statistics import statistic
from tests.mrc_lab.reports.recordings import HEAD, experiment, recording

GIGA = 1e9


def figure(metric, made=None, **selection):
    return compute(metric, experiment().cases[0], made or recording(), Selection(**selection))


def test_every_metric_of_the_file_can_be_computed():
    assert set(METRICS) == set(_METRICS)


def test_throughput_is_computed_over_flows():
    assert figure("throughput") == pytest.approx(32 * GIGA)
    assert figure("throughput", flows="h1>*") == pytest.approx(8 * GIGA)
    assert figure("throughput", over_flows="min") == pytest.approx(8 * GIGA)
    assert figure("throughput", over_flows="max") == pytest.approx(24 * GIGA)
    assert figure("throughput", over_flows="mean") == pytest.approx(16 * GIGA)
    assert figure("throughput", flows="h9>*") is None


def test_throughput_is_computed_over_time():
    made = recording([(n, 0) for n in range(10)])
    assert figure("throughput", made, statistic="max") == pytest.approx(9 * 0.8 * GIGA)
    assert figure("throughput", made, statistic="min") == pytest.approx(1 * 0.8 * GIGA)  # the warm-up does not count
    assert figure("throughput", made, statistic="min", start=0) == 0
    assert figure("throughput", made, start=20_000, end=40_000) == pytest.approx(2.5 * 0.8 * GIGA)
    assert figure("throughput", made, start=21_000, end=41_000) == pytest.approx(3 * 0.8 * GIGA)  # whole bins inside
    assert figure("throughput", made, statistic="median", start=0, end=30_000) == pytest.approx(0.8 * GIGA)


def test_a_short_last_bin_is_weighted_by_its_length():
    made = recording(times=np.array([*range(0, 100_000, 10_000), 95_000]))
    assert figure("throughput", made) == pytest.approx(400 * 8000 * 0.9 / 85_000e-9, rel=1e-6)


def test_link_throughput_and_direction():
    assert figure("link_throughput", link="h1@p0") == pytest.approx(8 * GIGA)
    assert figure("link_throughput", link="h1@p0>") == pytest.approx(8 * GIGA)
    assert figure("link_throughput", link="h1@p0<") == 0
    assert figure("link_throughput", link="*") == pytest.approx(16 * GIGA)


def test_outage_is_the_longest_period_below_half():
    rates = [(10, 10)] * 4 + [(0, 1)] * 3 + [(10, 10)] + [(0, 0)] + [(10, 10)]
    assert figure("outage", recording(rates)) == 30_000
    assert figure("outage") == 0
    assert figure("outage", recording(rates), end=60_000) == 20_000
    assert figure("outage", recording([(10, 10)] * 3 + [(0, 0)] * 7)) == 70_000, "most of the time nothing"
    assert figure("outage", recording([(0, 0)] * 10)) == 90_000


def test_path_metrics_are_computed():
    assert figure("failover_time") == 6000
    assert figure("failover_time", flows="h1>*") == 4000
    assert figure("failover_time", statistic="min") == 4000
    assert figure("failover_time", start=50_000) is None
    assert figure("recovery_time") == 15_000
    assert figure("path_failures") == 2
    assert figure("path_failures", start=46_000) == 1
    assert figure("paths_bad") == 1


def test_completion_time_metrics_are_computed():
    times = [5000 + 100 * n for n in range(90) if 1000 * n + 5000 + 100 * n >= 10_000 and 1100 * n + 5000 <= 100_000]
    assert figure("completion_time") == np.median(times)
    assert figure("completion_time", statistic="max") == max(times)
    assert figure("completion_time", recording(messages=())) is None


def test_collective_metrics_are_computed():
    head = HEAD.replace(
        "{kind: write_bw, pairs: [h1>h3, h2>h4]}", "{kind: collective, operation: all_reduce, bytes: 1M}"
    )
    case = experiment(head=head).cases[0]
    operations = (
        OperationRecord(0, 10_000, 10_000, False),
        OperationRecord(10_000, 20_000, 10_000, True),
        OperationRecord(20_000, 40_000, 10_000, True),
    )
    made = recording(operations=operations, messages=())
    of_the_mean_time = 8e9 * 10_000 / 15_000  # as nccl-tests has it; the mean of the rates is 6 Gb/s
    assert compute("algbw", case, made, Selection()) == pytest.approx(of_the_mean_time)
    assert compute("algbw", case, made, Selection(statistic="median")) == pytest.approx(6 * GIGA)
    assert compute("algbw", case, made, Selection(statistic="max")) == pytest.approx(8 * GIGA)
    assert compute("busbw", case, made, Selection()) == pytest.approx(of_the_mean_time)  # two ranks: factor 1
    assert compute("completion_time", case, made, Selection()) == 15_000


def test_counts_and_shares_are_computed():
    samples = recording().flow_samples.copy()
    samples[5:, 0, 2] = 20
    samples[5:, 1, 4] = 3
    made = recording(flow_samples=samples)
    assert figure("retransmitted", made) == 20
    assert figure("retransmitted", made, flows="h2>*") == 0
    assert figure("retransmitted", made, end=40_000) == 0
    assert figure("retransmit_share", made) == pytest.approx(20 / 360)
    assert figure("lost", made) == 3
    assert figure("trimmed", made) == 12
    assert figure("errors", recording(errors=("a", "b"))) == 2
    assert figure("wrong_bytes", recording(wrong_bytes=5)) == 5


def test_fairness_is_jains_index():
    assert figure("fairness", recording([(10, 10)] * 10)) == pytest.approx(1)
    assert figure("fairness", recording([(10, 0)] * 10)) == pytest.approx(0.5)
    assert figure("fairness", recording([(0, 0)] * 10)) == 0


def test_metrics_of_a_scaled_run_are_scaled():
    made = recording(times=np.arange(11, dtype=np.int64) * 1_000_000, time_scale=100.0)
    assert figure("throughput", made, start=20_000, end=40_000) == pytest.approx(0.32 * GIGA)


def test_statistics_are_computed():
    assert statistic("p99", list(range(101))) == 99
    assert statistic("median", [1, 2, 30]) == 2
    assert statistic("mean", []) is None
