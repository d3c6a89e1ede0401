"""Build the site in build/site, or in another folder that is given, without a network: ``make docs``.

Zensical gets a copy of the pages (``pages``) in build/pages and a configuration beside it. Whatever it warns of is an
error: a page that is not there, a link or heading that does not exist. So is anything that a reader's browser would
load from elsewhere. MRC_REPOSITORY is the address to which links to sources lead (GitHub Actions: GITHUB_REPOSITORY).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from mrc_common import children
from scripts.docs_site import check, navigation, reference
from scripts.docs_site.pages import Project, copy

ROOT = Path(__file__).resolve().parents[2]
ASSETS = Path(__file__).parent / "assets"


def configuration(nav: list[dict[str, object]], repository: str) -> dict[str, Any]:
    """Zensical's configuration."""
    return {
        "site_name": "mrc-testbed",
        "site_description": "An emulated multi-plane Clos with P4 switches and software MRC NICs",
        "docs_dir": "pages",
        "site_dir": "site",
        "use_directory_urls": False,  # pages work from disk
        "nav": [*nav, *([{"Source": repository}] if repository else [])],
        "theme": {
            "name": "material",
            "font": False,
            "features": [
                "navigation.tabs", "navigation.sections", "navigation.footer", "navigation.top", "toc.follow",
                "content.code.copy", "content.tooltips", "search.highlight",
            ],
            "palette": [
                {"media": f"(prefers-color-scheme: {scheme})", "scheme": palette,
                 "toggle": {"icon": icon, "name": f"Switch to {other}"}}
                for scheme, palette, icon, other in (
                    ("light", "default", "lucide/sun", "dark"), ("dark", "slate", "lucide/moon", "light"),
                )
            ],
        },
        "extra": {"generator": False},
        "extra_css": ["assets/site.css"],
        "extra_javascript": ["assets/site.js"],
        "markdown_extensions": [
            "abbr", "attr_list", "md_in_html", "tables", "toc", "pymdownx.superfences",
            {"pymdownx.highlight": {"anchor_linenums": False}}, "pymdownx.inlinehilite",
        ],
        "plugins": ["search", "offline", {"mkdocstrings": {"handlers": {"python": {
            "paths": [str(ROOT)],
            "options": {
                "docstring_style": "google",
                "docstring_section_style": "list",
                "extensions": [str(Path(__file__).with_name("docstrings.py"))],
                "filters": ["!^_"],
                "heading_level": 2,
                "inherited_members": True,
                "line_length": 80,
                "members_order": "source",
                "merge_init_into_class": True,
                "separate_signature": True,
                "show_if_no_docstring": False,
                "show_root_heading": False,
                "show_root_toc_entry": False,
                "show_signature_annotations": True,
                "show_source": False,
                "signature_crossrefs": True,
            },
        }}}}],
    }  # fmt: skip


def repository_address() -> str:
    """Where links to sources lead; empty if nobody says."""
    if "MRC_REPOSITORY" in os.environ:
        return os.environ["MRC_REPOSITORY"]
    server, name = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
    return f"{server}/{name}" if server and name else ""


def main(build: Path) -> int:
    """Build the site in `build`/site, with the reports of `build`/reports; returns the exit status."""
    started = time.monotonic()
    pages, site = build / "pages", build / "site"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.rmtree(site, ignore_errors=True)
    repository = repository_address()
    modules = reference.modules(ROOT / "docs/api.md")
    reports = frozenset(report.stem for report in (build / "reports").glob("*.html"))
    copy(Project(ROOT, repository, {module.source: module.page for module in modules}, reports), pages)
    for module in modules:
        (pages / module.page).parent.mkdir(exist_ok=True)
        (pages / module.page).write_text(module.text(), "utf-8")
    shutil.copytree(ASSETS, pages / "assets")
    if reports:
        shutil.copytree(build / "reports", pages / "reports", ignore=shutil.ignore_patterns("version"))
    config = build / "mkdocs.yml"
    nav = navigation.tree(ROOT, [module.page for module in modules])
    config.write_text(yaml.safe_dump(configuration(nav, repository), sort_keys=False), "utf-8")
    command = children.python_tool("zensical", "build", "--strict", "--clean", "--config-file", str(config))
    done = children.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=build)
    if done.returncode:
        print(done.stdout + done.stderr.partition("Traceback")[0], file=sys.stderr)
        return done.returncode
    (site / "404.html").unlink(missing_ok=True)  # its links hold at a server's root only
    check.make_local(site)
    if found := list(check.problems(site)):
        print("\n".join(found), file=sys.stderr)
        return 1
    files = [file for file in site.rglob("*") if file.is_file()]
    html = sum(file.suffix == ".html" for file in files)
    size = sum(file.stat().st_size for file in files) / 1e6
    print(f"{site / 'index.html'}: {html} pages, {size:.1f} MB, in {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build"))
