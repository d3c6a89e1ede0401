"""The tables of `mrc top`, from the newest sample and the one before it, which gives rates.

A cell has a value to sort by and a text in the colour of its state. A row keeps its key as long as what it shows
exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from controller.values import LinkStatus
from mrc_common.units import show_rate
from mrc_host.verbs_types import PathState
from mrc_lab.terminal.state_colour import AMBER, RED, coloured
from mrc_lab.top.sampling import HostSample, QueuePairSample, Sample
from topologies.emulation.link_counters import Traffic

_BUSY: Final = 0.95  # share of a link's rate
_STATES_FIRST: Final = (PathState.ASSUMED_BAD, PathState.DENIED, PathState.SKIP, PathState.GOOD)


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows, and what its column is sorted by."""

    value: float | str
    text: Text


@dataclass(frozen=True, slots=True)
class TopRow:
    """A row; `key` names what it shows."""

    key: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class TopTable:
    """One table: its columns, and the rows for a sample and the one before."""

    name: str
    columns: tuple[str, ...]
    sorted_by: int
    descending: bool
    rows: Callable[[Sample, Sample | None], Iterator[TopRow]]


def in_order(rows: Sequence[TopRow], column: int, descending: bool) -> list[TopRow]:
    """The rows sorted by a column; those that are equal by their keys, so that they do not dance."""
    by_key = sorted(rows, key=lambda row: row.key)
    return sorted(by_key, key=lambda row: row.cells[column].value, reverse=descending)


# ---- cells ----------------------------------------------------------------------------------------------------------


def _word(text: str) -> Cell:
    return Cell(text, Text(text))


def _number(value: int, style: str = "") -> Cell:
    return Cell(value, Text(str(value), style, justify="right"))


def _rate(value: float, of: int = 0) -> Cell:
    style = AMBER if of and value > _BUSY * of else ""
    return Cell(value, Text(show_rate(value) if value >= 1 else "0", style, justify="right"))


def _share(part: int, whole: int, style: str) -> Cell:
    """How many of how many; sorted by how many are missing."""
    return Cell(whole - part, Text(f"{part}/{whole}", style if part < whole else "", justify="right"))


def _per_second(now: int, before: int | None, elapsed_ns: int) -> float:
    """A rate; 0 where there is none before, or the counter has started again."""
    return max(0, now - before) * 1e9 / elapsed_ns if before is not None and elapsed_ns > 0 else 0.0


# ---- links and planes -----------------------------------------------------------------------------------------------


def _link_rates(now: Sample, before: Sample | None) -> dict[str, tuple[float, float]]:
    """Bits per second of every link: upwards and downwards."""
    earlier = {link.name: link for link in before.links} if before is not None else {}

    def rate(link: LinkStatus, traffic: Callable[[LinkStatus], Traffic]) -> float:
        then = earlier.get(link.name)
        if then is None:
            return 0.0
        return 8 * _per_second(traffic(link).bytes, traffic(then).bytes, link.read_at_ns - then.read_at_ns)

    return {link.name: (rate(link, lambda one: one.upward), rate(link, lambda one: one.downward)) for link in now.links}


def _links(now: Sample, before: Sample | None) -> Iterator[TopRow]:
    rates = _link_rates(now, before)
    for link in now.links:
        upward, downward = rates[link.name]
        used = 100 * max(upward, downward) / link.rate_bps if link.rate_bps else 0.0
        state = Cell(0.0 if link.up else 1.0, coloured("up" if link.up else "DOWN"))
        yield TopRow(
            link.name,
            (
                _word(link.name), state, _rate(upward, link.rate_bps), _rate(downward, link.rate_bps),
                Cell(used, Text(f"{used:.0f} %", AMBER if used > 100 * _BUSY else "", justify="right")),
                Cell(len(link.fault_ids), Text(" ".join(link.fault_ids), AMBER)),
            ),
        )  # fmt: skip


def _planes(now: Sample, before: Sample | None) -> Iterator[TopRow]:
    rates = _link_rates(now, before)
    paths = [path for _, pair in _pairs(now) for path in pair.paths]
    planes = {link.plane for link in now.links} | {path.plane for path in paths}
    for plane in sorted(planes):
        links = [link for link in now.links if link.plane == plane]
        of_nics = [rates[link.name] for link in links if link.kind.value.startswith("nic")]
        states = Counter(path.state for path in paths if path.plane == plane)
        faults = {fault for link in links for fault in link.fault_ids}
        lost = sum(path.lost for path in paths if path.plane == plane)
        yield TopRow(
            str(plane),
            (
                _number(plane),
                _share(sum(link.up for link in links), len(links), RED),
                _share(states[PathState.GOOD], states.total(), AMBER),
                _number(states[PathState.ASSUMED_BAD], RED if states[PathState.ASSUMED_BAD] else ""),
                _rate(sum(upward for upward, _ in of_nics)),
                _number(lost),
                _number(len(faults), AMBER if faults else ""),
            ),
        )


# ---- queue pairs and paths ------------------------------------------------------------------------------------------


def _pairs(sample: Sample) -> Iterator[tuple[str, QueuePairSample]]:
    for name, host in sample.hosts.items():
        for pair in host.pairs:
            yield name, pair


def _remote(pair: QueuePairSample) -> str:
    host, _, qpn = pair.info.remote.rpartition(":")
    return f"{host}:{int(qpn):#08x}" if host and qpn.isdecimal() else "-"


def _queue_pairs(now: Sample, before: Sample | None) -> Iterator[TopRow]:
    for name, pair in _pairs(now):
        info, counters = pair.info, pair.info.counters
        then, elapsed = _earlier(now, before, name, info.qpn)
        earlier = then.info.counters if then is not None else None
        sent = _per_second(counters.data_sent, earlier.data_sent if earlier else None, elapsed)
        lost = _per_second(counters.lost, earlier.lost if earlier else None, elapsed)
        yield TopRow(
            f"{name} {info.qpn}",
            (
                _word(name), _word(f"{info.qpn:#08x}"), _word(_remote(pair)), _word(info.type.value),
                Cell(info.state.value, coloured(info.state.value)),
                _packets(sent), _packets(lost, AMBER), _number(counters.data_sent), _number(counters.retransmitted),
                _number(counters.lost),
            ),
        )  # fmt: skip


def _packets(rate: float, style: str = "") -> Cell:
    return Cell(rate, Text(f"{rate:.0f}", style if rate >= 0.5 else "", justify="right"))


def _paths(now: Sample, before: Sample | None) -> Iterator[TopRow]:
    for name, pair in _pairs(now):
        then, elapsed = _earlier(now, before, name, pair.info.qpn)
        earlier = {path.ev: path for path in then.paths} if then is not None else {}
        for path in pair.paths:
            was = earlier.get(path.ev)
            state = path.state.value
            yield TopRow(
                f"{name} {pair.info.qpn} {path.ev}",
                (
                    _word(name), _word(_remote(pair)), _word(f"{path.ev:#x}"), _number(path.plane),
                    Cell(_STATES_FIRST.index(path.state), coloured(state)),
                    _word("yes" if path.active else "no"),
                    _packets(_per_second(path.sent, was.sent if was else None, elapsed)),
                    _number(path.lost),
                    Cell(path.rtt, Text(f"{path.rtt / 1000:.0f} us" if path.rtt else "-", justify="right")),
                ),
            )  # fmt: skip


def _earlier(now: Sample, before: Sample | None, host: str, qpn: int) -> tuple[QueuePairSample | None, int]:
    """The same queue pair in the sample before, and the time between (ns)."""
    then = before.hosts.get(host) if before is not None else None
    if then is None:
        return None, 0
    found = next((pair for pair in then.pairs if pair.info.qpn == qpn), None)
    return found, _time(now.hosts[host]) - _time(then)


def _time(host: HostSample) -> int:
    return host.time


VIEWS: Final = (
    TopTable("planes", ("plane", "links up", "paths good", "bad", "hosts send", "lost", "faults"), 0, False, _planes),
    TopTable("links", ("link", "state", "up", "down", "used", "faults"), 1, True, _links),
    TopTable(
        "paths", ("host", "remote", "EV", "plane", "state", "active", "sent/s", "lost", "RTT"), 4, False, _paths
    ),
    TopTable(
        "queue pairs",
        ("host", "QP", "remote", "type", "state", "sent/s", "lost/s", "sent", "rtx", "lost"),
        5, True, _queue_pairs,
    ),
)  # fmt: skip
