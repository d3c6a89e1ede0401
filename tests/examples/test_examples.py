"""Each program in examples/ runs, from any folder, and shows what it is there to show."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mrc_lab.experiments.files import load_file, load_text
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.workloads import Collective
from mrc_lab.experiments.running.run_case import run_case
from mrc_lab.experiments.running.run_experiment import run_experiment
from mrc_lab.experiments.running.simulated_backend import simulated_backend
from mrc_lab.fabric.draw import draw
from mrc_lab.reports.run_and_report import run_and_report
from tests.docs.blocks import ROOT
from topologies.loader import load_file as load_fabric

FOLDER = ROOT / "examples"


def output_of(name: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, FOLDER / name],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_example_has_a_test() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {
        "__init__.py",
        "conform_application.py",  # tests/integration/test_conform.py
        "congestion_control.py",
        "elastic.py",  # tests/integration/test_torch_elastic.py
        "gpt.py",  # tests/integration/test_torch.py
        "plugins.py",
        "replicas.py",  # tests/integration/test_torchft.py
        "sweep.py",
        "test_aimd.py",  # tests/mrc_lab/pytest_plugin/test_fixtures.py
        "write.py",
    }


def test_tenants_sharing_hosts_get_separate_metrics(tmp_path: Path) -> None:
    experiment = load_file(FOLDER / "tenants.yaml")
    result = run_and_report(experiment, "sim", 1, tmp_path)
    assert result.summary["verdict"] == "pass"
    tenants = result.summary["cases"]["only"]["tenants"]
    assert list(tenants) == ["training", "storage", "burst"]
    assert [one["transport"]["type"] for one in tenants.values()] == ["mrc", "rc", "mrc"]
    assert tenants["burst"]["bytes"] == 3 << 20
    page = (result.folder / "report.html").read_text("utf-8")
    assert "Throughput of each tenant" in page
    assert "RC, 4 queue pairs a flow" in page


def test_web_search_flows_end_sooner_over_mrc(tmp_path: Path) -> None:
    experiment = load_file(FOLDER / "web_search.yaml")
    result = run_and_report(experiment, "sim", 1, tmp_path)
    assert result.summary["verdict"] == "pass"
    flows = [case["flow_completion"] for case in result.summary["cases"].values()]
    assert {one["unfinished"] for one in flows} == {0}
    assert len({(one["flows"], one["bytes"]) for one in flows}) == 1, "both transports have the same flows"
    assert {one.name for one in result.folder.iterdir()} >= {"flows.csv", "link_utilisation.csv"}
    assert "Slowdown by size of all cases" in (result.folder / "report.html").read_text("utf-8")


def test_a_write_completes_although_a_link_goes_down(tmp_path: Path) -> None:
    lost = re.fullmatch(r"1 MiB in [\d.]+ us, (\d+) packets lost\n", output_of("write.py", tmp_path))
    assert lost is not None
    assert int(lost[1]) > 0


def test_a_custom_congestion_control_reduces_retransmissions(tmp_path: Path) -> None:
    found = re.findall(
        r"^(\w+) +[\d.]+ us, (\d+) packets, (\d+) of them sent again$",
        output_of("congestion_control.py", tmp_path),
        re.MULTILINE,
    )
    again = {name: int(count) for name, _, count in found}
    assert list(again) == ["none", "aimd", "nscc"]
    assert {int(packets) for _, packets, _ in found} == {3 * (1 << 20) // 4096}
    assert again["aimd"] * 2 < again["none"]


def test_sweep_results_are_readable_with_json_alone(tmp_path: Path) -> None:
    lines = output_of("sweep.py", tmp_path).splitlines()
    shown = [line for line in lines if line.endswith("over 2 seeds")]
    assert [line.partition(":")[0] for line in shown] == [
        f"{paths} paths, {message}" for paths in (2, 8) for message in ("16K", "256K")
    ]


def test_fabrics_on_the_page_match_the_examples() -> None:
    page = (FOLDER.parent / "docs" / "fabrics.md").read_text("utf-8")
    drawing = draw(load_fabric(FOLDER / "three_tiers.yaml"))
    assert drawing in page
    uneven = load_fabric(FOLDER / "uneven.yaml")
    assert [len(uneven.nics_of(t0)) for t0 in range(3)] == [3, 1, 2]
    (case,) = load_file(FOLDER / "three_tiers_run.yaml").cases
    assert build_fabric(case.fabric, "tiers") == load_fabric(FOLDER / "three_tiers.yaml")


def test_an_all_reduce_over_two_clusters_survives_a_long_link_failure() -> None:
    """The case `hierarchical.cut` of the example, with 256 KiB instead of 4 MiB."""
    experiment = load_file(FOLDER / "two_clusters_run.yaml")
    assert len(experiment.cases) == 6
    case = next(case for case in experiment.cases if case.name == "hierarchical.cut")
    (tenant,) = case.tenants
    load = tenant.workload
    assert isinstance(load, Collective)
    assert load.clusters == 2
    smaller = replace(tenant, workload=replace(load, bytes=256 << 10))
    case = replace(case, tenants=(smaller,))
    with simulated_backend(case, 1) as backend:
        recording = run_case(case, backend, 1)
    assert (recording.errors, recording.wrong_bytes) == ((), 0)
    assert recording.checked_bytes == 6 * 8 * (256 << 10)
    assert any(one.began < 60_000_000 < one.ended for one in recording.operations), "the link fails under one of them"
    assert any("port down, t1-2:t2-0@p0" in name for name in recording.drops)


def test_a_goal_file_completes_with_a_link_down(tmp_path: Path) -> None:
    result = run_and_report(load_file(FOLDER / "goal_run.yaml"), "sim", 1, tmp_path)
    assert result.summary["verdict"] == "pass"
    healthy, cut = (result.summary["cases"][name] for name in ("healthy", "cut"))
    assert healthy["checked_bytes"] == cut["checked_bytes"] == 4 * 6 * (1 << 18)
    assert healthy["packets"]["lost"] == 0 < cut["packets"]["lost"]


def test_each_example_plugin_changes_the_result(tmp_path: Path) -> None:
    result = run_and_report(load_file(FOLDER / "plugins_run.yaml"), "sim", 1, tmp_path)
    assert result.summary["verdict"] == "pass"
    cases = result.summary["cases"]
    assert len({case["completion_time_ns"]["max"] for case in cases.values()}) == 3
    assert {case["checked_bytes"] for case in cases.values()} == {2 * 7 * 4 * (256 << 10)}


def test_the_notebook_runs_in_an_event_loop_and_shows_what_it_makes(tmp_path: Path) -> None:
    notebook = FOLDER / "notebook.ipynb"
    code = [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code), "committed without outputs"
    result = subprocess.run(
        [sys.executable, Path(__file__).with_name("run_notebook.py"), notebook],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    compiled, *shown = [line.partition(" ")[2] for line in result.stdout.splitlines()]
    assert compiled in ("True", "False")
    assert shown[0].startswith("_repr_svg_ <Fabric demo: 2 planes")
    lost = re.fullmatch(r"'[\d.]+ us, (\d+) packets lost'", shown[1])
    assert lost is not None
    assert int(lost[1]) > 0
    assert shown[2].startswith("_repr_html_ <Results experiment: pass, 4 seeds")
    assert float(shown[3]) > 1, "RoCE is slower with a link that loses packets"
    assert shown[5].startswith("_repr_svg_ <Picture")
    assert shown[6].startswith("_repr_html_ <SweepResults: 3 points, 6 pass")


def test_racks_of_the_hundred_thousand_nics_lose_paths_and_hardly_any_throughput() -> None:
    text = (FOLDER / "hundred_thousand.yaml").read_text()
    fewer = text.replace("hosts: 131072", "hosts: 1024").replace("t0: 512", "t0: 4")
    assert fewer != text
    recording = run_experiment(load_text(fewer), "scale", 1)["only"]
    ports = 1024 * 800e9 * 4096 / (4096 + 142 + 24)
    rates = recording.rates().sum(axis=1)
    assert 0.96 * ports < rates[1:].min() <= rates.max() < ports
    dead = 1 - 0.99**2  # either uplink of a path
    assert recording.bad_paths == pytest.approx(dead * 1024 * 3 / 4 * 8 * 256, rel=0.1)


def test_eight_thousand_nics_lose_paths_and_hardly_any_throughput() -> None:
    recording = run_experiment(load_file(FOLDER / "eight_thousand.yaml"), "scale", 1)["only"]
    ports = 8192 * 800e9 * 4096 / (4096 + 142 + 24)
    rates = recording.rates().sum(axis=1)
    assert len(rates) == 60
    assert 0.98 * ports < rates[1:].min() <= rates.max() < ports
    dead = 1 - 0.99**2  # either uplink of a path
    between_racks = 8192 * 31 / 32 * 8 * 128
    assert recording.bad_paths == pytest.approx(dead * between_racks, rel=0.1)


def test_pods_of_the_thirty_thousand_nics_lose_paths_and_hardly_any_throughput() -> None:
    text = (FOLDER / "thirty_thousand_tiers.yaml").read_text()
    fewer = text.replace("hosts: 32768", "hosts: 1024").replace("pods: 16, t0: 16", "pods: 4, t0: 2")
    assert fewer != text
    recording = run_experiment(load_text(fewer), "scale", 1)["only"]
    ports = 1024 * 800e9 * 4096 / (4096 + 142 + 24)
    rates = recording.rates().sum(axis=1)
    assert 0.98 * ports < rates[1:].min() <= rates.max() < ports
    dead = 1 - 0.99**2  # either link to a T2 of a path between pods
    assert recording.bad_paths == pytest.approx(dead * 1024 * 3 / 4 * 4 * 512, rel=0.1)
