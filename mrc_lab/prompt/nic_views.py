"""Listings of NICs: `qps`, `evs`, `paths` and `counters`.

`ask` puts an operation to a host's agent and returns its answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mrc_host.counters import Level, at_level
from mrc_host.errors import NotFoundError
from mrc_host.verbs_types import QpType
from mrc_lab.commands.listing import Column, Listing, Row
from mrc_lab.errors import ExperimentError
from topologies import addressing
from topologies.addressing import EV_PLANE_SHIFT
from topologies.fabric import Fabric
from topologies.up_down import nodes

Ask = Callable[..., Any]
"""``ask(host, operation, **arguments)``: a verb of ``mrc_host.verbs.remote.agent_verbs``, as JSON."""

_UPLINK = (1 << EV_PLANE_SHIFT) - 1


def qpn_text(number: int) -> str:
    """A QPN as Wireshark and perftest show it."""
    return f"{number:#08x}"


def duration(ns: int | None) -> str:
    """A round trip in words; a dash where none is known."""
    if not ns:
        return "-"
    return f"{ns / 1e3:.0f} us" if ns < 1_000_000 else f"{ns / 1e6:.1f} ms"


def _remote(row: Row) -> str:
    return "-" if row["remote_host"] is None else f"{row['remote_host']}:{qpn_text(row['remote_qpn'])}"


_QPN = Column("qpn", "number of the queue pair", "QP", lambda row: qpn_text(row["qpn"]))
_REMOTE = (
    Column("remote_host", "host at the other end; null unless connected", "remote", _remote),
    Column("remote_qpn", "its queue pair"),
)
_EV = Column("ev", "entropy value", "EV", lambda row: f"0x{row['ev']:08x}")
_PLANE = Column("plane", "plane of the path", "plane")
_RTT = Column("rtt_ns", "last round trip; null if there was none", "RTT", lambda row: duration(row["rtt_ns"]))
_TOTALS = {
    "sent_packets": "sent", "lost_packets": "lost", "ecn_marked_packets": "marked", "trimmed_packets": "trimmed",
}  # fmt: skip
_ACTIVE = "whether it is in an active set"


def _yes(field: str) -> Callable[[Row], str]:
    return lambda row: "yes" if row[field] else "no"


QUEUE_PAIRS = Listing(
    "qps [HOST]",
    "queue pairs",
    (
        Column("host", "the host", "host"),
        _QPN,
        Column("type", "`mrc` or `rc`", "type"),
        *_REMOTE,
        Column("state", "state as in verbs", "state"),
        Column("sent_packets", "data packets sent for the first time", "sent"),
        Column("retransmitted_packets", "data packets sent again", "resent"),
        Column("lost_packets", "data packets declared lost", "lost"),
        Column("received_packets", "data packets received", "received"),
        Column(
            "client",
            "program that owns it, with its process id",
            "client",
            lambda row: row["client"].partition("(")[2].rstrip(")") or row["client"],
        ),
    ),
)
ENTROPY_VALUES = Listing(
    "evs HOST",
    "paths of each queue pair",
    (
        Column("host", "the host"),
        _QPN,
        *_REMOTE,
        Column("ev", "entropy value; of RoCE the UDP source port", "EV", _EV.show),
        _PLANE,
        Column("uplink", "number of the uplink in the entropy value; null with RoCE, where switches choose", "uplink"),
        Column("evs", "how many entropy values of the path the queue pair uses, `ev` being the path's first", "EVs"),
        Column("skipped_evs", "how many of them are skipped for a turn"),
        Column("state", "`good`, `skip`, `assumed_bad` or `denied`", "state"),
        Column("active", _ACTIVE, "active", _yes("active")),
        Column("sent_packets", "packets sent on it; null with RoCE, like the next three (see `qps`)", "sent"),
        Column("lost_packets", "packets lost on it", "lost"),
        Column("ecn_marked_packets", "packets reported with an ECN mark"),
        Column("trimmed_packets", "packets reported as trimmed"),
        _RTT,
    ),
)
PATHS = Listing(
    "paths SOURCE DESTINATION",
    "paths from one host to another, summed over the queue pairs between them",
    (
        Column("source", "the host that sends"),
        Column("destination", "the host that receives"),
        _EV,
        _PLANE,
        Column("over", "switches that identify the path; empty if the path is hashed", "over", lambda row: _over(row)),
        Column("states", "how many queue pairs see it in which state", "state", lambda row: _state(row)),
        Column("denied", "whether the controller denies it"),
        Column("active", _ACTIVE, "in use", _yes("active")),
        Column("sent_packets", "packets sent on it", "sent"),
        Column("lost_packets", "packets lost on it", "lost"),
        Column("ecn_marked_packets", "packets reported with an ECN mark", "ECN marks"),
        Column("trimmed_packets", "packets reported as trimmed", "trims"),
        _RTT,
    ),
)
COUNTERS = Listing(
    "counters HOST [QP]",
    "[counters](counters.md) of the NIC, its ports and queue pairs, even if 0",
    (
        Column("host", "the host", "of", lambda row: _owner(row)),
        Column("port", "number of the port; null for counters of no port"),
        Column("qpn", "number of the queue pair; null for counters of no queue pair"),
        Column("counter", "its name", "counter"),
        Column("value", "its value", "value"),
        Column("unit", "unit of the value", "unit"),
        Column("kind", "`counter` or `gauge`", "kind"),
    ),
)


def queue_pairs(hosts: Iterable[str], ask: Ask) -> list[Row]:
    """Every queue pair."""
    return [
        {
            "host": name,
            **_identity(qp),
            "type": qp["type"],
            "state": qp["state"],
            "sent_packets": qp["counters"]["data_sent"],
            "retransmitted_packets": qp["counters"]["retransmitted"],
            "lost_packets": qp["counters"]["lost"],
            "received_packets": qp["counters"]["data_received"],
            "client": qp["client"],
        }
        for name in hosts
        for qp in ask(name, "qps")
    ]


def counters(host: str, qpn: int | None, ask: Ask, *, queue_pairs: bool) -> list[Row]:
    """Counters of queue pair `qpn`, or of the NIC and its ports, with those of its `queue_pairs`."""
    if qpn is not None:
        return [*_counters(host, Level.QP, ask(host, "hw_counters", qpn=qpn), qpn=qpn)]
    rows: list[Row] = []
    for qp in ask(host, "qps") if queue_pairs else ():
        with suppress(NotFoundError):  # destroyed since: the NIC's counters have what it counted
            rows += _counters(host, Level.QP, ask(host, "hw_counters", qpn=qp["qpn"]), qpn=qp["qpn"])
    ports = [
        row
        for port, values in enumerate(ask(host, "port_counters"))
        for row in _counters(host, Level.PORT, values, port=port)
    ]
    return [*_counters(host, Level.NIC, ask(host, "hw_counters")), *ports, *rows]


def entropy_values(host: str, ask: Ask) -> list[Row]:
    """Every path of each queue pair of a host."""
    return [_path_of(host, qp, path) for qp in ask(host, "qps") for path in ask(host, "qp_paths", qpn=qp["qpn"])]


def _path_of(host: str, qp: Mapping[str, Any], path: Mapping[str, Any]) -> Row:
    routed = QpType(qp["type"]).source_routed
    return {
        "host": host,
        **_identity(qp),
        "ev": path["ev"],
        "plane": path["plane"],
        "uplink": path["ev"] & _UPLINK if routed else None,
        "evs": max(len(path["evs"]), 1),
        "skipped_evs": path["skipped"],
        "state": path["state"],
        "active": path["active"],
        **(_totals([path]) if routed else dict.fromkeys(_TOTALS)),
        "rtt_ns": path["rtt"] or None,
    }


def paths(fabric: Fabric, source: str, destination: str, ask: Ask) -> list[Row]:
    """Every path from one host to another: over which T1s and T2, in which state, what was sent and lost there.

    Figures are sums over the queue pairs that lead from `source` to `destination`; the round trip is that of the one
    made last. Without one, only what the controller denies is known of the states.
    """
    nic, peer = fabric.nic(source), fabric.nic(destination)
    if nic == peer:
        raise ExperimentError("a path goes from one host to another")
    there = str(addressing.nic_address(fabric, peer))
    denied = {path["ev"] for path in ask(source, "denied_paths") if path["peer"] == there}
    by_ev = _by_ev(source, destination, ask)
    known = {addressing.path_ev(path): path for path in fabric.paths(nic, peer)}
    rows: list[Row] = []
    for ev in (*dict.fromkeys((*known, *by_ev)),):
        found = by_ev.get(ev, ())
        over = nodes(fabric, nic, peer, known[ev]) if ev in known else ()
        rows.append(
            {
                "source": source,
                "destination": destination,
                "ev": ev,
                "plane": addressing.plane_of(ev),
                "over": list(over[1:-1] or over),  # all but the T0s at its ends, unless there is only one
                "states": dict(Counter(path["state"] for path in found).most_common()),
                "denied": ev in denied,
                "active": any(path["active"] for path in found),
                **_totals(found),
                "rtt_ns": next((path["rtt"] for path in reversed(found) if path["rtt"]), None),
            }
        )
    return rows


def _identity(qp: Mapping[str, Any]) -> dict[str, Any]:
    """A queue pair and its other end."""
    host, _, qpn = qp["remote"].rpartition(":")
    return {"qpn": qp["qpn"], "remote_host": host or None, "remote_qpn": int(qpn) if host else None}


def _totals(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {field: sum(path[key] for path in found) for field, key in _TOTALS.items()}


def _counters(
    host: str, level: Level, values: Mapping[str, int], *, port: int | None = None, qpn: int | None = None
) -> Iterator[Row]:
    for info in at_level(level):
        if info.name in values:
            kind = "gauge" if info.gauge else "counter"
            yield {
                "host": host,
                "port": port,
                "qpn": qpn,
                "counter": info.name,
                "value": values[info.name],
                "unit": info.unit,
                "kind": kind,
            }


def _owner(row: Row) -> str:
    """Whose counter it is."""
    if row["qpn"] is not None:
        return qpn_text(row["qpn"])
    return str(row["host"]) if row["port"] is None else f"{row['host']}@p{row['port']}"


def _over(row: Row) -> str:
    """The switches of a path, with their plane once."""
    names = [name.partition("@")[0] for name in row["over"]]
    return f"{' '.join(names)}@p{row['plane']}" if names else "hashed"


def _state(row: Row) -> str:
    """The state of a path, with how many queue pairs see it so where they differ."""
    states = {state.upper(): count for state, count in row["states"].items()}
    if not states:
        return "DENIED" if row["denied"] else "not used"
    if len(states) == 1:
        return str(next(iter(states)))
    return ", ".join(f"{state} {count}" for state, count in states.items())


def _by_ev(source: str, destination: str, ask: Ask) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for qp in ask(source, "qps"):
        if QpType(qp["type"]).source_routed and qp["remote"].rpartition(":")[0] == destination:
            for path in ask(source, "qp_paths", qpn=qp["qpn"]):
                found.setdefault(path["ev"], []).append(path)
    return found
