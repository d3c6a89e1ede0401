"""Queues and tenants in reports: plots, the table of tenants, the raw series."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

from mrc_lab.experiments.files import load_text
from mrc_lab.reports.run_and_report import run_and_report

FILE = """\
name: both
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, pfc: yes}
duration: 100us
measure: {bin: 10us, warmup: 20us, queues: yes}
workloads:
  - {name: many, kind: incast, target: h1, sources: [h2, h3, h4], transport: {type: rc, qps: 4}}
  - {name: few, kind: write_bw, pairs: h3>h4, start: 50us}
"""


def result_of(text: str, folder: Path):
    result = run_and_report(load_text(text), "sim", 1, folder)
    return result, (result.folder / "report.html").read_text("utf-8")


def test_a_report_plots_queues_and_pauses_and_lists_tenants(tmp_path: Path):
    result, page = result_of(FILE, tmp_path)
    for title in ("Queue depth over time", "Pauses of flow control over time", "Throughput of each tenant"):
        assert title in page
    assert "<td>many</td>" in page
    assert "rc, 4 QPs" in page
    assert "few: MRC, 1 queue pair a flow. Write bw: writes of 262144 bytes" in page
    assert "From 50 us on." in page
    summary = json.loads((result.folder / "summary.json").read_text())["cases"]["only"]
    assert summary["queues"]["deepest"].startswith("h1@p")
    assert summary["tenants"]["few"]["ended_ns"] is None
    with (result.folder / "only" / "queues.csv").open() as table:
        rows = list(csv.DictReader(table))
    known = [row for row in rows if row["peak_bytes"]]
    assert max(int(row["peak_bytes"]) for row in known) >= summary["queues"]["max_bytes"] > 100_000
    assert all(int(row["mean_bytes"]) <= int(row["peak_bytes"]) for row in known)
    assert not any(row["link"].startswith("h") and row["direction"] == "up" for row in known), "NICs have no queues"
    assert {row["link"] for row in rows if int(row["paused_ns"])} >= {"h2@p0", "h2@p1"}


def test_unmeasured_queues_are_not_plotted(tmp_path: Path):
    text = FILE.replace(", queues: yes", "").partition("workloads")[0] + "workload: {kind: permutation}\n"
    result, page = result_of(text, tmp_path)
    for title in ("Queue depth over time", "Pauses of flow control", "Throughput of each tenant"):
        assert title not in page
    assert not (result.folder / "only" / "queues.csv").exists()
    assert not {"queues", "tenants"} & set(result.summary["cases"]["only"])


def test_a_summary_works_without_plots():
    """Workers of a sweep do without matplotlib, which takes a second to load."""
    code = "import sys, mrc_lab.reports.summary; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
