import dataclasses

import numpy as np
import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.running.run_case import span
from mrc_lab.experiments.running.run_experiment import run_experiment
from tests.mrc_lab.experiments.running.cases import case_of, run

WRITE = "{kind: write_bw, pairs: h1>h3, message: 64K, outstanding: 16}"


def test_flows_reach_line_rate_with_every_byte_verified():
    recording = run(case_of("{kind: write_bw, pairs: h1>h3, bidirectional: yes, message: 64K, outstanding: 16}"))
    assert [flow.name for flow in recording.flows] == ["h1>h3", "h3>h1"]
    rates = recording.rates()[2:]
    assert np.median(rates, axis=0) == pytest.approx([191e9, 191e9], rel=0.03)
    assert (recording.wrong_bytes, recording.checked_bytes) == (0, 2 * 65536)
    assert recording.errors == ()
    assert recording.nic_bps == 200 * 10**9


def test_bins_have_the_requested_width_and_end_with_the_run():
    recording = run(case_of(WRITE, duration="95us"))
    assert list(recording.times) == [*range(0, 95_000, 10_000), 95_000]
    assert recording.flow_samples.shape == (11, 1, 6)
    assert recording.link_samples.shape == (11, len(recording.channels), 3)
    assert (np.diff(recording.flow_samples, axis=0) >= 0).all()
    assert (np.diff(recording.link_samples, axis=0) >= 0).all()


def test_a_reached_total_ends_the_run_early():
    recording = run(case_of("{kind: write_bw, pairs: h1>h3, message: 64K, total: 256K}", duration="5ms"))
    assert len(recording.messages) == 4
    assert recording.flow_samples[-1, 0, 0] == 64
    assert recording.end < 5_000_000


def test_a_fault_affects_the_throughput_of_its_link():
    faults = "[{kind: loss, at: 20us, until: 60us, link: 't0-0:t1-0@p0', towards: 't1-0@p0', probability: 1}]"
    recording = run(case_of(WRITE, faults=faults))
    lost = recording.link_samples[-1, :, 2]
    assert [line for line, count in zip(recording.channels, lost, strict=True) if count] == ["t0-0:t1-0@p0>"]
    assert {(record.new, record.plane) for record in recording.paths if record.reason == "loss"} == {("assumed_bad", 0)}
    over_two_links = 2 * (1000 + 400)  # ns at most: what is on its way when the fault begins is lost as it arrives
    assert all(record.first_loss >= 20_000 - over_two_links for record in recording.paths if record.reason == "loss")
    assert recording.flow_samples[-1, 0, 4] >= 1
    (fault,) = recording.faults
    assert (fault.at, fault.until, fault.links) == (20_000, 60_000, ("t0-0:t1-0@p0",))


@pytest.mark.parametrize("kind", ["mrc", "rc", "uet"])
def test_queue_pairs_keep_to_the_planes_of_the_file(kind):
    recording = run(case_of(WRITE, transport=f"{{type: {kind}, planes: [1]}}"))
    frames = dict(zip(recording.channels, recording.link_samples[-1, :, 0], strict=True))
    assert frames["h1@p1>"] >= 64
    assert frames["h1@p0>"] + frames["h3@p0>"] < 16, "what is between NICs"


def test_a_port_that_goes_down_is_recorded_on_both_sides():
    recording = run(case_of(WRITE, faults="[{kind: link_down, at: 30us, until: 60us, link: h1@p1}]"))
    seen = [(record.host, record.port, record.up, record.local) for record in recording.ports]
    assert ("h1", 1, False, True) in seen
    assert ("h3", 1, False, False) in seen
    assert ("h1", 1, True, True) in seen


def test_rc_uses_one_path_per_queue_pair():
    recording = run(case_of(WRITE, transport="{type: rc, qps: 1}"))
    ups = [n for n, line in enumerate(recording.channels) if line.startswith("t0-0:") and line.endswith(">")]
    used = [recording.channels[n] for n in ups if recording.link_samples[-1, n, 0] > 2]
    assert len(used) == 1
    assert recording.paths == ()


def test_several_queue_pairs_share_a_flow():
    recording = run(case_of(WRITE, transport="{qps: 4}"))
    assert recording.flows[0].qps == 4
    assert np.median(recording.rates()[2:, 0]) == pytest.approx(191e9, rel=0.03)


def test_a_path_count_bounds_the_paths_in_use():
    recording = run(case_of(WRITE, transport="{paths: 2}", fabric="{planes: 2, t0: 2, t1: 8, hosts: 4, rate: 100G}"))
    ups = [n for n, line in enumerate(recording.channels) if line.startswith("t0-0:") and line.endswith(">")]
    used = [n for n in ups if recording.link_samples[-1, n, 1] > 100_000]
    assert len(used) == 2


def test_transport_settings_are_applied():
    small = run(case_of(WRITE, transport="{attributes: {path_mtu: 1024}}"))
    assert small.flows[0].payload == 1024
    slow = run(case_of(WRITE, transport="{window: 8K}"))
    assert 0 < np.median(slow.rates()[2:, 0]) < 50e9


def test_failures_are_recorded_not_raised():
    faults = "[{kind: link_down, at: 20us, link: 'h3@*'}]"
    transport = "{attributes: {retry_count: 1, timeout: 1}}"
    recording = run(case_of(WRITE, duration="3ms", faults=faults, transport=transport))
    assert any("retry" in error for error in recording.errors)


def test_a_run_in_which_nothing_arrives_has_errors():
    recording = run(case_of(WRITE, faults="[{kind: link_down, at: 0us, link: 'h3@*'}]"))
    assert (recording.messages, recording.checked_bytes) == ((), 0)
    assert recording.errors == ("no write completed before the run ended: there is nothing to judge",)


def test_the_same_seed_gives_the_same_recording_and_another_does_not():
    case = case_of(WRITE, faults="[{kind: loss, at: 0us, link: 't0-*', probability: 1%}]")
    first, again, other = run(case, 3), run(case, 3), run(case, 4)
    for field in dataclasses.fields(first):
        a, b = getattr(first, field.name), getattr(again, field.name)
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b, field.name
    assert not np.array_equal(first.flow_samples, other.flow_samples)


def test_only_requested_links_are_sampled():
    recording = run(case_of(WRITE, measure="{bin: 10us, warmup: 20us, links: no}"))
    steps = np.diff(recording.link_samples, axis=0)
    assert not steps[:-1].any()
    assert steps[-1].any()


def test_all_variants_are_run_and_reported():
    text = (
        "fabric: {hosts: 2}\nworkload: {kind: write_bw, pairs: h1>h2, message: 4K}\nduration: 30us\n"
        "variants: [{name: a}, {name: b, transport: {type: rc}}]\n"
    )
    notices = []
    recordings = run_experiment(load_text(text, name="x"), "sim", 1, notify=notices.append)
    assert list(recordings) == ["a", "b"]
    assert [line for line in notices if line.startswith("x: ")] == ["x: a (1 of 2)", "x: b (2 of 2)"]


def test_errors_of_the_backend_are_reported(monkeypatch):
    from mrc_lab.experiments.running import simulated_backend
    from simulation.errors import SimulationError

    def refuse(*args, **kwargs):
        raise SimulationError("No.")

    monkeypatch.setattr(simulated_backend, "SimulatedWorld", refuse)
    text = "fabric: {hosts: 2}\nworkload: {kind: write_bw, pairs: h1>h2}\nduration: 30us\n"
    with pytest.raises(ExperimentError, match=r"^x: No"):
        run_experiment(load_text(text, name="x"), "sim", 1)


def test_faults_are_described_in_words():
    case = case_of(WRITE, faults="[{kind: power_off, at: 1us, switch: t1-1@p0}]")
    found = span(case.faults[0], build_fabric(case.fabric), 2.0)
    assert (found.label, found.at, found.until) == ("power off t1-1@p0", 2000, None)
    assert found.links == ("t0-0:t1-1@p0", "t0-1:t1-1@p0")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("{kind: path_loss, at: 1us, plane: 0, uplink: 0, probability: 0.5%, source: h1}",
         "path loss ev 0x0 probability 0.5 % source h1"),
        ("{kind: port_down, at: 1us, node: h1, port: 0}", "port down h1 port 0"),
        ("{kind: flap, at: 1us, link: h1@p0, down: 2us, up: 5us, random: yes}",
         "flap h1@p0 down 2 us up 5 us random"),
        ("{kind: rate, at: 1us, link: h1@p0, rate: 40G, towards: h1}", "rate h1@p0 40 Gb/s towards h1"),
        ("{kind: delay, at: 1us, link: h1@p0, extra: 1.5us}", "delay h1@p0 1.5 us"),
    ],
)  # fmt: skip
def test_fault_descriptions_have_units_and_include_zeros(fault, words):
    case = case_of(WRITE, faults=f"[{fault}]")
    assert span(case.faults[0], build_fabric(case.fabric)).label == words


def test_fault_descriptions_are_scaled_like_the_run():
    case = case_of(WRITE, faults="[{kind: rate, at: 1us, link: h1@p0, rate: 40G}]")
    assert span(case.faults[0], build_fabric(case.fabric), 1000.0).label == "rate h1@p0 40 Mb/s"


def test_switch_drops_are_reported_per_link_direction():
    faults = "[{kind: link_down, at: 20us, until: 60us, link: 't0-1:t1-*@p0'}]"
    dropped = run(case_of(WRITE, transport="{type: rc, qps: 4}", faults=faults)).drops
    assert dropped
    assert all(reason.startswith("port down, t0-1:t1-") for reason in dropped), dropped


@pytest.mark.parametrize("kind", ["rc", "rc_sr", "rc_ar"])
def test_reroutes_are_recorded_and_let_a_flow_on_one_path_go_on(kind):
    head = "fabric: {{planes: 1, t0: 2, t1: 2, hosts: 4, rate: 100G{}}}\ntransport: {{type: {}}}\n"
    text = (
        "workload: {kind: write_bw, pairs: h1>h3, message: 64K, total: 2M}\nduration: 20ms\n"
        "faults:\n  - {kind: power_off, at: 20us, until: 5ms, switch: t1-0@p0}\n"
        "  - {kind: link_down, at: 6ms, link: 't0-0:t1-1@p0'}\n"
    )
    (case,) = load_text(head.format(", reroute: 50us", kind) + text, name="x").cases
    recording = run(case)
    assert recording.errors == ()
    assert len(recording.messages) == 32
    assert all(message.ok for message in recording.messages)
    both = "t0-0:t1-0@p0, t0-1:t1-0@p0"
    assert [(one.time, one.plane, one.text) for one in recording.reroutes[:1]] == [
        (70_000, 0, f"without {both}: 14 entries")
    ]
    (case,) = load_text(head.format("", kind) + text, name="x").cases
    assert run(case).reroutes == ()
