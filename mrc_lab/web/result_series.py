"""The series of a case in a result folder, in time bins few and coarse enough for a page to play them.

A run may have many thousands of bins and links, so bins are put together until their number times that of the links is
below a limit: that, and not the length of the run, bounds what is read into memory and written into the page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mrc_lab.errors import ExperimentError
from mrc_lab.reports.perfetto.json_lines import naming_line
from mrc_lab.reports.read_table import rows, time_bin

MAX_BINS = 2000
MIN_BINS = 20
MAX_VALUES = 300_000  # bins times links


@dataclass(slots=True)
class LinkCounts:
    """Of one link in one bin: bytes, and mean queues as bytes times ns, upwards and downwards; frames lost on it.

    `marked` and `trimmed` are packets on their way to it; of what was counted over several bins, each has its share.
    """

    upward_bytes: int = 0
    downward_bytes: int = 0
    lost: int = 0
    upward_queue: int = 0
    downward_queue: int = 0
    marked: float = 0.0
    trimmed: float = 0.0


@dataclass(slots=True)
class FlowCounts:
    """Of one flow in one bin: packets, payload in bits, and retransmission timeouts."""

    sent: int = 0
    retransmitted: int = 0
    lost: int = 0
    timeouts: int = 0
    bits: float = 0.0


@dataclass(slots=True)
class TimeBin:
    """What happened from `begin` to `end` (ns)."""

    begin: int
    end: int
    links: dict[str, LinkCounts] = field(default_factory=lambda: defaultdict(LinkCounts))
    flows: dict[str, FlowCounts] = field(default_factory=lambda: defaultdict(FlowCounts))


def read_series(folder: Path, links: int, end: int, *, links_measured: bool, share: float = 1.0) -> list[TimeBin]:
    """The bins of a case with so many links, of at most a `share` of what one may have; the run was over at `end` (ns).

    A run in which no host wrote to another has no flows, and the bins of its links, or a single one. Raises
    ExperimentError for tables that are not those of a run.
    """
    edges = sorted(set(_edges(folder, "flow")))
    if not edges and links_measured:
        edges = sorted(set(_edges(folder, "link")))
    if not edges and end > 0:
        edges = [(0, end)]
    if not edges:
        raise ExperimentError(f"{folder / 'flows.csv'} has no rows", "The run ended before its first time bin did.")
    most = max(MIN_BINS, min(MAX_BINS, round(MAX_VALUES * share) // max(1, links)))
    together = -(-len(edges) // most)
    groups = [edges[first : first + together] for first in range(0, len(edges), together)]
    bins = [TimeBin(group[0][0], group[-1][1]) for group in groups]
    at = {begin: found for group, found in zip(groups, bins, strict=True) for begin, _ in group}
    _read_flows(folder, at)
    if links_measured:
        _read_links(folder, at)
        if (folder / "queues.csv").exists():
            _read_queues(folder, at)
        if has_signals(folder):
            _read_signals(folder, edges, at)
    return bins


def has_signals(folder: Path) -> bool:
    """Whether marks and trims were measured over time."""
    return (folder / "signals.csv").exists()


def _edges(folder: Path, of: str) -> Iterator[tuple[int, int]]:
    """The bins in a table of flows or links."""
    last = None
    for path, number, row in rows(folder / f"{of}s.csv", ("begin_ns", "end_ns", of)):
        with naming_line(path, number, f"a row of {of}s"):
            found = time_bin(row)
        if found != last:
            yield found
        last = found


def _read_flows(folder: Path, at: dict[int, TimeBin]) -> None:
    columns = ("begin_ns", "end_ns", "flow", "bits_per_s", "sent", "retransmitted", "lost", "timeouts")
    for path, number, row in rows(folder / "flows.csv", columns):
        with naming_line(path, number, "a row of flows"):
            begin, end = time_bin(row)
            flow = at[begin].flows[row["flow"]]
            flow.sent += int(row["sent"])
            flow.retransmitted += int(row["retransmitted"])
            flow.lost += int(row["lost"])
            flow.timeouts += int(row["timeouts"])
            flow.bits += float(row["bits_per_s"]) * (end - begin) / 1e9


def _read_links(folder: Path, at: dict[int, TimeBin]) -> None:
    for path, number, row in rows(folder / "links.csv", ("begin_ns", "end_ns", "link", "direction", "bytes", "lost")):
        with naming_line(path, number, "a row of links"):
            begin, _ = time_bin(row)
            link = at[begin].links[row["link"]]
            link.lost += int(row["lost"])
            if row["direction"] == "up":
                link.upward_bytes += int(row["bytes"])
            else:
                link.downward_bytes += int(row["bytes"])


def _read_queues(folder: Path, at: dict[int, TimeBin]) -> None:
    for path, number, row in rows(folder / "queues.csv", ("begin_ns", "end_ns", "link", "direction", "mean_bytes")):
        with naming_line(path, number, "a row of queues"):
            begin, end = time_bin(row)
            waited = int(row["mean_bytes"] or 0) * (end - begin)
            link = at[begin].links[row["link"]]
            if row["direction"] == "up":
                link.upward_queue += waited
            else:
                link.downward_queue += waited


def _read_signals(folder: Path, edges: list[tuple[int, int]], at: dict[int, TimeBin]) -> None:
    begins = [begin for begin, _ in edges]
    columns = ("begin_ns", "end_ns", "link", "direction", "marked", "trimmed")
    for path, number, row in rows(folder / "signals.csv", columns):
        with naming_line(path, number, "a row of signals"):
            begin, end = time_bin(row)
            marked, trimmed = int(row["marked"]), int(row["trimmed"])
            first, last = bisect_left(begins, begin), bisect_left(begins, end)
            if first == last or begins[first] != begin:
                raise ValueError("no time bin begins when it does")
            for edge, until in edges[first:last]:
                share = (until - edge) / (end - begin)
                link = at[edge].links[row["link"]]
                link.marked += marked * share
                link.trimmed += trimmed * share
