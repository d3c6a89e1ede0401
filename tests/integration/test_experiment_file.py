"""One experiment file in the emulated world."""

import csv
import json
from collections import Counter

import pytest

from mrc_lab.cli.main import run
from tests.integration.names import own

NAME = own("experiment")
pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]

FILE = """\
fabric: {planes: 2, t0: 2, t1: 2, hosts: 2, rate: 1G}
transport: {qps: 2}
workload: {kind: write_bw, pairs: h1>h2, message: 128K}
duration: 150ms
faults:
  - {kind: link_down, at: 50ms, until: 100ms, link: h1@p0}
  - {kind: loss, at: 110ms, until: 140ms, link: "t0-0:t1-0@p1", probability: 20%}
measure: {bin: 10ms, warmup: 20ms}
expect:
  - {metric: throughput, relation: at_least, value: 500M, of: {end: 50ms}}
"""

RING = """\
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 1G}
workload: {kind: collective, operation: all_reduce, bytes: 256K, iterations: 2, warmup: 0}
duration: 600ms
measure: {bin: 5ms}
expect:
  - {metric: busbw, relation: at_least, value: 1M}
"""


def test_a_simulation_file_runs_in_emulation(tmp_path, capsys):
    file = tmp_path / "trial.yaml"
    file.write_text(FILE)
    status = run(["run", str(file), "--backend", "emulation", "--name", NAME, "--results", str(tmp_path)])
    summary = json.loads((tmp_path / "trial" / "latest" / "summary.json").read_text())
    assert status == (0 if summary["verdict"] == "pass" else 1)  # on a busy machine the result is "untrusted"
    case = summary["cases"]["only"]
    assert case["wrong_bytes"] == 0
    assert case["errors"] == []
    assert case["rate_scale"] == pytest.approx(1 / case["time_scale"])
    assert case["rate_scale"] < 1
    assert case["packets"]["received"] > 1000
    measurements = case["fidelity"]["measurements"]
    delays = {"machine_round_trip_s", "machine_delay_p99_s"}
    others = {"traffic_s", "idle_p10", "lag_p99_s", "processors_used", "machine_link_idle", "fault_off_by_s"}
    assert set(measurements) == others | delays
    assert all(0 < measurements[name] < 10 for name in delays)
    assert 0.1 < measurements["processors_used"] <= 1
    # only of the traffic, not of what was before and after
    assert measurements["traffic_s"] == pytest.approx(case["end_ns"] / 1e9, rel=0.2)
    assert case["fidelity"]["notes"] == []
    assert [fault["label"] for fault in case["faults"]] == ["link down h1@p0", "loss t0-0:t1-0@p1 20 %"]
    events = (tmp_path / "trial" / "latest" / "only" / "events.csv").read_text()
    assert "h1,,,,0,up,down" in events
    with (tmp_path / "trial" / "latest" / "only" / "links.csv").open() as table:
        lost = {row["link"] for row in csv.DictReader(table) if int(row["lost"])}
    # a loss that a busy machine made too late may have lost nothing, and then the run says that it cannot be trusted
    assert lost == {"t0-0:t1-0@p1"} or (
        not lost and any("the fault loss" in why for why in case["fidelity"]["reasons"])
    )
    assert not any("loss" in reason for reason in case["drops"])  # reported for its link, and only there
    report = (tmp_path / "trial" / "latest" / "report.html").read_text()
    assert "rates are" in report
    named = (
        "lost on t0-0:t1-0@p1 up" in report
    )  # but where switches of a busy machine have dropped more, in many places
    assert named == bool(lost) or (lost and case["fidelity"]["reasons"])
    assert "the machine delayed a packet and its answer by" in report


@pytest.mark.second_ring
def test_a_collective_runs_in_emulation(tmp_path):
    file = tmp_path / "ring.yaml"
    file.write_text(RING)
    status = run(["run", str(file), "--backend", "emulation", "--name", NAME, "--results", str(tmp_path)])
    summary = json.loads((tmp_path / "ring" / "latest" / "summary.json").read_text())
    assert status == (0 if summary["verdict"] == "pass" else 1)  # on a busy machine the result is "untrusted"
    case = summary["cases"]["only"]
    assert (case["wrong_bytes"], case["errors"]) == (0, [])
    assert case["checked_bytes"] > 0
    assert case["operations"] == 2


def test_features_missing_in_emulation_are_refused_before_anything_starts(tmp_path, capsys):
    file = tmp_path / "trial.yaml"
    file.write_text(
        FILE.replace(
            "link: h1@p0}", "link: h1@p0}\n  - {kind: reordering, at: 1ms, link: h1@p0, hold: 1ms, probability: 1%}"
        )
    )
    assert run(["run", str(file), "--backend", "emulation", "--name", NAME, "--results", str(tmp_path)]) == 3
    assert "cannot make the fault reordering" in capsys.readouterr().err
    assert not (tmp_path / "trial").exists()


TENANTS = """\
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 1G, pfc: yes}
duration: 150ms
measure: {bin: 10ms, queues: yes}
workloads:
  - {name: ring, kind: collective, operation: all_reduce, bytes: 64K, iterations: 2, hosts: [h1, h3],
     transport: {evs: 1}}
  - {name: storage, kind: incast, target: h1, sources: [h2, h3, h4], message: 64K, transport: {type: rc, qps: 2}}
  - {name: late, kind: write_bw, pairs: h2>h4, message: 16K, total: 64K, start: 50ms}
report:
  - {metric: queue_depth, of: {link: "h1@p*<"}}
  - {metric: pause_time}
"""


@pytest.mark.second_ring
def test_tenants_and_queues_work_in_emulation(tmp_path):
    file = tmp_path / "tenants.yaml"
    file.write_text(TENANTS)
    status = run(["run", str(file), "--backend", "emulation", "--name", NAME, "--results", str(tmp_path)])
    summary = json.loads((tmp_path / "tenants" / "latest" / "summary.json").read_text())
    assert status == (0 if summary["verdict"] == "pass" else 1)  # on a busy machine the result is "untrusted"
    case = summary["cases"]["only"]
    tenants = case["tenants"]
    assert (case["wrong_bytes"], case["errors"]) == (0, [])
    assert [one["transport"]["type"] for one in tenants.values()] == ["mrc", "rc", "mrc"]
    assert tenants["ring"]["operations"] == 2
    assert tenants["late"]["bytes"] == 64 << 10
    assert tenants["late"]["start_ns"] == pytest.approx(50_000_000 * case["time_scale"])
    assert tenants["late"]["ended_ns"] > tenants["late"]["start_ns"]
    assert tenants["storage"]["throughput_bps"] > 0
    depth, paused = (one["values"]["only"] for one in summary["reported"])
    assert depth > 10_000, "an incast waits at its target"
    assert depth <= case["queues"]["max_bytes"]
    assert paused > 0
    with (tmp_path / "tenants" / "latest" / "only" / "queues.csv").open() as table:
        deepest = max(csv.DictReader(table), key=lambda row: int(row["peak_bytes"] or 0))
    assert int(deepest["peak_bytes"]) == case["queues"]["max_bytes"]
    with (tmp_path / "tenants" / "latest" / "only" / "signals.csv").open() as table:
        rows = list(csv.DictReader(table))
    trimmed = Counter[str]()
    for row in rows:
        trimmed[row["link"] + (">" if row["direction"] == "up" else "<")] += int(row["trimmed"])
    assert sum(int(row["marked"]) for row in rows) > 0, "queues of RC fill, and switches mark"
    assert all(count <= case["trimmed"].get(channel, 0) for channel, count in trimmed.items())
    assert "Pauses of flow control over time" in (tmp_path / "tenants" / "latest" / "report.html").read_text()


SLOW_PORT = """\
fabric: {planes: 2, t0: 2, t1: 2, hosts: 2, rate: 1G}
transport: {settings: {slow_port_retry: 1s}}
workload: {kind: write_bw, pairs: h1>h2, message: 128K}
duration: 300ms
faults:
  - {kind: rate, at: 20ms, link: h1@p1, rate: 250M}
measure: {bin: 10ms, warmup: 20ms}
"""


@pytest.mark.second_ring
def test_a_slow_port_is_named_in_the_report(tmp_path):
    file = tmp_path / "slow.yaml"
    file.write_text(SLOW_PORT)
    run(["run", str(file), "--backend", "emulation", "--name", NAME, "--results", str(tmp_path)])
    folder = tmp_path / "slow" / "latest"
    case = json.loads((folder / "summary.json").read_text())["cases"]["only"]
    assert case["errors"] == []
    slow = [warning for warning in case["warnings"] if "was slower than the other ports" in warning]
    if slow or not case["fidelity"]["reasons"]:  # on a machine that is too busy both ports may be slow
        assert slow[0].startswith(("h1@p1 ", "h2@p1, or its plane on the way from h1, ")), slow
        assert slow[0] in (folder / "report.html").read_text()
