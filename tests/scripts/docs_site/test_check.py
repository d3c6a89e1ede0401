"""What is refused in a built site: broken links and anchors, and whatever would be loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs_site import check


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "index.html").write_text('<h1 id="top">x</h1><a href="docs/a.html#one">a</a><a href="#top">t</a>')
    (tmp_path / "docs/a.html").write_text(
        '<p id="one"><a href="../index.html">x</a><a href="https://example.com/">y</a>'
    )
    return tmp_path


def test_a_site_whose_links_hold_has_no_problems(site: Path) -> None:
    assert not list(check.problems(site))


@pytest.mark.parametrize(
    ("markup", "problem"),
    [
        ('<a href="gone.html">', "index.html links to gone.html, which is not there"),
        ('<a href="docs/a.html#two">', "index.html links to docs/a.html#two, which has no such anchor"),
        ('<a href="#gone">', "index.html links to #gone, which has no such anchor"),
        ('<script src="https://cdn.example/x.js">', "index.html loads https://cdn.example/x.js"),
        ('<img src="//cdn.example/x.png">', "index.html loads //cdn.example/x.png"),
        ('<img src="gone.png">', "index.html loads gone.png, which is not there"),
        (
            '<link rel="preload stylesheet" href="https://cdn.example/x.css">',
            "index.html loads https://cdn.example/x.css",
        ),
    ],
)
def test_what_does_not_hold_is_named(site: Path, markup: str, problem: str) -> None:
    with (site / "index.html").open("a") as page:
        page.write(markup)
    assert list(check.problems(site)) == [problem]


@pytest.mark.parametrize("rule", ["src: url(https://fonts.example/x)", '@import "https://fonts.example/x"'])
def test_style_sheets_load_nothing_from_elsewhere(site: Path, rule: str) -> None:
    (site / "x.css").write_text(f"@font-face {{ {rule}; }}")
    (found,) = check.problems(site)
    assert found.startswith("x.css loads ")


def test_canonical_links_and_drawings_in_place_load_nothing(site: Path) -> None:
    with (site / "index.html").open("a") as page:
        page.write('<link rel="canonical" href="https://example.com/"><img src="data:image/png;base64,AA==">')
    assert not list(check.problems(site))


def test_search_from_disk_uses_the_copy_beside_the_pages(site: Path) -> None:
    (site / "assets/iframe-worker").mkdir(parents=True)
    (site / "assets/iframe-worker/shim.js").touch()
    with (site / "docs/a.html").open("a") as page:
        page.write('<script src="https://unpkg.com/iframe-worker/shim"></script>')
    check.make_local(site)
    assert 'src="../assets/iframe-worker/shim.js"' in (site / "docs/a.html").read_text()
    assert not list(check.problems(site))
