"""Writes docs/counters.md from the table of counters: ``python -m scripts.counters_page`` (from the project's root)."""

from __future__ import annotations

from pathlib import Path

from mrc_host.counters import Level, at_level

PAGE = Path(__file__).parent.parent / "docs" / "counters.md"

_HEAD = """# Counters

Written by `python -m scripts.counters_page` from the table in `mrc_host/counters.py`, which the NIC, verbs, the agent,
the prompt and the controller share. Where RDMA devices have a name for the same thing (`rdma statistic show`, the files
in `hw_counters`, `ethtool -S`) it is used here too.

| where | how |
|---|---|
| verbs | `QueuePair.hw_counters()`, `Context.hw_counters()`, `Context.port_counters()` |
| the agent's protocol | operations `hw_counters` (of `qpn`, or of the NIC) and `port_counters` |
| the prompt | `counters h1`, `counters h1 --json`; what is 0 is left out of the table |
| the controller's gRPC | `GetNicCounters` |

What a queue pair counts is also added up for the NIC, over all queue pairs there ever were: resetting, failing and
destroying one takes nothing away. So the NIC's counters never fall while its agent lives. A *gauge* says how things are
just now. Durations are counters of nanoseconds; those that still run are included when they are read.
"""

_SECTIONS = {
    Level.QP: ("Of a queue pair", "It keeps its counters when it is reset. RC measures no round trips and no stalls."),
    Level.NIC: ("Of the NIC only", "Besides these the NIC has the sum of every counter above, and `inflight_bytes`."),
    Level.PORT: ("Of a port", "Port N is the NIC's end of plane N."),
}  # fmt: skip


def page() -> str:
    """The text of docs/counters.md."""
    parts = [_HEAD]
    told: set[tuple[str, str]] = set()
    for level, (title, remark) in _SECTIONS.items():
        rows = ["| name | unit | kind | meaning |", "|---|---|---|---|"]
        for info in at_level(level):
            if level is Level.NIC and (info.name, info.meaning) in told:
                continue
            told.add((info.name, info.meaning))
            kind = "gauge" if info.gauge else "counter"
            rows.append(f"| `{info.name}` | {info.unit} | {kind} | {info.meaning} |")
        parts.append(f"## {title}\n\n{remark}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
