"""Build the pages of docs/ and of the project's root as a web site in build/site: ``make docs``.

mkdocs gets a copy in which they lie as they do here, so that links between them hold; a link to a file that is no page
leads to the repository, if MRC_REPOSITORY gives its address (GitHub Actions: GITHUB_REPOSITORY). A page that mkdocs
cannot build, or a link to a page or heading that does not exist, is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from mrc_common import children

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
_LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?P<heading>#[^)\s]*)?\)")
CONFIGURATION = """\
site_name: mrc-testbed
docs_dir: pages
site_dir: site
theme: {name: readthedocs, highlightjs: false}
use_directory_urls: false
markdown_extensions: [tables, fenced_code, toc]
validation: {links: {not_found: warn, anchors: warn, unrecognized_links: warn}}
"""


def copy_pages(pages: Path, repository: str) -> None:
    """All pages below `pages`, with README.md as index; links to other files lead to `repository`, or nowhere."""
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        place = pages / page.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_with_links(page, repository), "utf-8")
    (pages / "README.md").rename(pages / "index.md")


def _with_links(page: Path, repository: str) -> str:
    def linked(match: re.Match[str]) -> str:
        target, heading = match["target"], match["heading"] or ""
        if "://" in target:
            return match[0]
        found = (page.parent / target).resolve()
        if found == ROOT / "README.md":
            return f"]({os.path.relpath(ROOT / 'index.md', page.parent)}{heading})"
        if found.suffix == ".md" or not found.exists():
            return match[0]
        return f"]({repository}/blob/main/{found.relative_to(ROOT)})" if repository else "]()"

    return _LINK.sub(linked, page.read_text("utf-8"))


def repository_address() -> str:
    """Where links to sources lead; empty if nobody says."""
    if "MRC_REPOSITORY" in os.environ:
        return os.environ["MRC_REPOSITORY"]
    server, name = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
    return f"{server}/{name}" if server and name else ""


def main() -> int:
    """Build the site."""
    shutil.rmtree(BUILD / "pages", ignore_errors=True)
    copy_pages(BUILD / "pages", repository_address())
    configuration = BUILD / "mkdocs.yml"
    configuration.write_text(CONFIGURATION, "utf-8")
    options = ("--strict", "--quiet", "--clean", "--config-file", str(configuration))
    done = children.run(children.python_tool("mkdocs", "build", *options), stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        print(f"{BUILD / 'site/index.html'}: {len(list((BUILD / 'site').rglob('*.html')))} pages")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
