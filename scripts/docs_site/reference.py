"""The API reference: pages made from the docstrings of what users program against, without importing it (griffe).

The table on docs/api.md says which modules these are: a row whose first link is a source. The page of a module shows
what the module defines or lists in ``__all__``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_ROW = re.compile(r"^\| \[`(?P<module>[\w.]+)`\]\(\.\./(?P<source>[\w/]+\.py)\) \| (?P<what>[^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the reference: its dotted name, its file in the project, and what it is for."""

    name: str
    source: str
    purpose: str

    @property
    def page(self) -> str:
        """Its page on the site, beside docs/."""
        return f"reference/{self.name}.md"

    def text(self) -> str:
        """The page, for mkdocstrings."""
        return f"# `{self.name}`\n\n{self.purpose}\n\n::: {self.name}\n"


def modules(api_page: Path) -> list[Module]:
    """The modules that docs/api.md lists, in its order."""
    return [Module(row["module"], row["source"], _sentence(row["what"])) for row in _ROW.finditer(api_page.read_text())]


def _sentence(what: str) -> str:
    text = re.sub(r"\]\((?!https?:)(\.\./)?", lambda match: "](../" if match[1] else "](../docs/", what)
    return text[0].upper() + text[1:].rstrip(".") + "."
