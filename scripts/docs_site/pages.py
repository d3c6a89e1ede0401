"""Copies the pages of docs/ and of the project's root for the site's builder, in the same folders, so that links hold.

Pages are written for people who read them in the repository. On the site a few things differ: a link to a source leads
to its page of the API reference, or to the repository, if its address is known; a picture that links to a recording of
the terminal becomes a player; a comment ``<!-- report NAME -->``, or ``recording``, becomes a link to that page of the
gallery; words that say where a block of code runs (docs/README.md) are left out; and terms of the glossary get their
tooltips.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.docs_site import recordings
from scripts.docs_site.glossary import Glossary

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)#\s]+)(?P<heading>#[^)\s]*)?\)")
_REPORT = re.compile(r"^<!-- (?P<what>report|recording) (?P<name>[\w-]+) -->$")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?: (?P<where>\w+)(?: (?P<file>\S+))?)?$")
_PICTURES = (".png", ".svg", ".gif")


@dataclass(frozen=True, slots=True)
class Project:
    """What pages are copied from: its folder, the repository's address or "", and what the site adds to it.

    `reference` maps sources to their pages of the API reference; `reports` are the names in the gallery.
    """

    root: Path
    repository: str = ""
    reference: Mapping[str, str] = field(default_factory=dict)
    reports: frozenset[str] = frozenset()

    def pages(self) -> Iterator[Path]:
        """Every page, as its place in the project."""
        for page in (*sorted(self.root.glob("*.md")), *sorted((self.root / "docs").rglob("*.md"))):
            yield page.relative_to(self.root)


def copy(project: Project, folder: Path) -> None:
    """Copy all pages with their pictures and recordings into `folder`, README.md as index.md."""
    glossary = Glossary.read(project.root / "docs/glossary.md")
    for page in project.pages():
        text = render(project, page, (project.root / page).read_text("utf-8"))
        place = folder / ("index.md" if str(page) == "README.md" else page)
        place.parent.mkdir(parents=True, exist_ok=True)
        if page.name == "glossary.md":
            text = glossary.with_anchors(text)
        else:
            text += glossary.abbreviations(text, os.path.relpath("docs/glossary.html", page.parent))
        place.write_text(text, "utf-8")
    for file in (project.root / "docs").rglob("*"):
        place = folder / file.relative_to(project.root)
        if file.suffix in _PICTURES:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        elif file.suffix == recordings.SUFFIX:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.with_suffix(".js").write_text(recordings.script(file), "utf-8")


def render(project: Project, page: Path, text: str) -> str:
    """A page as the site's builder gets it; `page` is its place in the project."""
    lines: list[str] = []
    fence = ""  # the end of the block that this line is in
    for line in text.splitlines():
        if fence:
            lines.append(line)
            fence = "" if line == fence else fence
        elif match := _FENCE.match(line):
            fence = match["indent"] + "```"
            lines.append(_opening(match))
        elif report := _REPORT.match(line):
            lines.append(_report(project, page, report["what"], report["name"]))
        else:
            lines.append(recordings.player(line) or _LINK.sub(lambda found: _link(project, page, found), line))
    return "\n".join(lines) + "\n"


def _opening(match: re.Match[str]) -> str:
    language = {"mrc": "text"}.get(match["language"], match["language"])
    title = f' title="{match["file"]}"' if match["file"] else ""
    return f"{match['indent']}```{language}{title}"


def _report(project: Project, page: Path, what: str, name: str) -> str:
    if name not in project.reports:
        raise ValueError(f"{page}: there is no {what} {name} in the gallery")
    text = "Open the report" if what == "report" else "Play it"
    return f'[{text}]({os.path.relpath("reports", page.parent)}/{name}.html){{ target="_blank" .md-button }}'


def _link(project: Project, page: Path, match: re.Match[str]) -> str:
    target, heading = match["target"], match["heading"] or ""
    if "://" in target:
        return match[0]
    found = (project.root / page.parent / target).resolve()
    if not found.is_relative_to(project.root) or not found.exists():
        return match[0]  # the builder reports it
    source = str(found.relative_to(project.root))
    if source == "README.md":
        return f"[{match['text']}]({os.path.relpath('index.md', page.parent)}{heading})"
    if found.suffix == ".md" or match["picture"]:
        return match[0]
    if source in project.reference:
        return f"[{match['text']}]({os.path.relpath(project.reference[source], page.parent)})"
    return f"[{match['text']}]({project.repository}/blob/main/{source})" if project.repository else match["text"]
