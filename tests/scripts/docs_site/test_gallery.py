"""The gallery's reports come from the commands that the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.docs_site import gallery

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/gallery.md"


def test_every_report_has_its_command_and_every_command_its_report() -> None:
    found = {report.name: report.command for report in gallery.reports(PAGE)}
    assert list(found) == re.findall(r"<!-- report ([\w-]+) -->", PAGE.read_text())
    assert len(found) == PAGE.read_text().count("\nmrc run ")
    assert found["incast"] == ("run", "examples/incast.yaml")
    assert all((ROOT / command[1]).is_file() for command in found.values())


def test_a_report_is_self_contained(tmp_path: Path) -> None:
    gallery.make(next(gallery.reports(PAGE)), tmp_path)
    text = (tmp_path / "incast.html").read_text()
    assert "An incast under a congestion control of your own" in text
    assert not re.findall(r"""(?:src|href)="https?://[^"]*\.(?:js|css|png|svg)""", text)


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"mrc run missing\.yaml: status 3\n.*missing\.yaml"):
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
