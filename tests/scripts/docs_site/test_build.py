"""What the site's builder is given, and the whole build where the builder is installed."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from scripts.docs_site import __main__ as site
from scripts.docs_site import gallery
from tests.mrc_lab.web.browser import chromium
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
(RECIPE,) = re.findall(r"^\t@(scripts/with-tools .*scripts\.docs_site)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

FIRST_RESULT = "return document.activeElement.shadowRoot?.querySelector('a')?.href"


def test_the_repository_is_that_of_the_workflow_or_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MRC_REPOSITORY", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    assert site.repository_address() == ""
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/testbed")
    assert site.repository_address() == "https://example.com/me/testbed"
    monkeypatch.setenv("MRC_REPOSITORY", "https://example.org/x")
    assert site.repository_address() == "https://example.org/x"


def test_the_configuration_opens_from_disk_and_names_the_repository() -> None:
    found = yaml.safe_load(yaml.safe_dump(site.configuration([{"Home": "index.md"}], "https://example.org/x")))
    assert not found["use_directory_urls"]
    assert "offline" in found["plugins"]
    assert found["theme"]["font"] is False
    assert found["nav"] == [{"Home": "index.md"}, {"Source": "https://example.org/x"}]


def test_what_the_player_and_search_load_is_vendored_with_its_licence() -> None:
    for folder in ("asciinema-player", "iframe-worker"):
        assert (site.ASSETS / folder / "LICENSE").stat().st_size > 500
    script = (site.ASSETS / "site.js").read_text()
    for name in re.findall(r"\$\{assets\}([\w./-]+)", script):
        assert (site.ASSETS / name).is_file()
    assert "://" not in script


@pytest.fixture
def docstrings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The extension, with a stand-in for griffe, which is in the builder's environment only."""
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object))  # type: ignore[arg-type]
    return importlib.import_module("scripts.docs_site.docstrings")


@pytest.mark.parametrize(
    ("written", "markdown"),
    [
        (":class:`~a.b.Name`s", '<autoref optional identifier="a.b.Name"><code>Name</code></autoref>s'),
        (":func:`load` runs it", "`load` runs it"),
        ("See docs/ci.md, and `docs/a-b.md`.", "See [docs/ci.md](../docs/ci.md), and [docs/a-b.md](../docs/a-b.md)."),
        ("(docs/protocol.md §5)", "([docs/protocol.md](../docs/protocol.md) §5)"),
        ("[x](docs/ci.md)", "[x](docs/ci.md)"),
        ("Use:\n\n>>> a = 1\n... b\n\nEnd.", "Use:\n\n```python\na = 1\nb\n```\n\nEnd."),
        (">>> a", "```python\na\n```"),
    ],
)
def test_docstrings_become_markdown(docstrings: ModuleType, written: str, markdown: str) -> None:
    assert docstrings.as_markdown(written) == markdown


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with stand-ins for the gallery's reports."""
    if not any((ROOT / ".cache/tools").glob("*/bin/zensical")):
        pytest.skip("the site's builder is not installed: make docs installs it")
    build = tmp_path_factory.mktemp("build")
    (build / "reports").mkdir()
    for report in gallery.reports(ROOT / "docs/gallery.md"):
        (build / "reports" / f"{report.name}.html").write_text("<p>A report.</p>")
    done = subprocess.run(["sh", "-c", f"{RECIPE} {build}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return build / "site"


@pytest.mark.timeout(600)
def test_the_site_is_built_without_warnings(built: Path) -> None:
    assert 'data-recording="docs/recordings/link-down.js"' in (built / "index.html").read_text()
    assert (built / "docs/recordings/link-down.js").is_file()
    assert 'id="simulation.world.SimulatedWorld.run"' in (built / "reference/simulation.world.html").read_text()
    assert "how-mrc-works-here.html" in (built / "search.js").read_text()


@pytest.mark.timeout(600)
def test_pages_from_disk_play_search_and_explain_and_load_nothing_from_elsewhere(built: Path) -> None:
    with chromium((built / "index.html").as_uri()) as page:
        page.one(".mrc-recording .ap-player")
        term = page.one("a.mrc-term abbr")
        assert "docs/glossary.html#term-" in term.find_element("xpath", "..").get_attribute("href")
        page.driver.find_element("tag name", "body").send_keys("\ue009k")  # Ctrl-K
        until(lambda: page.js("return document.activeElement.shadowRoot !== null"), "the search field")
        page.driver.switch_to.active_element.send_keys("SimulatedWorld")
        found = until(lambda: page.js(FIRST_RESULT), "a result")
        assert "/reference/simulation.world.html" in found
        loaded = page.js("return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert not [name for name in loaded if not name.startswith((built.as_uri(), "data:", "blob:"))]
        assert not page.problems()
        page.resize(390, 844)
        assert page.js("return document.documentElement.scrollWidth <= innerWidth")
