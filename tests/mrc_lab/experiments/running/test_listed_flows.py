"""Flows of a connection matrix in the simulated world: when each begins, and what is recorded of it."""

from __future__ import annotations

import random

import pytest

from mrc_lab.experiments.files import load_file
from mrc_lab.workloads.htsim.connection_matrix import ConnectionMatrix, TriggerKind
from tests.mrc_lab.experiments.running.cases import run
from tests.mrc_lab.workloads.htsim.random_files import random_matrix
from tests.seeds import SEED

HEAD = "fabric: {planes: 1, t0: 4, t1: 2, hosts: 8, rate: 100G}\n"
BACK_NS = 4_000  # that the last acknowledgement takes over four links, at least


def records_of(folder, matrix, keys="", transport="{type: mrc}", duration="20ms"):
    (folder / "x.cm").write_text(matrix)
    text = f"workload: {{kind: htsim, file: x.cm{keys}}}\ntransport: {transport}\nduration: {duration}\n"
    (folder / "x.yaml").write_text(HEAD + text + "measure: {bin: 100us}\n")
    recording = run(load_file(folder / "x.yaml").cases[0])
    return recording, list(recording.flow_records)


def test_flows_begin_at_their_times_with_their_sizes(tmp_path):
    matrix = "Nodes 8\nConnections 3\n0->5 start 0 size 1000\n7->1 start 2500499 size 300000\n0->5 start 1000 size 5\n"
    recording, records = records_of(tmp_path, matrix)
    assert recording.errors == ()
    assert recording.wrong_bytes == 0
    assert [(one.began, one.size, recording.flows[one.flow].name) for one in records] == [
        (0, 1000, "h1>h6"),
        (2500, 300_000, "h8>h2"),
        (1, 5, "h1>h6"),
    ]


@pytest.mark.parametrize("transport", ["{type: mrc}", "{type: mrc, qps: 3}", "{type: rc}", "{type: uet}"])
@pytest.mark.parametrize("connections", ["own", "shared"])
def test_a_flow_begins_when_the_one_before_it_is_done_at_that_end(tmp_path, transport, connections):
    matrix = """Nodes 8
Connections 4
Triggers 2
0->5 id 1 start 0 size 300000 send_done_trigger 1 recv_done_trigger 2
1->6 id 2 trigger 1 size 100
2->7 id 3 trigger 2 size 100
2->7 id 4 trigger 2 size 100
trigger id 1 oneshot
trigger id 2 oneshot
"""
    keys = f", connections: {connections}, message: 64K, outstanding: 2"
    recording, (first, sender, one, two) = records_of(tmp_path, matrix, keys, transport)
    assert recording.errors == ()
    assert sender.began == first.ended
    assert one.began == two.began
    assert BACK_NS <= first.ended - one.began < 2 * BACK_NS


def test_flows_that_do_not_begin_are_an_error_and_have_a_row(tmp_path):
    matrix = "Nodes 8\nConnections 2\nTriggers 1\n0->5 id 1 start 0 size 300000000 send_done_trigger 1\n"
    matrix += "1->6 id 2 trigger 1 size 100\ntrigger id 1 oneshot\n"
    recording, records = records_of(tmp_path, matrix, duration="100us")
    assert [one.ended for one in records] == [None, None]
    assert any("1 flows had not begun when the run ended" in error for error in recording.errors)


def expected(matrix: ConnectionMatrix, records) -> list[int]:
    """When each flow begins, by the times at which those before it ended; of the receivers' end the best guess."""
    begins = [flow.start_ns for flow in matrix.flows]
    for trigger in matrix.triggers:
        waiting = [number for number, flow in enumerate(matrix.flows) if flow.trigger == trigger.id]
        times = sorted(
            records[number].ended
            for number, flow in enumerate(matrix.flows)
            if trigger.id in (flow.send_done_trigger, flow.recv_done_trigger)
        )
        for place, number in enumerate(waiting):
            begins[number] = times[place] if trigger.kind is TriggerKind.MULTISHOT else times[-1]
    return begins


def test_random_matrices_run_in_the_order_of_their_triggers(tmp_path):
    for seed in range(SEED, SEED + 12):
        matrix = random_matrix(random.Random(seed), nodes=8, largest=200_000)
        matrix = ConnectionMatrix(8, matrix.flows, matrix.triggers)
        recording, records = records_of(tmp_path, matrix.text())
        assert recording.errors == (), f"seed {seed}"
        assert all(record.ended is not None for record in records), f"seed {seed}"
        for record, begin in zip(records, expected(matrix, records), strict=True):
            assert begin - 200_000 <= record.began <= begin, f"seed {seed}, flow {record.number}"
