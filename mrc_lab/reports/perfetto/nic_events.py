"""The event trace of a NIC (docs/trace.md) as tracks: the host; its ports; its queue pairs, each with its paths.

A path's track has its states as slices, and data packets and losses as instants. Arrows lead from a data packet to its
loss and on to its retransmission, which may be on another path and may be lost again: every transmission has a number
of its own, made of its queue pair, PSN and time, which a loss names too, so that nothing but the packets that are lost
at present has to be remembered.
"""

from __future__ import annotations

import hashlib
from typing import Final

from mrc_lab.reports.perfetto.json_lines import Event
from mrc_lab.reports.perfetto.track_writer import TrackWriter, Value

DATA: Final = ("write", "rc_write")
_MAX_LOST: Final = 1 << 16  # remembered at once; without the packets of a host, more than any window holds
_KEYS: Final = frozenset({"t", "event", "qpn", "port", "ev", "plane"})  # shown by the track


class NicTracks:
    """Takes the events of one NIC, in order, and writes them."""

    def __init__(self, writer: TrackWriter, host: str, rank: int = 0) -> None:
        self._writer = writer
        self._host = writer.track(host, rank=rank)
        self._name = host
        self._first: int | None = None
        self._last = 0
        self._peers: dict[int, str] = {}
        self._qps: dict[int, int] = {}
        self._paths: dict[tuple[int, int], int] = {}
        self._open: dict[int, int] = {}  # tracks with a slice that has not ended, and the time it began
        self._lost: dict[tuple[int, int], int] = {}  # queue pair and PSN of what is lost: flow

    def take(self, event: Event) -> None:
        """Write one event. Raises KeyError, TypeError or ValueError if it is not one."""
        time = event["t"]
        if self._first is None:
            self._first = time
        self._last = max(self._last, time)
        kind = event["event"]
        if kind == "send":
            self._sent(event, time)
        elif kind == "lost":
            self._was_lost(event, time)
        elif kind == "path":
            self._path_changed(event, time)
        elif kind == "port":
            self._port_changed(event, time)
        elif kind == "qp":
            self._state_changed(event, time)
        elif kind == "drop":
            self._writer.instant(self._port(event), time, f"dropped: {event['reason']}", _values(event))
        elif kind in ("receive", "completion", "error"):
            self._happened(event, time)

    def close(self) -> None:
        """End what has not ended with the trace."""
        for track, began in self._open.items():
            self._writer.end(track, max(began, self._last))
        self._open.clear()

    # ---- kinds of event -----------------------------------------------------------------------------------------

    def _sent(self, event: Event, time: int) -> None:
        op, qpn = event["op"], event["qpn"]
        if op not in DATA:
            self._writer.instant(self._of(event), time, f"send {op}", _values(event))
            return
        psn, track = event["psn"], self._path(event, event["port"])
        again = event.get("rtx")
        ends = self._lost.pop((qpn, psn), None)
        flow = self._flow(qpn, psn, event["t"])
        name = "retransmission" if again else "write"
        self._writer.instant(track, time, name, _values(event), flows=(flow,), ends=() if ends is None else (ends,))

    def _was_lost(self, event: Event, time: int) -> None:
        qpn, psn = event["qpn"], event["psn"]
        flow = self._flow(qpn, psn, event["sent"])
        if len(self._lost) >= _MAX_LOST:
            del self._lost[next(iter(self._lost))]
        self._lost[qpn, psn] = flow
        track = self._path(event, event["plane"])
        values = {**_values(event), "sent_ns_ago": event["t"] - event["sent"]}
        values.pop("sent")
        self._writer.instant(track, time, f"lost: {event['why']}", values, flows=(flow,))

    def _path_changed(self, event: Event, time: int) -> None:
        track = self._path(event, event["plane"])
        old, new = event["old"], event["new"]
        if track in self._open:
            self._end(track, time)
        elif self._first is not None and self._first < time:
            self._writer.slice(track, self._first, time, old)
        self._begin(track, time, new, {"reason": event["reason"], "before": old})

    def _port_changed(self, event: Event, time: int) -> None:
        state = "up" if event["up"] else "down"
        if not event["local"]:
            self._writer.instant(self._port(event), time, f"peer's port {state}", _values(event))
            return
        track = self._writer.track("link state", self._port(event))
        if track in self._open:
            self._end(track, time)
        self._begin(track, time, state, {})

    def _state_changed(self, event: Event, time: int) -> None:
        qpn, peer = event["qpn"], event["peer"]
        if peer:
            self._peers[qpn] = peer
        elif qpn not in self._qps:  # its track is named after the peer that it gets
            return
        track = self._writer.track("state", self._qp(qpn), rank=-1)
        if track in self._open:
            self._end(track, time)
        if event["state"] == "destroyed":
            self._writer.instant(self._qp(qpn), time, "destroyed")
        else:
            self._begin(track, time, event["state"], {"remote qpn": event["remote"]})

    def _happened(self, event: Event, time: int) -> None:
        kind = event["event"]
        if kind == "receive":
            name = f"receive {event['op']}" + (" (trimmed)" if event.get("trimmed") else "")
        else:
            name = f"completion: {event['status']}" if kind == "completion" else f"failed: {event['reason']}"
        self._writer.instant(self._of(event), time, name, _values(event))

    # ---- tracks -------------------------------------------------------------------------------------------------

    def _begin(self, track: int, time: int, name: str, values: dict[str, Value]) -> None:
        self._writer.begin(track, time, name, values)
        self._open[track] = time

    def _end(self, track: int, time: int) -> None:
        self._writer.end(track, max(time, self._open.pop(track)))

    def _of(self, event: Event) -> int:
        """The queue pair's track, or the port's for what belongs to none."""
        return self._qp(event["qpn"]) if event.get("qpn") else self._port(event)

    def _port(self, event: Event) -> int:
        port = event["port"]
        return self._writer.track(f"port {port:d}", self._host, rank=port)

    def _qp(self, qpn: int) -> int:
        if qpn not in self._qps:
            peer = f" to {self._peers[qpn]}" if qpn in self._peers else ""
            self._qps[qpn] = self._writer.track(f"queue pair {qpn:#x}{peer}", self._host, rank=1000)
        return self._qps[qpn]

    def _path(self, event: Event, plane: int) -> int:
        qpn, ev = event["qpn"], event["ev"]
        found = self._paths.get((qpn, ev))
        if found is None:
            name = f"plane {plane:d}, path {ev:#x}"
            found = self._paths[qpn, ev] = self._writer.track(name, self._qp(qpn), rank=plane)
        return found

    def _flow(self, qpn: int, psn: int, time: int) -> int:
        key = f"{self._name}/{qpn:d}/{psn:d}/{time:d}".encode()
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") or 1


def _values(event: Event) -> dict[str, Value]:
    return {key: value for key, value in event.items() if key not in _KEYS and isinstance(value, int | str | float)}
