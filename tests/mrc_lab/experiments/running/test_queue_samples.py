"""Queue depth and pauses: laid out by channel, as a run records them, and as metrics."""

from __future__ import annotations

import numpy as np
import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import FileError, load_text
from mrc_lab.experiments.files.model import Selection
from mrc_lab.experiments.running import emulated_backend
from mrc_lab.experiments.running.queue_samples import QueueSampler
from mrc_lab.experiments.running.recording import QUEUE_COUNTERS
from mrc_lab.reports.metrics import compute
from p4runtime_shim.traffic_manager import PortSample
from tests.mrc_lab.experiments.running.cases import case_of, run
from topologies.clos import multi_plane_clos

INCAST = "{kind: incast, target: h1, sources: [h3, h4]}"
QUEUES = {"measure": "{bin: 10us, warmup: 20us, queues: yes}"}


def depth(case, recording, **selection):
    return compute("queue_depth", case, recording, Selection(**selection))


def test_queue_and_pause_samples_are_assigned_to_the_right_channels():
    fabric = multi_plane_clos(planes=1, t0=1, t1=0, hosts=2)
    channels = ("h1@p0>", "h1@p0<", "h2@p0>", "h2@p0<")
    sampler = QueueSampler(fabric, channels)
    assert (sampler.sample({}) == -1).all()
    found = sampler.sample({"t0-0@p0": (70, {1: PortSample(5, 6, 7, 8, 9), 2: PortSample(1, 2, 3, 0, 0)})})
    assert found.tolist() == [
        [-1, -1, -1, -1, 8, 9],  # a NIC has no queue, and was paused by port 1
        [70, 5, 6, 7, -1, -1],  # nobody pauses a switch here
        [-1, -1, -1, -1, 0, 0],
        [70, 1, 2, 3, -1, -1],
    ]
    assert (sampler.sample({}) == found).all(), "a switch that does not answer is as it was"


def test_an_incast_queues_only_at_its_target():
    case = case_of(INCAST, "200us", **QUEUES)
    recording = run(case)
    assert recording.queue_samples.shape == (len(recording.times), len(recording.channels), len(QUEUE_COUNTERS))
    at_target = depth(case, recording, link="h1@p*<")
    assert at_target == depth(case, recording), "the deepest of all"
    assert depth(case, recording, link="h3@p0<") < 5_000
    assert 100_000 < depth(case, recording, link="h1@p0<", statistic="mean") < at_target
    low, middle, high = (depth(case, recording, link="h1@p0<", statistic=name) for name in ("min", "median", "p99"))
    assert 0 < low < middle < high <= at_target
    both = depth(case, recording, link="h1@p*<", over_links="sum", statistic="mean")
    assert both == pytest.approx(
        sum(depth(case, recording, link=f"h1@p{plane}<", statistic="mean") for plane in range(2))
    )


def test_mean_and_peak_cover_the_time_between_samples():
    """However wide the bins, which is where the depth is sampled, mean and peak are the same."""
    narrow, wide = (
        case_of(INCAST, "200us", measure=f"{{bin: {width}, queues: yes}}", fabric="{hosts: 4, t0: 2, t1: 2}")
        for width in ("1us", "100us")
    )
    found = [
        [depth(case, run(case), statistic=name, link="h1@p0<") for name in ("max", "mean")] for case in (narrow, wide)
    ]
    assert found[0] == pytest.approx(found[1])


def test_without_contention_queues_are_nearly_empty():
    case = case_of("{kind: write_bw, pairs: h1>h2}", "200us", **QUEUES)
    assert depth(case, run(case)) < 20_000


def test_queues_are_sampled_only_on_request_without_changing_the_run():
    without, with_them = case_of(INCAST, "200us"), case_of(INCAST, "200us", **QUEUES)
    plain, sampled = run(without), run(with_them)
    assert plain.queue_samples is None
    assert (plain.flow_samples == sampled.flow_samples).all()


def test_paused_time_is_counted_at_the_paused_ports():
    parts = {"fabric": "{planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G, pfc: yes}", "transport": "{type: rc, qps: 4}"}
    case = case_of("{kind: incast, target: h1, sources: [h2, h3, h4]}", "300us", **parts, **QUEUES)
    recording = run(case)

    def paused(metric="pause_time", **selection):
        return compute(metric, case, recording, Selection(**selection))

    window = recording.end - 20_000
    assert 0.2 * window < paused(link="h2@p0>") < window, "it has two thirds of its rate and more"
    assert paused(link="h1@p0>") == 0, "which sends nothing"
    assert paused(over_links="max") >= paused(link="h2@p0>")
    assert paused(link="h2@p*>") == pytest.approx(paused(link="h2@p0>") + paused(link="h2@p1>"))
    assert paused("pauses", link="h2@p0>") > 3
    assert np.diff(recording.queue_samples[:, :, QUEUE_COUNTERS.index("paused_ns")], axis=0).min() >= 0


HEAD = "fabric: {hosts: 4, t0: 2, t1: 2}\nworkload: {kind: permutation}\nduration: 100us\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("report: [{metric: queue_depth}]", r"line 4: report\[0\]: queue_depth is not measured: write measure: {queue"),
        ("measure: {queues: yes}\nreport: [{metric: pauses}]", "pauses is of priority flow control, which is off"),
        ("measure: {queues: perhaps}", "measure.queues: must be yes or no"),
        ("report: [{metric: throughput, of: {link: h1@p0}}]", "link belongs to link_throughput, queue_depth"),
        ("report: [{metric: throughput, of: {over_links: max}}]", "over_links belongs to queue_depth, pause_time"),
        ("measure: {queues: yes}\nreport: [{metric: queue_depth, of: {link: h9@p0}}]", "no link that matches 'h9@p0'"),
        ("measure: {queues: yes}\nreport: [{metric: queue_depth, of: {over_links: p9}}]", "'p9' is unknown"),
        (
            "expect: [{metric: queue_depth, relation: at_most, value: 5us}]\nmeasure: {queues: yes}",
            "value: must be a size such as 64K or 1M",
        ),
    ],
)
def test_unmeasurable_metrics_are_refused(text, problem):
    with pytest.raises(FileError) as found:
        load_text(HEAD + text)
    assert problem.replace("\\", "") in str(found.value)


def test_bmv2_is_refused_before_anything_starts():
    backend = emulated_backend.emulated_backend(case_of(INCAST, **QUEUES), 1e-3, "bmv2")
    with pytest.raises(ExperimentError, match="BMv2 does not say what waits in its queues"):
        backend.__enter__()
