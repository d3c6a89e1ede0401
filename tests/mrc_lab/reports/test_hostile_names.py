"""Words of other people in files: they are shown in pages as text, and never name a file of ours."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mrc_lab.cli.main import run
from mrc_lab.errors import ExperimentError, FileError
from mrc_lab.experiments.files import load_text
from mrc_lab.paper.page import index, summarize
from mrc_lab.paper.reproduction import FigureOutcome, Run
from mrc_lab.reports.compare import compare
from mrc_lab.reports.result_folder import read_summary
from mrc_lab.reports.run_and_report import run_and_report
from tests.mrc_lab.experiments.files.texts import SMALL, VARIANTS

EVIL = "<img src=x onerror=alert(1)>\"'&</td></style></title><script>alert(2)</script>"


class Tags(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {tag, *(name for name, _ in attrs)}


def poisoned(value: Any) -> Any:
    """The same with every string made hostile; keys stay."""
    if isinstance(value, str):
        return value + EVIL
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    if isinstance(value, dict):
        return {key: poisoned(item) for key, item in value.items()}
    return value


def hostile_copy(result: Path, place: Path, at: str) -> Path:
    """The result with hostile text in one part of its summary."""
    shutil.copytree(result, place)
    summary = json.loads((place / "summary.json").read_text())
    case = summary["cases"]["only"]
    if at in ("name", "backend", "seed", "verdict", "scaled"):
        summary[at] = EVIL
    elif at in ("title", "expectation verdict", "unit"):
        for one in summary["expectations"]:
            one[at.rpartition(" ")[2]] = EVIL
    elif at in ("fabric", "transport"):
        case[at] = poisoned(case[at]) | {EVIL: EVIL}
    elif at == "packets":
        case["packets"] = {EVIL: 3, **case["packets"]}
    elif at == "packet count":
        case["packets"] = dict.fromkeys(case["packets"], EVIL)
    elif at == "tenants":
        figures = {key: case[key] for key in ("throughput_bps", "paths_bad_at_end", "wrong_bytes", "packets")}
        times = {"ended_ns": 1, "bytes": 1, "completion_time_ns": {EVIL: 1.0}}
        case["tenants"] = {EVIL: {"workload": EVIL, "transport": {EVIL: EVIL}, **figures, **times}}
    else:
        case["completion_time_ns"] = {EVIL: 1.0, **case["completion_time_ns"]}
    (place / "summary.json").write_text(json.dumps(summary))
    return place


PLACES = ("name", "backend", "seed", "verdict", "scaled", "title", "expectation verdict", "unit", "fabric", "transport")


@pytest.mark.parametrize("at", [*PLACES, "packets", "packet count", "times", "tenants"])
def test_hostile_summaries_are_escaped_in_the_comparison(result: Path, tmp_path: Path, at: str):
    evil = hostile_copy(result, tmp_path / "evil", at)
    for pair in ((evil, evil), (result, evil), (evil, result)):
        try:
            page = compare(*pair)
        except ExperimentError:  # refused with a message is as good
            continue
        assert not {"script", "img", "onerror"} & Tags(page).seen


def test_the_comparison_shows_hostile_text_escaped(result: Path, tmp_path: Path):
    page = compare(hostile_copy(result, tmp_path / "evil", "name"), result)
    assert "&lt;script&gt;alert(2)" in page


@pytest.mark.parametrize("name", ["../../../etc", "/etc", "a/b", "", ".", "..", "a\nb", EVIL])
def test_case_names_cannot_be_paths(result: Path, tmp_path: Path, name: str):
    evil = tmp_path / "evil"
    shutil.copytree(result, evil)
    summary = json.loads((evil / "summary.json").read_text())
    summary["cases"] = {name: summary["cases"]["only"]}
    (evil / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(ExperimentError, match="which is no name of a variant"):
        read_summary(evil)


HOSTILE_PART = """\
published:
  numbers:
    - {{metric: throughput, title: {words}, value: 1G, cause: {words}}}
    - {{metric: throughput, title: {words}, flows: [1G, 2G]}}
  curves: [{{metric: throughput, title: {words}, plot: {words}, points: [[0s, 1G], [1us, 2G]]}}]
"""


def test_hostile_files_are_escaped_in_their_report_and_the_overview(tmp_path: Path):
    file = tmp_path / "evil.yaml"
    words = json.dumps(EVIL)
    rest = "".join(line for line in SMALL.splitlines(keepends=True) if not line.startswith("title:"))
    file.write_text(f"title: {words}\nfigure: {words}\nabout: {words}\nscaled: {words}\n" + rest)
    experiment = load_text(file.read_text(), name="evil")
    result = run_and_report(experiment, "sim", 1, tmp_path / "r")
    assert not {"script", "img", "onerror"} & Tags((result.folder / "report.html").read_text()).seen
    summary = json.loads((result.folder / "summary.json").read_text())
    for part in ("title", "figure", "note", "published_text", "certainty", "verdict"):
        for one in summary["expectations"]:
            one[part] = EVIL
    for number in summary["published"]["numbers"]:
        number |= {"what": EVIL, "cause": EVIL, "standing": EVIL, "certainty": EVIL, "id": EVIL}
    summary |= {"figure": EVIL, "title": EVIL, "scaled": EVIL, "verdict": EVIL}
    name = f"{EVIL.replace('/', '')}.yaml"
    outcomes = [
        FigureOutcome(name, (Run(name, 1, 1.0, summary, EVIL),)),
        FigureOutcome(f"x{name}", (Run(f"x{name}", 1, 1.0, None, "", EVIL),)),
        FigureOutcome(f"y{name}", problem=EVIL),
    ]
    page = index(outcomes, summarize(outcomes, "sim", (1,)), 1.0)
    assert not {"script", "img", "onerror"} & Tags(page).seen


@pytest.mark.parametrize("name", ["summary.json", "run.json", "report.html", "experiment.yaml", "together"])
def test_variants_named_like_our_files_are_refused(tmp_path: Path, capsys, name: str):
    text = VARIANTS.replace("name: one", f"name: {name}")
    assert name in text
    with pytest.raises(FileError, match=f"name {name} is that of a file of every result"):
        load_text(text, name="x")
    file = tmp_path / "x.yaml"
    file.write_text(text)
    for more in (["--check"], ["--results", str(tmp_path / "results")]):
        assert run(["run", str(file), *more]) == 3
        assert "call the variant something else" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_every_result_file_name_is_refused_as_a_variant(result: Path):
    """Whatever a result comes to hold: a variant's folder must not meet it."""
    for entry in result.iterdir():
        if entry.name != "only":
            with pytest.raises(FileError, match="is that of a file"):
                load_text(VARIANTS.replace("name: one", f"name: {entry.name}"), name="x")
