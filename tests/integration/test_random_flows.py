"""Random flows in the emulated world: the same flows as in simulation, all of them recorded."""

import csv
import json

import pytest

from mrc_lab.cli.main import run
from tests.integration.names import own

NAME = own("flows")
pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]

FILE = """\
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 1G}
duration: 250ms
measure: {bin: 10ms}
workloads:
  - {name: search, kind: flows, load: 30%, sizes: web_search, count: 12, until: 100ms}
  - {name: short, kind: flows, load: 5%, sizes: 20K, count: 20, connections: shared, transport: {type: rc, qps: 2}}
report:
  - {metric: slowdown, of: {tenant: search}}
"""
DRAWN = ("tenant", "flow", "source", "destination", "bytes")


def flows(folder):
    with (folder / "flows.csv").open() as table:
        return list(csv.DictReader(table))


def test_both_backends_have_the_same_flows(tmp_path):
    file = tmp_path / "flows.yaml"
    file.write_text(FILE)
    assert run(["run", str(file), "--seed", "3", "--results", str(tmp_path / "sim")]) == 0
    emulated = ["--backend", "emulation", "--name", NAME, "--results", str(tmp_path / "emulation")]
    status = run(["run", str(file), "--seed", "3", *emulated])
    folders = {place: tmp_path / place / "flows" / "latest" for place in ("sim", "emulation")}
    summary = json.loads((folders["emulation"] / "summary.json").read_text())
    assert status == (0 if summary["verdict"] == "pass" else 1)  # on a busy machine the result is "untrusted"
    simulated, found = (flows(folder) for folder in folders.values())
    assert [[row[key] for key in DRAWN] for row in found] == [[row[key] for key in DRAWN] for row in simulated]
    case = summary["cases"]["only"]
    assert (case["wrong_bytes"], case["errors"]) == (0, [])
    assert case["checked_bytes"] > 0
    assert case["flow_completion"]["flows"] == 32
    assert case["flow_completion"]["unfinished"] == sum(not row["end_ns"] for row in found)
    scale = case["time_scale"]
    for one, other in zip(found, simulated, strict=True):
        assert int(one["start_ns"]) >= int(other["start_ns"]) * scale - 1, "no flow begins before its time"
        if one["tenant"] == "search" and one["end_ns"] and int(one["bytes"]) > 1_000_000:
            assert float(one["slowdown"]) > 0.9
    page = (folders["emulation"] / "report.html").read_text("utf-8")
    assert "say little in emulation" in page
