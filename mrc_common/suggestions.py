"""Suggestions for a name that does not exist, everywhere in the same order.

First names that continue what was typed after a whole word (``t1-0`` -> ``t1-0@p0``), then others that begin with it
(``wri`` -> ``write``), then those that are spelled alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 200  # characters compared: no name is longer, and comparing takes time with the square of it


def nearest(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.5) -> list[str]:
    """At most `most` of the known names, the likeliest first; empty when none is near.

    `cutoff` is the least similarity of the spelling, 0 to 1 (difflib's ratio).
    """
    name = name[:_LONGEST]
    names = list(dict.fromkeys(known))
    begin = [each for each in names if name and each.lower().startswith(name.lower())]
    whole = [each for each in begin if not each[len(name) :][:1].isalnum()]
    return (whole or begin or difflib.get_close_matches(name, names, n=most, cutoff=cutoff))[:most]


def did_you_mean(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.5) -> str:
    """The nearest of the known names as a question; empty when none is near."""
    *others, last = nearest(name, known, most=most, cutoff=cutoff) or [""]
    if not last:
        return ""
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"
