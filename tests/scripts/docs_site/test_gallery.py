"""The gallery's reports come from the commands that the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.docs_site import gallery
from tests.mrc_lab.web.browser import chromium
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/gallery.md"


def test_every_report_has_its_command_and_every_command_its_report() -> None:
    found = {report.name: report.command for report in gallery.reports(PAGE)}
    assert list(found) == re.findall(r"<!-- (?:report|recording) ([\w-]+) -->", PAGE.read_text())
    assert len(found) == PAGE.read_text().count("\nmrc run ")
    assert found["incast"] == ("run", "examples/incast.yaml")
    assert all((ROOT / command[1]).is_file() for command in found.values())


def test_a_report_is_self_contained(tmp_path: Path) -> None:
    gallery.make(next(report for report in gallery.reports(PAGE) if report.name == "incast"), tmp_path)
    text = (tmp_path / "incast.html").read_text()
    assert "An incast under a congestion control of your own" in text
    assert not re.findall(r"""(?:src|href)="https?://[^"]*\.(?:js|css|png|svg)""", text)


def test_the_recording_plays_a_cut_link_over_both_transports_from_disk(tmp_path: Path) -> None:
    recording = next(report for report in gallery.reports(PAGE) if report.name == "cut_link_run")
    gallery.make(recording, tmp_path)
    file = tmp_path / "cut_link_run.html"
    assert file.stat().st_size < 4_000_000
    with chromium(file.as_uri()) as page:
        assert [page.text(f"#{side} option:checked") for side in ("left", "right")] == ["RoCE", "MRC"]
        page.one("#next-event").click()
        for frame in page.driver.find_elements("css selector", "#frames iframe"):
            page.driver.switch_to.frame(frame)
            until(lambda: page.js("return document.querySelectorAll('.link.down').length") == 1, "a link to be down")
            page.driver.switch_to.default_content()
        page.js("const t = document.querySelector('#time'); t.value = t.max; t.dispatchEvent(new Event('input'))")
        for frame, wanted in zip(page.driver.find_elements("css selector", "#frames iframe"), ("✕", "✓"), strict=True):
            page.driver.switch_to.frame(frame)
            page.until_text("#training", lambda text, wanted=wanted: f"{wanted} The link t0-0 to t1-3" in text)  # type: ignore[misc]
            page.driver.switch_to.default_content()
        assert page.problems() == []


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)mrc run missing\.yaml: status 3\n.*missing\.yaml"):
        gallery.make(gallery.Report("missing", ("run", "missing.yaml")), tmp_path)
    assert not list(tmp_path.iterdir())


def test_made_reports_are_kept_until_a_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make(report: gallery.Report, folder: Path) -> None:
        made.append(report.name)
        folder.mkdir(exist_ok=True)
        (folder / f"{report.name}.html").write_text("report")

    version = ["1"]
    monkeypatch.setattr(gallery, "FOLDER", tmp_path / "reports")
    monkeypatch.setattr(gallery, "make", make)
    monkeypatch.setattr(gallery, "_version", lambda: version[0])
    gallery.main()
    first = len(made)
    assert first == len(list(gallery.reports(PAGE)))
    (tmp_path / "reports/old.html").touch()
    gallery.main()
    assert len(made) == first
    assert not (tmp_path / "reports/old.html").exists()
    version[0] = "2"
    gallery.main()
    assert len(made) == 2 * first
