"""A griffe extension: docstrings as this project writes them, as Markdown.

References (``:class:`~a.b.C```) become links within the reference where it has the target, examples after ``>>>``
become blocks of code, and pages (docs/verbs.md) become links to those of the site.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|data|mod|attr|exc):`(?P<short>~?)(?P<target>[\w.]+)`")
_PAGE = re.compile(r"(?<![\w/\[])(?<!\]\()`?docs/(?P<page>[\w/-]+\.md)`?")


class Docstrings(griffe.Extension):
    """Rewrites each docstring when griffe has read its object."""

    def on_instance(self, *, node: Any, obj: griffe.Object, agent: Any, **kwargs: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_class_members(self, *, node: Any, cls: griffe.Class, agent: Any, **kwargs: Any) -> None:
        """Called for every class: that of an enumeration lists its values, which have no docstrings of their own."""
        if cls.docstring is None or not any(str(base).endswith(("Enum", "Flag")) for base in cls.bases):
            return
        values = [name for name, member in cls.members.items() if member.is_attribute and not name.startswith("_")]
        if values:
            cls.docstring.value += "\n\nValues: " + ", ".join(f"`{name}`" for name in values) + "."


def as_markdown(text: str) -> str:
    """A docstring's text as Markdown."""
    text = _ROLE.sub(_reference, text)
    text = _PAGE.sub(lambda match: f"[docs/{match['page']}](../docs/{match['page']})", text)
    lines: list[str] = []
    in_example = False
    for line in text.splitlines():
        is_example = line.startswith((">>> ", "... ")) and (in_example or line.startswith(">>>"))
        if is_example != in_example:
            lines += ["```python"] if is_example else ["```"]
        lines.append(line[4:] if is_example else line)
        in_example = is_example
    return "\n".join([*lines, "```"] if in_example else lines)


def _reference(match: re.Match[str]) -> str:
    target = match["target"]
    name = target.rpartition(".")[2] if match["short"] or "." in target else target
    return f'<autoref optional identifier="{target}"><code>{name}</code></autoref>' if "." in target else f"`{name}`"
