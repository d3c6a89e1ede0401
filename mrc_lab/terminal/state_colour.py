"""Colours of states: red is down, lost for good or wrong; amber is suspected, degraded or denied; the rest has none.

The words themselves say the state, so nothing is lost without colour, or to those who cannot tell red from amber: what
is red is also bold.
"""

from __future__ import annotations

import re
from typing import Final

from rich.text import Text

RED: Final = "bold red"
AMBER: Final = "yellow"
_RED_WORDS: Final = (
    "down",
    "assumed_bad",
    "error",
    "err",
    "fail",
    "failed",
    "missing",
    "crashed",
    "blackhole",
    "wrong",
)
_AMBER_WORDS: Final = (
    "skip", "suspected", "denied", "untrusted", "degraded", "stopped", "unknown", "absent", "low", "found", "warning",
)  # fmt: skip
_STYLES: Final = {**dict.fromkeys(_RED_WORDS, RED), **dict.fromkeys(_AMBER_WORDS, AMBER)}
_WORD: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(_STYLES)})(?![\w-])", re.IGNORECASE)


def style_of(state: str) -> str:
    """The style of a state by its word; empty if it has none."""
    return _STYLES.get(state.lower(), "")


def coloured_verdict(text: str) -> Text:
    """The text with its first word in the colour of that state; what follows may be about anything."""
    found = Text(text)
    first = text.split(maxsplit=1)[:1]
    if first and style_of(first[0]):
        found.stylize(style_of(first[0]), 0, len(first[0]))
    return found


def coloured(text: str) -> Text:
    """The text with every word of a state in its colour."""
    found = Text(text)
    for match in _WORD.finditer(text):
        found.stylize(style_of(match[0]), match.start(), match.end())
    return found
