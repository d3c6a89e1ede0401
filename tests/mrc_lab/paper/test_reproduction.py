"""The page of all figures: runs, seeds, score and verdicts; in simulation, without root."""

import json
from pathlib import Path

import pytest

import mrc_lab.paper
from mrc_host.errors import MrcError
from mrc_lab import published
from mrc_lab.cli.main import run
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_file
from mrc_lab.paper import reproduction
from mrc_lab.paper.reproduction import reproduce
from mrc_lab.reports.confidence_interval import mean_interval
from mrc_lab.reports.run_and_report import run_and_report
from tests.mrc_lab.experiments.files.texts import SMALL
from tests.mrc_lab.reports.test_run_and_report import Page


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.replace("message: 64K", "message: 64K, outstanding: 16"))
    return path


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_page_covers_several_files(small, tmp_path, jobs):
    wrong = tmp_path / "other.yaml"
    wrong.write_text(
        SMALL.replace("value: 383G, tolerance: 5%", "value: 999G, tolerance: 5%").replace("small one", "bad one")
    )
    notices = []
    folder, summary = reproduce([small, wrong], tmp_path / "r", jobs=jobs, notify=notices.append)
    assert (summary["verdict"], summary["experiments"], summary["passed"]) == ("fail", 2, 1)
    assert [row["verdict"] for row in summary["figures"]] == ["pass", "pass", "pass", "fail", "pass", "pass"]
    assert {"figure", "published", "ours", "ratio", "verdict"} <= set(summary["figures"][0])
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert (tmp_path / "r" / "paper" / "latest").resolve() == folder.resolve()
    page = Page((folder / "index.html").read_text())
    assert len(page.fetched) == 2
    assert all((folder / link).is_file() for link in page.fetched)
    assert len(notices) == 2


def test_the_score_counts_published_values_and_deviations_are_amber_with_their_cause(tmp_path):
    file = tmp_path / "fig.yaml"
    rate = "metric: throughput, certainty: D, of: {statistic: median, end: 40us}"
    file.write_text(
        SMALL
        + "published:\n  numbers:\n"
        + f"    - {{{rate}, title: near, value: 383G}}\n"
        + f"    - {{{rate}, title: half, value: 191G}}\n"
        + f"    - {{{rate}, title: third, value: 128G, cause: because}}\n"
        + f"    - {{{rate}, title: floor, value: 10G, bound: at_least}}\n"
    )
    folder, summary = reproduce([file], tmp_path / "r")
    assert summary["verdict"] == "pass"
    counts = {name: summary["score"][name] for name in ("values", "within", "bounds", "met", "unmeasured")}
    assert counts == {"values": 3, "within": 1, "bounds": 1, "met": 1, "unmeasured": 0}
    rows = {row["what"]: row for row in summary["numbers"]}
    assert [rows[name]["standing"] for name in ("near", "half", "third", "floor")] == [
        "within 10 %", "differs", "differs", "met",
    ]  # fmt: skip
    assert [rows[name]["cause"] for name in ("near", "half", "third", "floor")] == [
        "", "Not explained yet.", "because", "",
    ]  # fmt: skip
    assert rows["floor"]["ratio"] is None
    text = (folder / "index.html").read_text()
    assert text.index("1 of 3") < text.index("<h2")
    for name, colour in (("near", "pass"), ("half", "untrusted"), ("third", "untrusted")):
        assert f'<span class="{colour}">{rows[name]["ratio"]:.3f}</span>' in text
    outside = text[text.index("Outside 10 %") : text.index("a small one")]
    assert "because" in outside
    assert "near" not in outside


def test_a_passed_expectation_far_from_the_published_value_is_not_green(tmp_path):
    file = tmp_path / "fig.yaml"
    of = "metric: throughput, relation: at_least, value: 1G, of: {statistic: median, end: 40us}"
    head = SMALL[: SMALL.index("expect:")]
    file.write_text(f"{head}expect:\n  - {{{of}, title: half, published: {{value: 191G, certainty: D}}}}\n")
    folder, summary = reproduce([file], tmp_path / "r")
    assert (summary["expectations"], summary["expectations_passed"]) == (1, 1)
    assert summary["figures"][0]["differs"]
    text = (folder / "index.html").read_text()
    assert '<span class="untrusted">pass, differs</span>' in text
    assert '<span class="pass">pass</span></td>\n<td>half' not in text


def test_checks_for_errors_are_counted_apart_from_expectations(small, tmp_path):
    folder, summary = reproduce([small], tmp_path / "r")
    assert (summary["expectations"], summary["expectations_passed"]) == (1, 1)
    assert summary["score"]["values"] + summary["score"]["bounds"] == 0  # it has none, nor is it a figure of the list
    assert (summary["checks"], summary["checks_passed"]) == (2, 2)
    assert "2 of 2 checks that nothing failed" in (folder / "index.html").read_text().replace("\n", " ")


def test_several_seeds_have_a_mean_and_an_interval(tmp_path):
    file = tmp_path / "fig.yaml"
    file.write_text(
        SMALL
        + "published:\n  numbers: [{metric: retransmitted, value: '3', title: again, of: {start: 0us}}]\n"
        + "  curves: [{metric: throughput, points: [[0s, 383G], [60us, 287G]], title: rate}]\n"
    )
    notices = []
    folder, summary = reproduce([file], tmp_path / "r", seeds=(1, 3), jobs=2, notify=notices.append)
    assert summary["seeds"] == [1, 3]
    assert len(notices) == 2
    single = [json.loads(path.read_text()) for path in folder.glob("fig/2*/summary.json")]
    values = [one["published"]["numbers"][0]["ours"] for one in single]
    (row,) = [row for row in summary["numbers"] if row["what"] == "again"]
    expected = mean_interval(values)
    assert (row["ours"], row["low"], row["high"], row["seeds"]) == (
        pytest.approx(expected.mean), pytest.approx(expected.low), pytest.approx(expected.high), 2,
    )  # fmt: skip
    page = (folder / "index.html").read_text()
    assert "2 seeds: means with their 95 % interval" in page
    assert page.count(">report of seed") == 2
    assert "one seed" not in page


def test_a_single_seed_is_noted(small, tmp_path):
    folder, _ = reproduce([small], tmp_path / "r", seeds=(7,))
    assert "one seed (7): no intervals" in (folder / "index.html").read_text()


def test_the_score_is_relative_to_the_whole_list(small, tmp_path):
    _, whole = reproduce([small], tmp_path / "r", whole=True)
    listed = published.load().numbers
    assert whole["score"]["values"] + whole["score"]["bounds"] == len(listed) == whole["score"]["unmeasured"]
    assert [row["id"] for row in whole["numbers"]] == list(listed)


def test_files_too_large_for_emulation_are_excluded_from_the_verdict(small, tmp_path, monkeypatch):
    long = tmp_path / "long.yaml"
    long.write_text(SMALL.replace("duration: 120us", "duration: 200ms"))
    simulated = reproduction.run_and_report
    monkeypatch.setattr(
        reproduction, "run_and_report", lambda experiment, world, *rest: simulated(experiment, "sim", *rest)
    )
    notices = []
    folder, summary = reproduce([long, small], tmp_path / "r", backend="emulation", notify=notices.append)
    assert (summary["verdict"], summary["experiments"], summary["passed"]) == ("pass", 1, 1)
    assert "would last" in summary["left_out"]["long"]
    assert notices[0].startswith("left out: long: at the rates that this machine carries")
    assert "left out: " in (folder / "index.html").read_text()
    with pytest.raises(ExperimentError, match=r"long: at the rates .* would last"):
        reproduce([long], tmp_path / "other", backend="emulation")
    assert not (tmp_path / "other").exists()


def test_a_file_runs_on_the_backend_that_it_names_and_one_too_large_for_another_is_left_out(small, tmp_path):
    """P4 switches have no port 510."""
    large = tmp_path / "large.yaml"
    large.write_text(
        "title: a large one\nbackend: scale\nfabric: {hosts: 1100, t0: 2, t1: 1}\nduration: 1ms\n"
        "workload: {kind: write_bw, pairs: h1>h2}\nmeasure: {bin: 100us}\n"
    )
    folder, summary = reproduce([large, small], tmp_path / "r")
    assert (summary["experiments"], summary["left_out"]) == (2, {})
    page = (folder / "index.html").read_text()
    section = page[page.index("a large one") :]
    assert page.count("scale backend") == section[: section.index("<table>")].count("scale backend") == 1
    _, summary = reproduce([large, small], tmp_path / "r", backend="sim")
    assert summary["experiments"] == 1
    assert "509" in summary["left_out"]["large"]


def test_a_file_that_cannot_run_is_listed_on_the_page(small, tmp_path, monkeypatch):
    def refuse(experiment, *arguments):
        if experiment.name == "other":
            raise MrcError("no room for gamma")
        return run_and_report(experiment, *arguments)

    monkeypatch.setattr(reproduction, "run_and_report", refuse)
    other = tmp_path / "other.yaml"
    other.write_text(SMALL)
    folder, summary = reproduce([other, small], tmp_path / "r")
    assert (summary["experiments"], summary["passed"]) == (2, 1)
    assert "gamma" in summary["figures"][0]["title"]
    assert "could not be run" in (folder / "index.html").read_text()


def test_paper_lists_its_figures(capsys):
    assert run(["paper", "--only", "fig_20"]) == 3
    assert "no figure is called fig_20; did you mean fig20?" in capsys.readouterr().err


def test_a_figure_is_selected_by_argument_or_the_old_option(tmp_path, capsys):
    assert run(["paper", "--only", "fig14", "--seed", "3", "--results", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "--seed is now --seeds" in printed.err
    assert "2 of 2 published numbers within 10 %" in printed.out
    summary = json.loads((tmp_path / "paper" / "latest" / "summary.json").read_text())
    assert summary["seeds"] == [3]
    assert [row["id"] for row in summary["numbers"]] == ["fig14.flow1", "fig14.flow2"]


def test_every_listed_number_belongs_to_a_file_or_is_marked_as_having_none():
    """A file that forgets a number would let it count as missed, and one that takes another's would hide that."""
    files = {path.stem: load_file(path) for path in Path(mrc_lab.paper.__path__[0]).glob("*.yaml")}
    found = {(name, part.id) for name, file in files.items() for part in file.published.numbers if part.id}
    expected = {(numbers[0].file, entry) for entry, numbers in published.load().entries.items()}
    assert expected - found == set()
    small = {"fig16small", "fig16small_loss01", "fig16small_loss1"}  # the smaller sizes of the others
    assert {name for name, _ in found - expected} == small
