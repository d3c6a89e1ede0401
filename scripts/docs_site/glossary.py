"""Tooltips: the terms of docs/glossary.md, wherever else they stand, as abbreviations of Python-Markdown.

Which terms: abbreviations (letters with two capitals, as in QP, SRv6), and terms of two words or more. Words like
*path* or *plane* are on every line of some pages. A tooltip is plain text; assets/site.js makes it a link to the
glossary, where each row has an anchor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_ROW = re.compile(r"^\| (?P<terms>[^|]+) \| (?P<meaning>[^|]+) \|", re.MULTILINE)
_MARKUP = re.compile(r"\[(?P<text>[^\]]*)\]\([^)]*\)|[*`]")
_CERTAINTY = re.compile(r" \[[A-Z](?:/[A-Z])*[^\]]*\]")
_TERM = re.compile(r"\w+(?:[ -]\w+)+|\b\w*[A-Z]\w*[A-Z0-9]\w*\b")
_MAX_TOOLTIP = 220  # characters
_NOT_TERMS = frozenset({"WRITE", "P4"})  # of every other line


@dataclass(frozen=True, slots=True)
class Glossary:
    """Each term with its meaning as plain text, and each row's first cell with the name of its anchor."""

    terms: dict[str, tuple[str, str]]  # term -> meaning, anchor
    anchors: dict[str, str]

    @classmethod
    def read(cls, page: Path) -> Glossary:
        """The glossary on a page: tables whose first two columns are terms and meaning."""
        terms: dict[str, tuple[str, str]] = {}
        anchors: dict[str, str] = {}
        for row in _ROW.finditer(page.read_text("utf-8")):
            cell = row["terms"]
            if cell in ("term", "name") or set(cell) == {"-"}:
                continue
            anchor = "term-" + re.sub(r"\W+", "-", cell.lower()).strip("-")
            anchors[cell] = anchor
            for part in re.split(r"[,()]", cell):
                if (match := _TERM.fullmatch(part.strip(" `"))) and match[0] not in _NOT_TERMS:
                    terms.setdefault(match[0], (_plain(row["meaning"]), anchor))
        return cls(terms, anchors)

    def abbreviations(self, text: str, glossary: str) -> str:
        """Markdown to append to a page with `text`: the terms that it uses. `glossary` is the glossary's address."""
        used = [term for term in self.terms if re.search(rf"\b{re.escape(term)}\b", text)]
        if not used:
            return ""
        places = " ".join(f'data-{self._key(term)}="{self.terms[term][1]}"' for term in used)
        lines = "\n".join(f"*[{term}]: {self.terms[term][0]}" for term in used)
        return f'\n<div class="mrc-glossary" hidden data-glossary="{glossary}" {places}></div>\n\n{lines}\n'

    @staticmethod
    def _key(term: str) -> str:
        return "term-" + re.sub(r"\W+", "-", term.lower())

    def with_anchors(self, text: str) -> str:
        """The glossary's own page, each row with its anchor."""
        for cell, anchor in self.anchors.items():
            text = text.replace(f"\n| {cell} |", f'\n| <span id="{anchor}"></span>{cell} |')
        return text


def _plain(meaning: str) -> str:
    """The beginning of a meaning without markup: what fits a tooltip, up to the end of a sentence."""
    text = _CERTAINTY.sub("", _MARKUP.sub(lambda match: match["text"] or "", meaning)).replace('"', "'")
    if len(text) <= _MAX_TOOLTIP:
        return text
    end = max(text.rfind(". ", 0, _MAX_TOOLTIP), text.rfind("; ", 0, _MAX_TOOLTIP))
    return text[: end + 1].rstrip(";") if end > 0 else text[:_MAX_TOOLTIP].rsplit(" ", 1)[0] + " ..."
