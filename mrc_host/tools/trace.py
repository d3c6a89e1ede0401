"""Summarise an event trace (docs/trace.md): one table of queue pairs, one of paths, one of path changes.

    python -m mrc_host.tools.trace h1.jsonl
    python -m mrc_host.tools.trace h1.jsonl --qp 0x4a31f2 --events | less

A trace may still be growing: an incomplete last line is ignored.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrc_common import named_files, strict_json
from mrc_host.tools.session import ToolError

Event = dict[str, Any]


@dataclass(slots=True)
class PathSummary:
    """One path of one queue pair: packets sent on it, and the peer's reports on them."""

    plane: int = -1
    sent: int = 0
    retransmitted: int = 0
    lost: int = 0
    marked: int = 0
    trimmed: int = 0
    changes: Counter[str] = field(default_factory=Counter)  # "old -> new (reason)"
    state: str = ""


@dataclass(slots=True)
class QpSummary:
    """One queue pair. Times are nanoseconds; `recoveries` are from sending a lost packet to sending it again."""

    peer: str = ""
    remote: int = 0
    state: str = ""
    sent: int = 0
    bytes: int = 0
    retransmitted: int = 0
    received: int = 0
    lost: Counter[str] = field(default_factory=Counter)  # by reason
    sacks: int = 0
    nacks: int = 0
    probes: int = 0
    completions: Counter[str] = field(default_factory=Counter)  # by status
    recoveries: list[int] = field(default_factory=list)
    paths: dict[int, PathSummary] = field(default_factory=dict)
    error: str = ""
    waiting: dict[int, int] = field(default_factory=dict)  # lost PSN -> when it was sent

    def path(self, ev: int) -> PathSummary:
        """The path with entropy value `ev`."""
        return self.paths.setdefault(ev, PathSummary())


@dataclass(slots=True)
class Summary:
    """A whole trace."""

    first: int = 0
    last: int = 0
    events: int = 0
    qps: dict[int, QpSummary] = field(default_factory=dict)
    drops: Counter[str] = field(default_factory=Counter)
    ports: list[Event] = field(default_factory=list)


def read(path: str | Path) -> Iterator[Event]:
    """The events of a trace file; raises ToolError when it is not one."""
    try:
        for number, line in enumerate(named_files.lines(path), 1):
            if not line.endswith("\n"):
                return
            try:
                event = strict_json.loads(line)
            except ValueError:
                event = None
            if not isinstance(event, dict) or "t" not in event or "event" not in event:
                raise ToolError(f"{path}, line {number}: not an event of a trace.")
            yield event
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"Cannot read {path}: {error}.") from None


def summarise(events: Iterable[Event]) -> Summary:
    """Count the events."""
    summary = Summary()
    for event in events:
        summary.first = summary.first or event["t"]
        summary.last = max(summary.last, event["t"])
        summary.events += 1
        kind = event["event"]
        if kind == "drop":
            summary.drops[event["reason"]] += 1
        elif kind == "port":
            summary.ports.append(event)
        elif event.get("qpn"):
            _take(summary.qps.setdefault(event["qpn"], QpSummary()), kind, event)
    return summary


def _take(qp: QpSummary, kind: str, event: Event) -> None:
    if kind == "send":
        _sent(qp, event)
    elif kind == "receive":
        _received(qp, event)
    elif kind == "lost":
        qp.lost[event["why"]] += 1
        qp.waiting.setdefault(event["psn"], event["sent"])
        path = qp.path(event["ev"])
        path.plane = event["plane"]
        path.lost += 1
    elif kind == "path":
        path = qp.path(event["ev"])
        path.plane, path.state = event["plane"], event["new"]
        path.changes[f"{event['old']} -> {event['new']} ({event['reason']})"] += 1
    elif kind == "completion":
        qp.completions[event["status"]] += 1
    elif kind == "qp":
        qp.state, qp.peer, qp.remote = event["state"], event["peer"], event["remote"]
    elif kind == "error":
        qp.error = event["reason"]


def _sent(qp: QpSummary, event: Event) -> None:
    op = event["op"]
    if op == "probe":
        qp.probes += 1
    if op not in ("write", "rc_write"):
        return
    path = qp.path(event["ev"])
    path.plane = event["port"]
    path.sent += 1
    if event.get("rtx"):
        path.retransmitted += 1
        qp.retransmitted += 1
        lost = qp.waiting.pop(event["psn"], None)
        if lost is not None:
            qp.recoveries.append(event["t"] - lost)
    else:
        qp.sent += 1
        qp.bytes += event["size"]


def _received(qp: QpSummary, event: Event) -> None:
    op = event["op"]
    if op == "sack":
        qp.sacks += 1
        if event["mark"] == "skip_once" and event["path"] in qp.paths:
            qp.paths[event["path"]].marked += 1
    elif op == "nack":
        qp.nacks += 1
        if event["reason"] == "trimmed" and event["path"] in qp.paths:
            qp.paths[event["path"]].trimmed += 1
    elif op in ("write", "rc_write"):
        qp.received += 1


def show(summary: Summary, *, only: int | None = None) -> None:
    """Print the tables."""
    took = (summary.last - summary.first) / 1e6
    print(f"{summary.events} events in {took:.3f} ms")
    qps = {qpn: qp for qpn, qp in summary.qps.items() if only is None or qpn == only}
    rows = [
        (
            f"{qpn:#x}", f"{qp.peer}:{qp.remote:#x}" if qp.peer else "-", qp.state or "-", qp.sent, qp.retransmitted,
            _counts(qp.lost), qp.received, qp.sacks, qp.nacks, qp.probes, _counts(qp.completions),
            _recovery(qp.recoveries),
        )
        for qpn, qp in sorted(qps.items())
    ]  # fmt: skip
    _table(
        "Queue pairs",
        ("qpn", "peer", "state", "sent", "rtx", "lost", "received", "sacks", "nacks", "probes", "completions",
         "sent again after us (median, worst)"),
        rows,
    )  # fmt: skip
    path_rows = [
        (f"{qpn:#x}", f"{ev:#x}", p.plane, p.sent, p.retransmitted, p.lost, p.marked, p.trimmed, p.state or "-")
        for qpn, qp in sorted(qps.items())
        for ev, p in sorted(qp.paths.items(), key=lambda item: (item[1].plane, item[0]))
    ]
    _table("Paths", ("qpn", "ev", "plane", "sent", "rtx", "lost", "marked", "trimmed", "state"), path_rows)
    changes: Counter[tuple[str, str]] = Counter()
    for qpn, qp in qps.items():
        for path in qp.paths.values():
            for change, count in path.changes.items():
                changes[f"{qpn:#x}", change] += count
    _table("Path changes", ("qpn", "change", "times"), [(q, c, n) for (q, c), n in sorted(changes.items())])
    for qpn, qp in sorted(qps.items()):
        if qp.error:
            print(f"queue pair {qpn:#x} failed: {qp.error}")
    for event in summary.ports:
        whose = "port" if event["local"] else f"port of {event['peer']}"
        print(f"{(event['t'] - summary.first) / 1e6:.3f} ms: {whose} {event['port']} {'up' if event['up'] else 'down'}")
    if summary.drops:
        print("dropped frames:", _counts(summary.drops))


def _counts(counter: Counter[str]) -> str:
    return " ".join(f"{name}={count}" for name, count in sorted(counter.items())) or "0"


def _recovery(times: list[int]) -> str:
    return f"{statistics.median(times) / 1000:.1f} {max(times) / 1000:.1f}" if times else "-"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if not rows:
        return
    texts = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    print(f"\n{title}")
    for row in texts:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m mrc_host.tools.trace", description="Summarise the event trace of a NIC (docs/trace.md)."
    )
    parser.add_argument("file", help="the trace, JSON lines")
    parser.add_argument("--qp", type=lambda text: int(text, 0), metavar="QPN", help="only this queue pair")
    parser.add_argument("--events", action="store_true", help="print the events instead, one per line, times in us")
    options = parser.parse_args(arguments)
    try:
        events: Iterable[Event] = read(options.file)
        if options.events:
            _print_events(events, options.qp)
        else:
            show(summarise(events), only=options.qp)
    except ToolError as error:
        print(f"trace: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, such as less, has enough
        sys.stderr.close()
    return 0


def _print_events(events: Iterable[Event], only: int | None) -> None:
    first = None
    for event in events:
        first = event["t"] if first is None else first
        if only is not None and event.get("qpn") != only:
            continue
        rest = " ".join(f"{k}={v}" for k, v in event.items() if k not in ("t", "event"))
        print(f"{(event['t'] - first) / 1000:14.3f} {event['event']:<10} {rest}")


if __name__ == "__main__":
    sys.exit(main())
