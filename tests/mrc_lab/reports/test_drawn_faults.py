"""What was drawn for faults by chance is named wherever a run is described, and both backends get the same."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.fault_draws import draw_case
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.running import run_experiment as running
from mrc_lab.reports.run_and_report import run_and_report
from mrc_lab.reports.run_seeds import run_seeds
from mrc_lab.web.result_recording import result_recordings

FILE = """\
fabric: {planes: 1, t0: 2, t1: 4, hosts: 4}
workload: {kind: write_bw, pairs: h1>h3, message: 16K}
duration: 100us
faults:
  - {name: cut, kind: link_down, at: 20us, until: 60us, link: "t0-*:t1-*@p0", count: 2}
  - {kind: blackhole, at: 50us, switch: "t1-*@p0", share: 25%}
"""


def drawn_with(seed: int) -> tuple[list[str], str]:
    """The links of the first fault and the switch of the second."""
    (case,) = load_text(FILE).cases
    *links, hole = draw_case(case, seed).faults
    return [one.fault.link for one in links], hole.fault.switch  # type: ignore[attr-defined]


def test_header_summary_report_and_page_name_them(tmp_path: Path):
    links, hole = drawn_with(4)
    header: list[str] = []
    result = run_and_report(load_text(FILE, name="drawn"), "sim", 4, tmp_path, notify=header.append)
    assert f"cut: link_down: 2 of 8 links, drawn: {', '.join(links)}" in header
    assert f"blackhole: 1 of 4 switches, drawn: {hole}" in header
    summary = json.loads((result.folder / "summary.json").read_text())["cases"]["only"]
    assert [(fault["name"], fault["links"], fault["drawn_from"]) for fault in summary["faults"][:2]] == [
        ("cut", [link], 8) for link in links
    ]
    assert [fault["drawn"] for fault in summary["extent"]["faults"]] == [links, [hole]]
    page = (result.folder / "report.html").read_text()
    assert f"drawn: {', '.join(links)}" in page
    assert f"cut: link down {links[0]}" in page
    (played,) = result_recordings(result.folder)
    text = "\n".join(played.records)
    assert all(f"link down {link}" in text for link in links)
    assert f"blackhole {hole}" in text


def test_the_report_of_several_seeds_names_those_of_each(tmp_path: Path):
    seeds = (1, 2, 3)
    assert len({str(drawn_with(seed)) for seed in seeds}) > 1
    found = run_seeds(load_text(FILE, name="drawn"), "sim", seeds, tmp_path)
    page = (found.folder / "report.html").read_text()
    drawn = json.loads((found.folder / "summary.json").read_text())["drawn"]
    for seed in seeds:
        links, hole = drawn_with(seed)
        assert drawn[str(seed)] == [f"cut: {', '.join(links)}", f"blackhole: {hole}"]
        assert f"drawn: cut: {', '.join(links)}; blackhole: {hole}" in page


def test_both_backends_are_given_the_same(monkeypatch: pytest.MonkeyPatch):
    class StoppedError(Exception):
        pass

    given: list[Case] = []

    @contextlib.contextmanager
    def opener(case: Case, seed: int) -> Iterator[None]:
        given.append(case)
        raise StoppedError
        yield

    monkeypatch.setattr(running, "_opener", lambda *arguments: opener)
    for backend in ("sim", "emulation"):
        with pytest.raises(StoppedError):
            running.run_experiment(load_text(FILE), backend, 9)
    simulated, emulated = given
    assert simulated == emulated
    links, hole = drawn_with(9)
    assert [fault.fault.in_words() for fault in emulated.faults] == [
        *(f"link down {link}" for link in links), f"blackhole {hole}",
    ]  # fmt: skip
