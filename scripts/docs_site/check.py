"""Checks of the built site: it loads nothing from elsewhere, and each link inside it has its page and anchor."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SHIM = "https://unpkg.com/iframe-worker/shim"  # what the theme loads for search in pages that come from disk
_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "audio": "src",
    "video": "src",
    "link": "href",
}
_RELATIONS = frozenset({"stylesheet", "icon", "preload", "modulepreload", "manifest"})
_CSS_LOADS = re.compile(r"""url\(["']?(?:https?:)?//[^)]*\)|@import\s+["'](?:https?:)?//[^"']*""")


@dataclass(slots=True)
class Page(HTMLParser):
    """What a page links to and loads, and the anchors it has."""

    links: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element links to or loads."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        relation = given.get("rel", "").split()
        if tag in _LOADED and given.get(_LOADED[tag]) and (tag != "link" or _RELATIONS & set(relation)):
            self.loads.add(given[_LOADED[tag]])
        elif tag == "a" and given.get("href"):
            self.links.add(given["href"])


def make_local(site: Path) -> None:
    """Replace what the theme would load from elsewhere by our copy."""
    for file in site.rglob("*.html"):
        text = file.read_text("utf-8")
        if _SHIM in text:
            shim = os.path.relpath(site / "assets/iframe-worker/shim.js", file.parent)
            file.write_text(text.replace(_SHIM, shim), "utf-8")


def problems(site: Path) -> Iterator[str]:
    """Everything that is wrong with the built site, a line each."""
    pages = {file: _read(file) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        where = file.relative_to(site)
        for address in sorted(page.loads):
            if urlsplit(address).netloc:
                yield f"{where} loads {address}"
            elif not address.startswith("data:") and not _target(file, address).is_file():
                yield f"{where} loads {address}, which is not there"
        for address in sorted(page.links):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = _target(file, address) if parts.path else file
            if not target.is_file():
                yield f"{where} links to {address}, which is not there"
            elif (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors | {"__skip"}
            ):
                yield f"{where} links to {address}, which has no such anchor"
    for sheet in sorted(site.rglob("*.css")):
        for found in _CSS_LOADS.findall(sheet.read_text("utf-8")):
            yield f"{sheet.relative_to(site)} loads {found}"


def _read(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text("utf-8"))
    return page


def _target(file: Path, address: str) -> Path:
    return Path(os.path.normpath(file.parent / unquote(urlsplit(address).path)))
