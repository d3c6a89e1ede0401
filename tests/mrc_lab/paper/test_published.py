"""Three experiments in the simulated world from file to report; and that file and seed decide everything."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mrc_lab.cli.main import run

ROOT = Path(__file__).resolve().parents[3]

FILES = {
    "write": """\
fabric: {planes: 2, t0: 2, t1: 4, hosts: 4, rate: 100G}
transport: {qps: 2}
workload: {kind: write_bw, pairs: h1>h3, message: 64K}
duration: 150us
faults:
  - {kind: link_down, at: 40us, until: 90us, link: h1@p0}
  - {kind: loss, at: 60us, until: 120us, link: "t0-0:t1-0@p1", probability: 20%}
measure: {bin: 10us, warmup: 20us}
expect:
  - {metric: throughput, relation: about, value: 192G, tolerance: 5%, of: {statistic: median, end: 40us}}
  - {metric: lost, relation: at_least, value: 1}
""",
    "incast": """\
fabric: {t0: 2, t1: 2, hosts: 8, rate: 100G}
workload: {kind: incast, target: h1, sources: [h5, h6, h7], message: 64K}
duration: 150us
measure: {bin: 10us, warmup: 30us}
expect:
  - {metric: fairness, relation: at_least, value: 90%}
  - {metric: throughput, relation: about, value: 96G, tolerance: 10%}
""",
    "ring": """\
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G}
workload: {kind: collective, operation: all_reduce, bytes: 256K, iterations: 2}
duration: 5ms
faults:
  - {kind: power_off, at: 20us, switch: t1-0@p0}
measure: {bin: 10us}
expect:
  - {metric: busbw, relation: at_least, value: 20G}
""",
}


def carry_out(folder: Path, name: str, seed: int = 1) -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(FILES[name])
    status = run(["run", str(file), "--seed", str(seed), "--results", str(folder)])
    assert status == 0, (folder / name / "latest" / "summary.json").read_text()
    return folder / name / "latest"


def elsewhere(folder: Path, name: str) -> Path:
    """The same in a Python process of its own, with other hashes of strings."""
    file = folder / f"{name}.yaml"
    file.write_text(FILES[name])
    command = [sys.executable, "-c", "from mrc_lab.cli import main; main()", "run", str(file), "--results", folder]
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return folder / name / "latest"


def case(result: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((result / "summary.json").read_text())
    assert summary["verdict"] == "pass"
    found: dict[str, Any] = summary["cases"]["only"]
    assert (found["wrong_bytes"], found["errors"]) == (0, [])
    assert found["checked_bytes"] > 0
    return found


@pytest.mark.parametrize("name", ["write", "ring"])
def test_a_published_experiment_passes_and_is_repeatable_across_processes(name: str, tmp_path: Path):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    here, there = carry_out(tmp_path / "here", name), elsewhere(tmp_path / "there", name)
    case(here)
    same = ["summary.json", *(f"only/{table}.csv" for table in ("flows", "links", "completions", "events"))]
    for file in same:
        assert (here / file).read_bytes() == (there / file).read_bytes(), file


def test_an_incast_shares_its_link_and_seeds_give_different_runs(tmp_path: Path):
    first = carry_out(tmp_path, "incast").resolve()
    found = case(first)
    assert {"h5>h1", "h6>h1", "h7>h1"} == set(found["flows"])
    assert "<svg" in (first / "report.html").read_text()
    second = carry_out(tmp_path, "incast", seed=2).resolve()
    assert (first / "only/flows.csv").read_bytes() != (second / "only/flows.csv").read_bytes()
    page = tmp_path / "compare.html"
    assert run(["compare", str(first), str(second), "--output", str(page)]) == 0
    assert "<svg" in html.unescape(page.read_text())
