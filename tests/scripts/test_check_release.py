"""A tag releases only the version that is in pyproject.toml, the citation file and the changelog."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_release import main, problems


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("## 1.2.3 - 2026-12-01\n")
    return tmp_path


def test_a_tag_with_the_version_everywhere_may_be_released(project: Path) -> None:
    assert not list(problems("v1.2.3", project))


@pytest.mark.parametrize("tag", ["v1.2.4", "1.2.3", "v1.2.30"])
def test_another_tag_may_not(project: Path, tag: str) -> None:
    (found,) = problems(tag, project)
    assert found.startswith(f"The tag is {tag}, but pyproject.toml says version 1.2.3")


def test_a_changelog_without_a_date_or_an_old_citation_are_found(project: Path) -> None:
    (project / "CHANGELOG.md").write_text("## 1.2.3 - Unreleased\n")
    (project / "CITATION.cff").write_text("version: 1.2.30\n")
    assert [found.partition(" ")[0] for found in problems("v1.2.3", project)] == ["CITATION.cff", "CHANGELOG.md"]


def test_the_exit_status_says_whether_there_are_problems(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["v0"]) == 1
    assert "The tag is v0" in capsys.readouterr().out
    assert main([]) == 2
