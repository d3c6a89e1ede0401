"""Runs of the scale backend against what ports carry and the file says; beside packets in `tests/mrc_lab/scale`."""

from __future__ import annotations

import numpy as np
import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running.recording import FLOW_COUNTERS, Recording
from mrc_lab.experiments.running.run_experiment import run_experiment

HEADERS = 4096 / (4096 + 142 + 24)  # of a packet, in payload
PORT = 100e9
FABRIC = "fabric: {hosts: 16, planes: 4, t0: 4, t1: 8, rate: 100G}\n"
PERMUTATION = "workload: {kind: permutation, shift: 4, message: 128K, outstanding: 64}\n"
REST = "duration: 2ms\nmeasure: {bin: 100us}\n"


def recorded(text: str, seed: int = 1) -> Recording:
    return run_experiment(load_text(text), "scale", seed)["only"]


def total(recording: Recording, counter: str) -> int:
    return int(recording.flow_samples[-1, :, FLOW_COUNTERS.index(counter)].sum())


def test_flows_fill_the_ports_of_their_nics():
    rates = recorded(FABRIC + PERMUTATION + REST).rates()
    assert rates.shape == (20, 16)
    assert rates == pytest.approx(4 * PORT * HEADERS, rel=0.006)  # acknowledgements take half a per cent


def test_a_plane_of_one_port_less_is_lost_whole_and_back_with_the_port():
    fault = "faults: [{kind: link_down, link: h1@p2, at: 500us, until: 1ms}]\n"
    rates = recorded(FABRIC + PERMUTATION + REST + fault).rates()[:, 0]
    assert rates[7] == pytest.approx(0.75 * rates[3], rel=1e-3)
    assert rates[15] == pytest.approx(rates[3], rel=1e-3)


def test_a_slower_port_holds_back_all_planes():
    fault = "faults: [{kind: rate, link: h1@p2, rate: 50G, at: 500us}]\n"
    rates = recorded(FABRIC + PERMUTATION + REST + fault).rates()[:, 0]
    assert rates[15] == pytest.approx(0.5 * rates[3], rel=1e-2)


SUBSETS = """
fabric: {hosts: 16, planes: 2, pods: 2, t0: 2, t1: 4, t2: 8, rate: 100G}
transport: {qps: 2, paths: 8}
workload: {kind: permutation, shift: 6, message: 128K, outstanding: 16}
duration: 20ms
measure: {bin: 1ms}
"""


@pytest.mark.parametrize(
    "faults",
    [
        "- {kind: blackhole, switch: 't1-[0-1]@p0', at: 1ms, until: 3ms}",
        "- {kind: flap, link: 't0-*:t1-*@p1', down: 100us, up: 900us, at: 100us}",
        "- {kind: blackhole, switch: 't2-[0-4]@p*', at: 0ns, until: 4ms}",
        "- {kind: loss, link: 't1-*:t2-[0-3]@p*', probability: 0.2%, at: 0ns, until: 9ms}\n"
        "- {kind: blackhole, switch: 't1-0@p0', at: 1ms, until: 12ms}\n"
        "- {kind: flap, link: 't0-*:t1-*@p1', down: 100us, up: 900us, at: 100us}",
    ],
)
def test_a_path_that_a_queue_pair_gave_up_comes_back_before_it_fails_again(faults: str) -> None:
    recording = recorded(f"{SUBSETS}faults:\n{faults}\n")
    states: dict[tuple[int, int, int], str] = {}
    for path in sorted(recording.paths, key=lambda path: path.time):
        place = path.flow, path.qpn, path.ev
        assert path.old == states.get(place, "good")
        states[place] = path.new
    assert len({qpn for _, qpn, _ in states}) == 2
    assert recording.bad_paths == sum(state == "assumed_bad" for state in states.values())
    assert total(recording, "retransmitted") >= len([path for path in recording.paths if path.new == "assumed_bad"]) > 0


def test_paths_over_a_dead_link_are_bad_for_all_that_use_it_until_probes_are_answered():
    fault = "faults: [{kind: link_down, link: 't0-0:t1-0@p0', at: 500us, until: 1ms}]\n"
    recording = recorded(FABRIC + PERMUTATION + REST + fault)
    went = [record for record in recording.paths if record.new == "assumed_bad"]
    back = [record for record in recording.paths if record.new == "good"]
    users = {
        number
        for number, flow in enumerate(recording.flows)
        if {flow.source, flow.destination} & {"h1", "h2", "h3", "h4"}
    }
    assert {record.flow for record in went} == {record.flow for record in back} == users
    assert {(record.ev, record.plane) for record in went} == {(0, 0)}
    assert min(record.time for record in back) > 1_000_000 > 520_000 > max(record.time for record in went)
    assert recording.bad_paths == 0
    assert total(recording, "lost") == total(recording, "retransmitted") > len(users)


def test_a_link_that_stays_dead_leaves_its_paths_bad():
    fault = "faults: [{kind: link_down, link: 't0-0:t1-0@p0', at: 500us}]\n"
    recording = recorded(FABRIC + PERMUTATION + REST + fault)
    assert recording.bad_paths == len({record.flow for record in recording.paths}) == 8


def test_a_flow_that_begins_later_finds_out_for_itself():
    work = "workload: {kind: write_bw, pairs: [h1>h5], start: 1ms, message: 128K}\n"
    fault = "faults: [{kind: blackhole, switch: t1-0@p0, at: 0ns}]\n"
    recording = recorded(FABRIC + work + REST + fault)
    assert recording.bad_paths == 1
    assert recording.paths[0].time > 1_000_000


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    fault = "faults: [{kind: loss, link: 't0-*:t1-0@p*', probability: 1%, at: 0ns}]\n"
    first, again, other = (recorded(FABRIC + PERMUTATION + REST + fault, seed) for seed in (1, 1, 2))
    assert (first.flow_samples == again.flow_samples).all()
    assert first.paths == again.paths
    assert (first.flow_samples != other.flow_samples).any()


def test_a_flow_of_a_size_ends_when_it_is_through():
    work = "workload: {kind: write_bw, pairs: [h1>h5], message: 1M, total: 8M}\n"
    recording = recorded(FABRIC + work + REST)
    (flow,) = recording.flow_records
    assert flow.time == pytest.approx(flow.ideal, rel=0.02)
    assert len(recording.messages) == 8
    assert total(recording, "received") == 8 << 20 >> 12
    assert recording.end < 2_000_000


def test_an_all_reduce_takes_what_its_ranks_send():
    work = "workload: {kind: collective, operation: all_reduce, bytes: 16M, iterations: 2, slots: 64, chunk: 64K}\n"
    recording = recorded(FABRIC + work + "duration: 10ms\nmeasure: {bin: 100us}\n")
    sent = 2 * 15 / 16 * (16 << 20) * 8e9 / (4 * PORT * HEADERS)
    assert [one.ended - one.began for one in recording.operations] == pytest.approx([sent] * 2, rel=0.03)
    assert recording.errors == ()


def test_a_straggler_holds_up_the_step():
    late = ", stragglers: [{hosts: h3, slowdown: 3}]"
    work = f"workload: {{kind: training, gradients: [1M], compute: 100us, steps: 2{late}}}\n"
    quick, slow = (
        recorded(FABRIC + text + "duration: 10ms\nmeasure: {bin: 100us}\n").operations
        for text in (work.replace(late, ""), work)
    )
    assert [(b.ended - b.began) - (a.ended - a.began) for a, b in zip(quick, slow, strict=True)] == [200_000] * 2


def test_a_job_that_is_not_done_says_so():
    work = "workload: {kind: collective, operation: all_reduce, bytes: 64M, iterations: 20}\n"
    recording = recorded(FABRIC + work + REST)
    assert "of 20 operations were done" in recording.errors[0]


def test_a_queue_pair_of_rc_fails_after_its_retries():
    rc = "transport: {type: rc, attributes: {retry_count: 2, timeout: 5}}\n"
    work = "workload: {kind: write_bw, pairs: [h1>h2], message: 128K}\n"
    fault = "faults: [{kind: link_down, link: 'h1@p*', at: 500us}]\n"
    recording = recorded(FABRIC + work + REST + rc + fault)
    assert recording.errors == ("h1>h2: nothing was acknowledged after all retries",)
    assert recording.rates()[10:].sum() == 0


def test_more_writes_than_can_be_kept_are_left_out_and_said_so(monkeypatch):
    monkeypatch.setattr("mrc_lab.experiments.running.scale_loads.MAX_MESSAGES", 10)
    recording = recorded(FABRIC + PERMUTATION + REST)
    assert recording.messages == ()
    assert any("none is recorded" in warning for warning in recording.warnings)
    assert recording.errors == ()


def test_a_plane_that_comes_back_is_met_with_what_has_died_there_meanwhile():
    faults = (
        "faults:\n"
        "- {kind: link_down, link: 'h[1-4]@p0', at: 200us, until: 1ms}\n"
        "- {kind: link_down, link: 't0-0:t1-0@p0', at: 500us}\n"
    )
    recording = recorded(FABRIC + "workload: {kind: write_bw, pairs: [h1>h5], message: 128K}\n" + REST + faults)
    assert recording.bad_paths == 1
    assert recording.paths[0].time > 1_000_000


def test_series_that_do_not_fit_are_refused_before_the_run(monkeypatch):
    monkeypatch.setattr("mrc_lab.experiments.running.scale_case.MAX_MEMORY", 10_000)
    with pytest.raises(ExperimentError, match="the series of 16 flows in 20 time bins take"):
        recorded(FABRIC + PERMUTATION + REST)


def test_there_are_no_packets_to_trace_or_to_play(tmp_path):
    experiment = load_text(FABRIC + PERMUTATION + REST)
    for wanted in ({"trace": tmp_path}, {"measure_all": True}, {"captures": ("h1@p0",)}):
        with pytest.raises(ExperimentError):
            run_experiment(experiment, "scale", 1, **wanted)


def test_counters_never_run_backwards_by_much():
    fault = "faults: [{kind: blackhole, switch: t1-0@p0, at: 1050us}]\n"
    samples = recorded(FABRIC + PERMUTATION + REST + fault).flow_samples
    assert (np.diff(samples, axis=0) >= 0).all()


ONE = "workload: {kind: write_bw, pairs: [h1>h5], message: 128K}\n"


def test_a_path_that_a_missing_link_leaves_out_is_not_bad():
    gap = FABRIC.replace("rate: 100G", "rate: 100G, links: {'t0-1:t1-0@p0': missing}")
    recording = recorded(f"{gap}{ONE}{REST}faults: [{{kind: link_down, link: 't0-0:t1-0@p0', at: 500us}}]\n")
    assert (recording.paths, recording.bad_paths, total(recording, "lost")) == ((), 0, 0)


def test_a_path_over_two_dead_links_is_back_once_both_work():
    faults = (
        "faults:\n"
        "- {kind: link_down, link: 't0-0:t1-0@p0', at: 200us, until: 400us}\n"
        "- {kind: link_down, link: 't0-1:t1-0@p0', at: 200us, until: 1ms}\n"
    )
    recording = recorded(FABRIC + ONE + REST + faults)
    assert [record.new for record in recording.paths] == ["assumed_bad", "good"]
    assert recording.paths[1].time > 1_000_000


def test_what_a_port_loses_is_missing_only_after_it_has_failed():
    fault = "faults: [{kind: link_down, link: h1@p2, at: 500us}]\n"
    rates = recorded(FABRIC + PERMUTATION + REST + fault).rates()[:, 0]
    assert rates[4] == pytest.approx(rates[3], rel=2e-3)  # a packet more or less
    assert rates[5] < 0.99 * rates[6] < 0.75 * rates[4]


TIERS = "fabric: {hosts: 32, planes: 2, pods: 2, t0: 4, t1: 4, t2: 8, rate: 100G, uplink_rate: %sG}\n"
TO_THE_OTHER_POD = "workload: {kind: permutation, shift: 16, message: 128K, outstanding: 64}\n"


def test_pods_get_no_more_than_the_uplinks_of_their_t1s():
    """Of each plane 16 ports of 100 Gb/s, 16 uplinks of T0s, and 8 of T1s."""
    rates = recorded(TIERS % 100 + TO_THE_OTHER_POD + REST).rates()[10:].mean(axis=0)
    assert rates == pytest.approx(2 * PORT / 2 * HEADERS, rel=0.006)


def test_pods_get_less_by_each_link_to_a_t2_that_is_dead_and_racks_of_one_pod_do_not():
    """One of 8 in plane 0: so much less for each of 16 flows, in both planes, as these carry the same."""
    fault = "faults: [{kind: link_down, link: 't1-0:t2-0@p0', at: 500us}]\n"
    rates = recorded(TIERS % 100 + TO_THE_OTHER_POD + REST + fault).rates()[10:].mean(axis=0)
    assert rates == pytest.approx(7 / 8 * PORT * HEADERS, rel=0.006)
    near = "workload: {kind: write_bw, pairs: [h1>h5, h17>h21], message: 128K, outstanding: 64}\n"
    recording = recorded(TIERS % 100 + near + REST + fault)
    assert recording.rates()[-1] == pytest.approx(2 * PORT * HEADERS, rel=0.006)
    assert recording.paths == ()


@pytest.mark.parametrize("kind", ["blackhole", "power_off"])
def test_a_t2_that_falls_silent_is_one_path_of_each_flow_between_pods(kind):
    fault = f"faults: [{{kind: {kind}, switch: t2-5@p1, at: 500us, until: 1ms}}]\n"
    recording = recorded(TIERS % 400 + TO_THE_OTHER_POD + REST + fault)
    went = [record for record in recording.paths if record.new == "assumed_bad"]
    assert len(went) == len({record.flow for record in went}) == 32
    assert {record.ev for record in went} == {
        2 << 23 | 5 << 13 | 1 << 10 | 2
    }  # T1 2, T2 5, plane 1, T1 2 (docs/fabrics.md)
    assert min(record.time for record in recording.paths if record.new == "good") > 1_000_000
    assert recording.bad_paths == 0


def test_a_t1_that_falls_silent_is_a_path_within_its_pod_and_one_for_each_of_its_t2s_beyond():
    fault = "faults: [{kind: blackhole, switch: t1-1@p0, at: 500us}]\n"
    work = "workload: {kind: write_bw, pairs: [h1>h5, h2>h17, h18>h6, h19>h23], message: 128K, outstanding: 64}\n"
    recording = recorded(TIERS % 400 + work + REST + fault)
    assert [sum(record.flow == flow for record in recording.paths) for flow in range(4)] == [1, 2, 2, 0]
    assert recording.bad_paths == 5


def test_a_flow_knows_of_losses_and_recoveries_sooner_within_its_pod():
    fault = "faults: [{kind: blackhole, switch: %s, at: 500us, until: 800us}]\n"
    times = []
    for pair, switch in (("h1>h5", "t1-1@p0"), ("h1>h17", "t2-2@p0")):
        work = f"workload: {{kind: write_bw, pairs: [{pair}], message: 128K, outstanding: 64}}\n"
        went, back = recorded(TIERS % 400 + work + REST + fault % switch).paths
        times.append((went.time, back.time))
    assert times[0] < times[1]
    assert times[0][1] < times[1][1]


def test_a_queue_pair_of_rc_waits_where_the_t2_that_its_switches_chose_is_dead():
    rc = "transport: {type: rc, attributes: {retry_count: 1, timeout: 5}}\n"
    fault = "faults: [{kind: blackhole, switch: '%s', at: 500us}]\n"
    work = "workload: {kind: write_bw, pairs: [h1>h17, h2>h18], message: 128K}\n"
    dead = [len(recorded(TIERS % 400 + work + REST + rc + fault % f"t2-{t2}@p*").errors) for t2 in range(8)]
    assert 2 <= sum(dead) <= 4  # of each a T2 there, and one back
    assert len(recorded(TIERS % 400 + work + REST + rc + fault % "t2-*@p*").errors) == 2
