"""From a file to its folder, by the command line and in one process; without root and without Mininet."""

import errno
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mrc_lab.cli.main import run
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.paper.reproduction import reproduce
from mrc_lab.reports import result_folder
from mrc_lab.reports import run_and_report as run_and_report_module
from mrc_lab.reports.compare import compare
from mrc_lab.reports.result_folder import make_folder, read_summary
from mrc_lab.reports.run_and_report import run_and_report
from tests.mrc_lab.experiments.files.texts import SMALL, VARIANTS

ROOT = Path(__file__).resolve().parents[3]


class Page(HTMLParser):
    """Collects what a page would fetch, and checks that tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.ids, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not value.startswith(("#", "data:")):
                self.fetched.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.replace("message: 64K", "message: 64K, outstanding: 16"))
    return path


def test_a_run_captures_links_beside_its_traces(small, tmp_path):
    assert run(["run", str(small), "--results", str(tmp_path / "r"), "--capture", "h1@p0"]) == 0
    folder = tmp_path / "r" / "small" / "latest" / "only" / "trace"
    assert {"h1.jsonl", "h1@p0.pcapng", "run.jsonl"} <= {path.name for path in folder.iterdir()}
    assert (folder / "h1@p0.pcapng").stat().st_size > 10_000


def test_a_capture_that_cannot_be_made_is_refused_and_leaves_nothing(small, tmp_path, capsys):
    results = ["--results", str(tmp_path / "r")]
    assert run(["run", str(small), *results, "--capture", "h1@p9"]) == 3
    assert "h1@p9" in capsys.readouterr().err
    assert run(["run", str(small), *results, "--capture", "h1@p0", "--backend", "emulation"]) == 3
    assert "--backend sim" in capsys.readouterr().err
    assert list((tmp_path / "r").rglob("*")) == []


def test_a_run_writes_all_files_to_its_folder(small, tmp_path, capsys):
    assert run(["run", str(small), "--results", str(tmp_path / "r"), "--seed", "5"]) == 0
    folder = tmp_path / "r" / "small" / "latest"
    assert folder.is_symlink()
    names = {path.name for path in folder.iterdir()}
    assert names == {"experiment.yaml", "summary.json", "run.json", "report.html", "link_utilisation.csv", "only"}
    assert (folder / "experiment.yaml").read_text() == small.read_text()
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["verdict"], summary["seed"], summary["backend"]) == ("pass", 5, "sim")
    assert summary["expectations"][0]["published"] == 383e9
    assert summary["cases"]["only"]["wrong_bytes"] == 0
    circumstances = json.loads((folder / "run.json").read_text())
    assert circumstances["versions"]["numpy"]
    assert circumstances["wall_seconds"] > 0
    series = {path.name for path in (folder / "only").iterdir()}
    assert {"flows.csv", "links.csv", "events.csv", "completions.csv"} <= series
    assert "pass" in capsys.readouterr().out


def test_the_report_is_one_self_contained_file(result):
    page = Page((result / "report.html").read_text())
    assert page.fetched == []
    assert len(page.ids) == len(set(page.ids))
    words = " ".join(page.text)
    for part in ("a small one", "Expected, published, ours", "link down h1@p0", "Throughput over time", "383 Gb/s"):
        assert part in words


def test_the_same_file_and_seed_give_the_same_summary_and_series(result, tmp_path):
    again = run_and_report(load_text(SMALL, name="small"), "sim", 1, tmp_path).folder
    for name in ("summary.json", "only/flows.csv", "only/links.csv", "only/events.csv", "only/completions.csv"):
        assert (result / name).read_bytes() == (again / name).read_bytes(), name


def test_summaries_are_identical_across_processes(result, tmp_path):
    code = (
        "import sys; from pathlib import Path; from mrc_lab.experiments.files import load_text;"
        "from mrc_lab.reports.run_and_report import run_and_report;"
        "from tests.mrc_lab.experiments.files.texts import SMALL;"
        "print(run_and_report(load_text(SMALL, name='small'), 'sim', 1, Path(sys.argv[1])).folder)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    there = Path(ran.stdout.strip())
    assert (result / "summary.json").read_bytes() == (there / "summary.json").read_bytes()


def test_a_failed_expectation_exits_with_status_1(small, tmp_path, capsys):
    small.write_text(small.read_text().replace("value: 383G, tolerance: 5%", "value: 999G, tolerance: 5%"))
    assert run(["run", str(small), "--results", str(tmp_path / "r")]) == 1
    assert "fail" in capsys.readouterr().out
    assert read_summary(tmp_path / "r" / "small" / "latest")["verdict"] == "fail"


def test_an_invalid_file_exits_with_status_3_and_starts_nothing(small, tmp_path, capsys):
    small.write_text(SMALL.replace("until: 80us", "until: 8us"))
    assert run(["run", str(small), "--results", str(tmp_path / "r")]) == 3
    assert "line 7: faults[0]: is over at 8 us, before it begins" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_check_writes_nothing(small, tmp_path, capsys):
    assert run(["run", str(small), "--check", "--results", str(tmp_path / "r")]) == 0
    assert "1 case, 1 expectation" in capsys.readouterr().out
    assert not (tmp_path / "r").exists()


def test_running_needs_neither_root_nor_mininet(small, tmp_path):
    code = (
        "import os, sys; sys.modules['mininet'] = None; os.geteuid = lambda: 1000\n"
        "from mrc_lab.cli.main import run; status = run(sys.argv[1:])\n"
        "assert not [name for name in sys.modules if name.startswith('mininet.')]; sys.exit(status)"
    )
    command = [sys.executable, "-c", code, "run", str(small), "--results", str(tmp_path / "r")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_variants_share_one_report(tmp_path):
    result = run_and_report(load_text(VARIANTS, name="v"), "sim", 1, tmp_path)
    words = " ".join(Page((result.folder / "report.html").read_text()).text)
    for part in ("The cases together", "one", "two", "three", "Mean rate of each flow"):
        assert part in words
    assert (result.folder / "together").is_dir()


SHOWN = """\
report:
  - {title: slowest bin, metric: throughput, of: {statistic: min}}
  - {metric: completion_time}
  - {metric: lost}
"""


def test_reported_metrics_appear_for_every_variant_in_report_and_overview(tmp_path):
    file = tmp_path / "shown.yaml"
    file.write_text(VARIANTS + SHOWN)
    folder, summary = reproduce([file], tmp_path / "results")
    assert summary["verdict"] == "pass"
    (found,) = folder.glob("shown/2*")
    blocks = read_summary(found)["reported"]
    assert [(block["title"], block["unit"]) for block in blocks] == [
        ("slowest bin", "rate"),
        ("completion time", "time"),
        ("lost", "count"),
    ]
    for block in blocks:
        assert list(block["values"]) == ["one", "two", "three"]
    rates = blocks[0]["values"]
    assert rates["three"] < rates["one"]  # two write to one host
    for name in (folder / "index.html", found / "report.html"):
        page = Page(name.read_text())
        assert "slowest bin" in page.text
        assert len(page.ids) == len(set(page.ids))


def test_two_results_are_compared(tmp_path, result, capsys):
    other = run_and_report(load_text(SMALL, name="small"), "sim", 2, tmp_path).folder
    page = Page(compare(result, other))
    assert page.fetched == []
    words = " ".join(page.text)
    assert "seed 1" in words
    assert "seed 2" in words
    assert "packets retransmitted" in words
    out = tmp_path / "c.html"
    assert run(["compare", str(result), str(other), "--output", str(out)]) == 0
    assert out.read_text().startswith("<!doctype html>")


def test_scaled_results_are_compared_in_the_units_of_their_file(tmp_path, result):
    b = tmp_path / "b"
    shutil.copytree(result, b)
    summary = read_summary(b)
    case = summary["cases"]["only"]
    case["rate_scale"], case["time_scale"], case["throughput_bps"] = 1e-3, 1e3, case["throughput_bps"] * 1e-3
    case["end_ns"] *= 1000
    case["fabric"]["planes"] = 5
    (b / "summary.json").write_text(json.dumps(summary))
    words = " ".join(Page(compare(result, b)).text)
    assert "fabric: planes" in words
    assert "x 0.001, x 1e+03" in words
    assert words.split("mean throughput")[1].split()[4] == "1.000"
    assert words.split("length of the run")[1].split()[4] == "1.000"


@pytest.mark.parametrize(
    "broken", ['{"cases": {}}', '{"cases": [1]}', "[1]", '{"cases": {"only": {}}}', "{", '{"cases": {"only": 1}}']
)
def test_incomplete_results_are_refused(tmp_path, result, capsys, broken):
    (tmp_path / "summary.json").write_text(broken)
    assert run(["compare", str(result), str(tmp_path)]) == 3
    assert "bug" not in capsys.readouterr().err
    assert run(["compare", str(tmp_path), str(result)]) == 3
    assert "bug" not in capsys.readouterr().err


def test_comparing_something_else_than_results_is_refused(tmp_path, result, capsys):
    assert run(["compare", str(tmp_path), str(tmp_path)]) == 3
    assert "summary.json cannot be read" in capsys.readouterr().err
    other = run_and_report(load_text(VARIANTS, name="v"), "sim", 1, tmp_path).folder
    with pytest.raises(ExperimentError, match="no case in common"):
        compare(other, result)


def test_folders_created_in_the_same_second_differ(tmp_path):
    from datetime import datetime, timezone

    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    assert [make_folder(tmp_path, "x", moment).name for _ in range(3)] == [
        "20260102-030405", "20260102-030405-1", "20260102-030405-2",
    ]  # fmt: skip
    (tmp_path / "file").write_text("")
    with pytest.raises(ExperimentError, match=r"results cannot be written to .*file/x: Not a directory"):
        make_folder(tmp_path / "file", "x", moment)


def test_a_place_where_nothing_can_be_written_is_found_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(run_and_report_module, "run_experiment", lambda *_, **__: pytest.fail("it was run"))
    (tmp_path / "v").write_text("a file where the folder of results should be")
    with pytest.raises(ExperimentError, match=r"results cannot be written to .*/v: Not a directory"):
        run_and_report(load_text(VARIANTS, name="v"), "sim", 1, tmp_path)


@pytest.mark.parametrize("failure", [ExperimentError("no such world"), KeyboardInterrupt()])
def test_a_run_that_came_to_nothing_leaves_nothing(tmp_path, monkeypatch, failure):
    def fail(*_, **__):
        assert [folder.suffix for folder in (tmp_path / "new/r/v").iterdir() if folder.is_dir()] == [".unfinished"]
        raise failure

    monkeypatch.setattr(run_and_report_module, "run_experiment", fail)
    for trace in (False, True):
        with pytest.raises(type(failure)):
            run_and_report(load_text(VARIANTS, name="v"), "sim", 1, tmp_path / "new/r", trace=trace)
        assert not list(tmp_path.iterdir())


def test_a_result_that_could_not_be_written_in_full_is_kept_as_unfinished(tmp_path, monkeypatch):
    whole = run_and_report(load_text(VARIANTS, name="v"), "sim", 1, tmp_path).folder
    assert whole.suffix == ""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(result_folder, "write_tables", full)
    with pytest.raises(OSError, match="No space left"):
        run_and_report(load_text(VARIANTS, name="v"), "sim", 2, tmp_path)
    (left,) = (folder for folder in whole.parent.iterdir() if folder.suffix)
    assert left.suffix == ".unfinished"
    assert read_summary(left)["seed"] == 2
    assert (whole.parent / "latest").resolve() == whole


def test_the_terminal_shows_why_a_run_failed_and_what_it_was_asked_to_report(tmp_path, capsys):
    path = tmp_path / "short.yaml"
    path.write_text(
        "title: too short\n"
        "fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 1G}\n"
        "workload: {kind: training, steps: 90, gradients: 256K}\n"
        "duration: 30ms\n"
        "measure: {bin: 1ms}\n"
        "report: [{metric: retransmitted, title: sent again}]\n"
    )
    assert run(["run", str(path), "--results", str(tmp_path / "r")]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^error +only \d+ of 90 steps were done when the time was over$", printed, re.MULTILINE)
    assert re.search(r"^reported +sent again: \d+$", printed, re.MULTILINE)
