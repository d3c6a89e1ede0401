"""Pages as the site's builder gets them: links, blocks of code, players, reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts.docs_site import pages

OUTSIDE = Path("docs/start.md")


@pytest.fixture
def project(tmp_path: Path) -> pages.Project:
    (tmp_path / "docs/deep").mkdir(parents=True)
    (tmp_path / "README.md").write_text("[start](docs/start.md#here) [out](https://example.com/a.py) [me](#top)\n")
    (tmp_path / "docs/start.md").write_text("[home](../README.md) [code](../setup.py) [gone](missing.md)\n")
    (tmp_path / "docs/deep/page.md").write_text("[home](../../README.md#top) ![seen](a.png)\n")
    (tmp_path / "docs/deep/a.png").write_bytes(b"picture")
    (tmp_path / "docs/deep/b.cast").write_text('{"version": 2}\n[1, "o", "</script>"]\n')
    (tmp_path / "docs/glossary.md").write_text("| term | meaning | more |\n|---|---|---|\n")
    (tmp_path / "setup.py").touch()
    return pages.Project(tmp_path)


def test_the_readme_is_the_index_and_links_follow(project: pages.Project, tmp_path: Path) -> None:
    pages.copy(replace(project, repository="https://example.com/x"), tmp_path / "pages")
    texts = {str(page.relative_to(tmp_path / "pages")): page.read_text() for page in (tmp_path / "pages").rglob("*.md")}
    del texts["docs/glossary.md"]
    assert texts == {
        "index.md": "[start](docs/start.md#here) [out](https://example.com/a.py) [me](#top)\n",
        "docs/start.md": "[home](../index.md) [code](https://example.com/x/blob/main/setup.py) [gone](missing.md)\n",
        "docs/deep/page.md": "[home](../../index.md#top) ![seen](a.png)\n",
    }
    assert (tmp_path / "pages/docs/deep/a.png").read_bytes() == b"picture"


def test_a_recording_becomes_a_script_that_ends_in_no_script(project: pages.Project, tmp_path: Path) -> None:
    """As the browser would end it, where the recorded program printed that."""
    pages.copy(project, tmp_path / "pages")
    text = (tmp_path / "pages/docs/deep/b.js").read_text()
    assert text.startswith('mrcRecording("b", "')
    assert "</script" not in text


def test_without_a_repository_links_to_sources_are_plain_text(project: pages.Project) -> None:
    assert pages.render(project, OUTSIDE, "the [code](../setup.py) here") == "the code here\n"


def test_links_to_sources_lead_to_their_reference(project: pages.Project) -> None:
    known = replace(project, reference={"setup.py": "reference/setup.md"}, repository="https://example.com/x")
    assert pages.render(known, OUTSIDE, "[code](../setup.py)") == "[code](../reference/setup.md)\n"


def test_links_inside_blocks_of_code_are_left_alone(project: pages.Project) -> None:
    text = "```python anywhere\nx[a](../setup.py)\n```\n[code](../setup.py)\n"
    assert pages.render(project, OUTSIDE, text) == "```python\nx[a](../setup.py)\n```\ncode\n"


@pytest.mark.parametrize(
    ("written", "built"),
    [
        ("```sh anywhere", "```sh"),
        ("```mrc", "```text"),
        ("```", "```"),
        ("```python file my.py", '```python title="my.py"'),
        ("   ```sh elsewhere", "   ```sh"),
    ],
)
def test_where_a_block_runs_is_left_out(project: pages.Project, written: str, built: str) -> None:
    indent = written[: written.index("`")]
    assert pages.render(project, OUTSIDE, f"{written}\nx\n{indent}```\n").splitlines()[0] == built


def test_a_picture_that_links_to_a_recording_becomes_a_player(project: pages.Project) -> None:
    line = "[![what <b> is seen](recordings/a.svg)](recordings/a.cast)"
    player = pages.render(project, OUTSIDE, line)
    assert 'data-recording="recordings/a.js"' in player
    assert "what &lt;b&gt; is seen" in player
    assert '<img alt="what &lt;b&gt; is seen" src="recordings/a.svg">' in player


def test_reports_are_linked_or_known_to_be_missing(project: pages.Project) -> None:
    known = replace(project, reports=frozenset({"incast"}))
    assert "(../reports/incast.html)" in pages.render(known, OUTSIDE, "<!-- report incast -->")
    with pytest.raises(ValueError, match=r"docs/start\.md: there is no report other"):
        pages.render(known, OUTSIDE, "<!-- report other -->")
