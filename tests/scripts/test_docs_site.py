"""The pages as the site's builder gets them: links between pages hold, links to sources lead to the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import docs_site


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs/deep").mkdir(parents=True)
    (tmp_path / "README.md").write_text("[start](docs/start.md#here) [out](https://example.com/a.py) [me](#top)")
    (tmp_path / "docs/start.md").write_text("[home](../README.md) [code](../setup.py) [gone](missing.md)")
    (tmp_path / "docs/deep/page.md").write_text("[home](../../README.md#top)")
    (tmp_path / "setup.py").touch()
    monkeypatch.setattr(docs_site, "ROOT", tmp_path)
    return tmp_path


def test_the_readme_is_the_index_and_links_follow(project: Path) -> None:
    docs_site.copy_pages(project / "pages", "https://example.com/x")
    texts = {str(page.relative_to(project / "pages")): page.read_text() for page in (project / "pages").rglob("*.md")}
    assert texts == {
        "index.md": "[start](docs/start.md#here) [out](https://example.com/a.py) [me](#top)",
        "docs/start.md": "[home](../index.md) [code](https://example.com/x/blob/main/setup.py) [gone](missing.md)",
        "docs/deep/page.md": "[home](../../index.md#top)",
    }


def test_without_a_repository_links_to_sources_lead_nowhere(project: Path) -> None:
    docs_site.copy_pages(project / "pages", "")
    assert "[code]()" in (project / "pages/docs/start.md").read_text()


def test_the_repository_is_that_of_the_workflow_or_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MRC_REPOSITORY", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    assert docs_site.repository_address() == ""
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/testbed")
    assert docs_site.repository_address() == "https://example.com/me/testbed"
    monkeypatch.setenv("MRC_REPOSITORY", "https://example.org/x")
    assert docs_site.repository_address() == "https://example.org/x"
