"""What a reroute is called in events and reports, the same in both backends."""

from __future__ import annotations

from collections.abc import Collection

from mrc_common.units import counted

_NAMED = 4  # links


def in_words(without: Collection[str], changes: int) -> str:
    """Without which links a plane is routed from now on, and how many entries that changed."""
    links = sorted(without)
    more = f" and {len(links) - _NAMED} more" if len(links) > _NAMED else ""
    which = f"without {', '.join(links[:_NAMED])}{more}" if links else "over all links"
    return f"{which}: {counted(changes, 'entry', 'entries')}"
