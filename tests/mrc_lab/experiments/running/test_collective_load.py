import itertools

import numpy as np
import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files.workloads import OPERATIONS
from mrc_lab.experiments.running.collective_load import BUS_FACTOR, channels, ordered_hosts
from tests.mrc_lab.experiments.running.cases import case_of, run
from topologies.clos import multi_plane_clos


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_runs_with_its_result_verified(operation):
    case = case_of(
        f"{{kind: collective, operation: {operation}, bytes: 64K, iterations: 2, warmup: 1, chunk: 8K}}", "5ms"
    )
    recording = run(case)
    assert recording.errors == ()
    assert [record.counted for record in recording.operations] == [False, True, True]
    assert recording.wrong_bytes == 0
    assert recording.checked_bytes > 0
    assert recording.end < 5_000_000
    assert recording.flow_samples[-1, :, 0].sum() > 0


def test_channels_carry_equal_parts():
    one = run(case_of("{kind: collective, operation: all_reduce, bytes: 256K}", "5ms"))
    four = run(case_of("{kind: collective, operation: all_reduce, bytes: 256K}", "5ms", transport="{qps: 4}"))
    assert four.flows[0].qps == 4
    assert four.checked_bytes == one.checked_bytes
    assert (one.wrong_bytes, four.wrong_bytes) == (0, 0)


def test_chunks_alternate_over_queue_pairs_with_a_correct_result():
    text = "{kind: collective, operation: all_reduce, bytes: 256K, chunk: 8K, spread: chunks}"
    for kind in ("mrc", "rc"):
        recording = run(case_of(text, "5ms", transport=f"{{qps: 3, type: {kind}}}"))
        assert recording.errors == ()
        assert recording.flows[0].qps == 3
        assert recording.wrong_bytes == 0
        assert recording.checked_bytes == 4 * (256 << 10)  # hosts


@pytest.mark.parametrize(("spread", "rings"), [("chunks", 4), ("parts", 12)])
def test_channels_are_rings_with_queue_pairs_of_their_own(spread, rings):
    text = f"{{kind: collective, operation: all_reduce, bytes: 192K, chunk: 8K, channels: 4, spread: {spread}}}"
    case = case_of(text, "5ms", transport="{qps: 3}")
    assert channels(case.workload, 3) == rings
    recording = run(case)
    assert recording.errors == ()
    assert recording.flows[0].qps == 4 * 3
    assert (recording.wrong_bytes, recording.checked_bytes) == (0, 4 * (192 << 10))


def test_losses_on_different_channels_are_waited_for_at_the_same_time():
    loss = '[{kind: loss, at: 0us, link: "h*", towards: "h*", probability: 1%}]'
    took = {}
    for number in (1, 8):
        text = f"kind: collective, operation: all_reduce, bytes: 512K, chunk: 16K, channels: {number}, spread: chunks"
        recording = run(case_of(f"{{{text}}}", "100ms", transport="{type: rc, attributes: {timeout: 8}}", faults=loss))
        assert recording.errors == ()
        assert recording.wrong_bytes == 0
        took[number] = recording.operations[0].ended - recording.operations[0].began
    assert took[8] < took[1]


@pytest.mark.parametrize(
    ("load", "problem"),
    [
        ("kind: collective, operation: all_reduce, bytes: 64, channels: 5",
         "5 channels among 4 hosts need operations of at least 80 bytes, not 64"),
        ("kind: training, steps: 1, gradients: [64K, 64], channels: 5", "at least 80 bytes, not 64"),
        ("kind: collective, operation: all_reduce, bytes: 64, channels: 0", "channels"),
    ],
)  # fmt: skip
def test_channels_without_anything_to_do_are_refused(load, problem):
    with pytest.raises(FileError, match=problem):
        case_of(f"{{{load}}}", "1ms")


def test_a_collective_that_takes_too_long_is_an_error():
    recording = run(case_of("{kind: collective, operation: all_reduce, bytes: 4M}", "40us"))
    assert any("only 0 of 1 operations" in error for error in recording.errors)


def test_a_wrong_result_is_detected(monkeypatch):
    from mrc_lab.workloads.collectives import Communicator

    async def nothing(self, send, receive):
        receive[:] = send

    monkeypatch.setattr(Communicator, "all_reduce", nothing)
    recording = run(case_of("{kind: collective, operation: all_reduce, bytes: 4K}", "1ms"))
    assert recording.wrong_bytes > 0


def test_bus_factors_match_nccl_tests():
    assert BUS_FACTOR["all_reduce"](4) == 1.5
    assert BUS_FACTOR["all_gather"](4) == 0.75
    assert BUS_FACTOR["broadcast"](4) == 1


def test_interleaved_ring_neighbours_are_below_different_t0s():
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=8)
    load = case_of("{kind: collective, operation: broadcast, bytes: 4, interleave: yes}").workload
    names = ordered_hosts(load, fabric)
    assert sorted(names) == sorted(fabric.nic_names)
    assert all(fabric.nic(a).t0 != fabric.nic(b).t0 for a, b in itertools.pairwise(names))


class TestTraining:
    TEXT = (
        "{{kind: training, steps: 2, warmup: 1, gradients: [64K, 32K], chunk: 8K,"
        " compute: {compute}, overlap: {overlap}}}"
    )

    def steps(self, compute, overlap="yes", gradients="[64K, 32K]"):
        text = self.TEXT.format(compute=compute, overlap=overlap).replace("[64K, 32K]", gradients)
        recording = run(case_of(text, "5ms"))
        assert recording.errors == ()
        assert recording.wrong_bytes == 0
        assert [record.counted for record in recording.operations] == [False, True, True]
        return recording, recording.operations[-1].ended - recording.operations[-1].began

    def test_a_step_is_compute_plus_gradient_exchange_with_correct_sums(self):
        recording, took = self.steps("100us")
        assert took > 100_000
        assert recording.operations[0].size == 96 << 10
        assert recording.checked_bytes == 3 * 4 * (96 << 10)  # steps, hosts

    def test_overlap_hides_communication_behind_compute(self):
        computing = 200_000
        _, alone = self.steps("0us")
        _, behind = self.steps("200us", "no")
        _, beside = self.steps("200us", "yes")
        assert behind >= computing + alone * 0.9
        assert computing < beside < behind

    def test_a_single_bucket_needs_no_brackets(self):
        recording, _ = self.steps("0us", gradients="64K")
        assert recording.operations[0].size == 64 << 10

    def test_a_job_that_does_not_finish_is_an_error(self):
        text = self.TEXT.format(compute="100us", overlap="yes")
        recording = run(case_of(text, "250us"))
        assert any("only 1 of 2 steps" in error or "only 0 of 2 steps" in error for error in recording.errors)


class TestComputing:
    """Jitter and stragglers of ranks."""

    STEPS = "{{kind: training, steps: 6, gradients: 16K, compute: 100us, {more}}}"
    OPERATIONS = "{{kind: collective, operation: all_reduce, bytes: 16K, iterations: 6, {more}}}"

    def times(self, text, more="", seed=1):
        recording = run(case_of(text.format(more=more), "5ms"), seed)
        assert recording.errors == ()
        assert recording.wrong_bytes == 0
        return np.array([one.ended - one.began for one in recording.operations])

    def test_a_straggler_delays_every_step_by_its_lateness(self):
        usual = self.times(self.STEPS)
        late = self.times(self.STEPS, "stragglers: {hosts: h3, slowdown: 2.5}")
        assert late - usual == pytest.approx(150_000, rel=0.02)

    def test_a_straggler_of_some_steps_delays_only_those(self):
        usual = self.times(self.STEPS).mean()
        extra = (
            np.concatenate(
                [self.times(self.STEPS, "stragglers: {hosts: h3, slowdown: 3, share: 50%}", seed) for seed in range(5)]
            )
            - usual
        )
        slow = extra > 100_000
        assert 6 <= slow.sum() <= 24, "30 steps"
        assert extra[slow] == pytest.approx(200_000, rel=0.02)
        assert extra[~slow] == pytest.approx(0, abs=2_000)

    def test_jitter_follows_the_seed_and_a_step_waits_for_the_slowest_of_four(self):
        usual = self.times(self.STEPS).mean()
        found = self.times(self.STEPS, "jitter: 20%", 3)
        assert list(found) == list(self.times(self.STEPS, "jitter: 20%", 3))
        assert list(found) != list(self.times(self.STEPS, "jitter: 20%", 4))
        extra = np.concatenate([self.times(self.STEPS, "jitter: 20%", seed) for seed in range(5)]) - usual
        assert -20_000 < extra.min() < extra.max() < 21_000
        assert extra.mean() == pytest.approx(12_000, abs=4_000), "the mean of the largest of four is at 4/5"

    def test_a_collective_is_timed_from_its_first_rank(self):
        usual = self.times(self.OPERATIONS)
        assert self.times(self.OPERATIONS, "compute: 50us") == pytest.approx(usual, rel=0.2), "all wait equally long"
        late = self.times(self.OPERATIONS, "compute: 50us, stragglers: {hosts: h2, slowdown: 3}")
        assert late - usual == pytest.approx(100_000, rel=0.05)

    def test_a_workload_may_begin_later(self):
        for text in (self.STEPS, self.OPERATIONS):
            recording = run(case_of(text.format(more="start: 70us"), "5ms"))
            assert recording.operations[0].began == 70_000


def test_a_hierarchical_all_reduce_is_correct_and_has_the_flows_of_both_rings():
    text = "{kind: collective, operation: all_reduce, bytes: 256K, iterations: 2, clusters: 2, chunk: 8K}"
    recording = run(case_of(text, "5ms", transport="{qps: 2}"))
    assert recording.errors == ()
    assert (recording.wrong_bytes, recording.checked_bytes) == (0, 2 * 4 * (256 << 10))
    assert {flow.name for flow in recording.flows} == {
        *("h1>h2", "h2>h1", "h3>h4", "h4>h3"), *("h1>h3", "h3>h1", "h2>h4", "h4>h2")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("operation: all_gather, clusters: 2", "clusters are for all_reduce, not for all_gather"),
        ("operation: all_reduce, clusters: 3", "4 hosts cannot be divided evenly among 3 clusters"),
        ("operation: all_reduce, clusters: 2, interleave: yes", "interleave would mix the hosts of clusters"),
    ],
)
def test_invalid_clusters_are_refused(text, problem):
    with pytest.raises(FileError, match=problem):
        case_of(f"{{kind: collective, bytes: 64K, {text}}}", "1ms")
