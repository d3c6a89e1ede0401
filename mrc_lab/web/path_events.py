"""Events of NICs in words: paths that went out of use or came back, ports, queue pairs that failed.

A cut link takes many paths with it, so changes of one sort are one line: how many paths, to where, in which plane, for
what reason, and how long after the first packet that was lost. On a busy machine packets come late, are declared lost,
and arrive; a path that is back for this reason among the same events is one line with its going out. That a path is
skipped for one turn is no news.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mrc_common.units import show_time
from mrc_host.verbs_types import AsyncEvent, PathEvent, PathReason, PathState, PortEvent, QpEvent, SlowPortEvent

OUT = (PathState.ASSUMED_BAD, PathState.DENIED)  # of use
STATE_LETTERS = {PathState.GOOD: "g", PathState.SKIP: "s", PathState.ASSUMED_BAD: "b", PathState.DENIED: "d"}
_REASONS = {
    PathReason.LOSS: "after a lost packet",
    PathReason.TIMEOUT: "after a timeout",
    PathReason.PROBE: "probes came back",
    PathReason.ARRIVED: "a packet declared lost was only late",
    PathReason.PORT_UP: "the port came up",
    PathReason.CONTROLLER: "by the controller's denylist",
    PathReason.PEER_SKIP: "at the peer's request",
}

NO_NAMES: Mapping[bytes, str] = {}


@dataclass(frozen=True, slots=True)
class News:
    """One line of the feed, about what happened from `at_ns` (CLOCK_MONOTONIC) on."""

    at_ns: int
    kind: str
    text: str


def summarize(
    host: str, events: Iterable[AsyncEvent], remotes: Mapping[int, str], nics: Mapping[bytes, str] = NO_NAMES
) -> list[News]:
    """The events of a NIC in words, in order; `remotes` are the hosts that queue pairs lead to, `nics` by address."""
    found: list[News] = []
    changes: dict[tuple[str, int, PathState, PathReason], list[PathEvent]] = {}
    late: dict[tuple[str, int], list[_Absence]] = {}
    for event in _without_absences(events, late, remotes):
        if isinstance(event, PathEvent):
            if (event.new in OUT) != (event.old in OUT):
                key = (_remote(event, remotes), event.plane, event.new, event.reason)
                changes.setdefault(key, []).append(event)
        elif isinstance(event, PortEvent) and event.local:
            found.append(News(event.time, "port", f"{host}@p{event.port} is {'up' if event.up else 'down'}"))
        elif isinstance(event, SlowPortEvent):
            found.append(News(event.time, "port", _slow_port(host, event, nics)))
        elif isinstance(event, QpEvent):
            found.append(News(event.time, "failed", f"queue pair {event.qpn:#x} of {host} failed: {event.reason}"))
    found += (_late(host, *key, absences) for key, absences in late.items())
    found += (_paths(host, *key, some) for key, some in changes.items())
    return sorted(found, key=lambda news: news.at_ns)


def _slow_port(host: str, event: SlowPortEvent, nics: Mapping[bytes, str]) -> str:
    if event.local:
        of = f"{host}@p{event.port}"
    else:
        of = f"{nics.get(event.peer) or event.peer.hex(':', 2)}@p{event.port}, or its plane on the way from {host},"
    return f"{of} is slower than the other ports, which wait for it" if event.slow else f"{of} is no longer slower"


_Absence = tuple[PathEvent, PathEvent]
"""A path went out of use after a loss, and came back since the packet had only been late."""


def _without_absences(
    events: Iterable[AsyncEvent], late: dict[tuple[str, int], list[_Absence]], remotes: Mapping[int, str]
) -> list[AsyncEvent]:
    """The events, but for absences, which are put into `late` by remote host and plane."""
    kept: dict[int, AsyncEvent] = {}
    out: dict[tuple[int, int], int] = {}  # by queue pair and entropy value: where the event is by which it went out
    for place, event in enumerate(events):
        kept[place] = event
        if not isinstance(event, PathEvent) or (event.new in OUT) == (event.old in OUT):
            continue
        before = out.pop((event.qpn, event.ev), None)
        if event.new in OUT:
            if event.reason is PathReason.LOSS:
                out[event.qpn, event.ev] = place
        elif before is not None and event.reason is PathReason.ARRIVED:
            gone, back = kept.pop(before), kept.pop(place)
            assert isinstance(gone, PathEvent)
            assert isinstance(back, PathEvent)
            late.setdefault((_remote(event, remotes), event.plane), []).append((gone, back))
    return list(kept.values())


def _remote(event: PathEvent, remotes: Mapping[int, str]) -> str:
    return remotes.get(event.qpn, f"queue pair {event.qpn:#x}")


def _late(host: str, remote: str, plane: int, absences: list[_Absence]) -> News:
    count = len({(gone.qpn, gone.ev) for gone, _ in absences})
    longest = max(back.time - gone.time for gone, back in absences)
    what = f"{_number(count)} {host} to {remote} in plane {plane}"
    text = f"{what} out of use for {show_time(longest)}: packets were late, not lost"
    return News(min(gone.time for gone, _ in absences), "paths", text)


def _number(count: int) -> str:
    return f"{count} path{'' if count == 1 else 's'}"


def _paths(host: str, remote: str, plane: int, state: PathState, reason: PathReason, events: list[PathEvent]) -> News:
    what = f"{_number(len({event.ev for event in events}))} {host} to {remote} in plane {plane}"
    why = _REASONS.get(reason, reason.value)
    if state not in OUT:
        return News(events[0].time, "recovered", f"{what} back in use: {why}")
    losses = [event.first_loss_time for event in events if event.first_loss_time is not None]
    took = max(event.time for event in events) - min(losses) if losses else None
    within = "" if took is None else f", {show_time(took)} after the first lost packet was sent"
    return News(events[0].time, "paths", f"{what} out of use {why}{within}")
