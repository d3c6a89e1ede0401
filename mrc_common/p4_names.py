"""Names of a P4 program's objects without the controls that they are in, as far as they mean one object only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator


def by_suffix(names: Iterable[str]) -> dict[str, str]:
    """Every name, by itself and by each of its suffixes that no other name has.

    Of ``I.a.t`` and ``I.b.t`` that are ``a.t`` and ``b.t``, but not ``t``.
    """
    known = dict.fromkeys(names)
    count = Counter(suffix for name in known for suffix in suffixes(name))
    found = {suffix: name for name in known for suffix in suffixes(name) if count[suffix] == 1}
    return {**found, **{name: name for name in known}}


def suffixes(name: str) -> Iterator[str]:
    """The last part of a name, its last two parts, and so on, up to all of it."""
    parts = name.split(".")
    return (".".join(parts[at:]) for at in reversed(range(len(parts))))
