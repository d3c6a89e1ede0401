"""What `qps`, `evs`, `paths` and `counters` show of NICs.

`ask` puts an operation to a host's agent and returns its answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.table import Table

from mrc_host.counters import Level, at_level
from mrc_host.errors import NotFoundError
from mrc_lab.errors import ExperimentError
from mrc_lab.prompt.text_table import columns
from topologies import addressing
from topologies.addressing import EV_PLANE_SHIFT
from topologies.fabric import Fabric
from topologies.up_down import nodes

Ask = Callable[..., Any]
"""``ask(host, operation, **arguments)``: a verb of ``mrc_host.agent.agent_verbs``, as JSON."""

_UPLINK = (1 << EV_PLANE_SHIFT) - 1


def queue_pairs(hosts: Iterable[str], ask: Ask) -> Table:
    """A line each queue pair."""
    table = columns("host", "QP", "type", "remote", "state", "sent", "resent", "lost", "received", "client")
    for name in hosts:
        for qp in ask(name, "qps"):
            counters = qp["counters"]
            client = qp["client"].partition("(")[2].rstrip(")") or qp["client"]  # program and process id
            numbers = (counters[key] for key in ("data_sent", "retransmitted", "lost", "data_received"))
            table.add_row(name, _qpn(qp["qpn"]), qp["type"], _remote(qp), qp["state"], *map(str, numbers), client)
    return table


def counters(host: str, qpn: int | None, ask: Ask) -> Table:
    """A line each counter that is not 0: of queue pair `qpn`, or of the NIC and its ports (docs/counters.md)."""
    table = columns("of", "counter", "value", "unit", "kind")

    def add(of: str, level: Level, values: Mapping[str, int]) -> None:
        for info in at_level(level):
            if values.get(info.name):
                table.add_row(of, info.name, str(values[info.name]), info.unit, "gauge" if info.gauge else "counter")

    if qpn is not None:
        add(_qpn(qpn), Level.QP, ask(host, "hw_counters", qpn=qpn))
        return table
    add(host, Level.NIC, ask(host, "hw_counters"))
    for port, values in enumerate(ask(host, "port_counters")):
        add(f"{host}@p{port}", Level.PORT, values)
    return table


def counters_json(host: str, qpn: int | None, ask: Ask) -> str:
    """The same with what is 0, as one JSON object; of a NIC with all its queue pairs."""
    if qpn is not None:
        return json.dumps({"host": host, "qpn": qpn, "counters": ask(host, "hw_counters", qpn=qpn)}, indent=2)
    pairs = []
    for qp in ask(host, "qps"):
        with suppress(NotFoundError):  # destroyed since: the NIC's counters have what it counted
            pairs.append({"qpn": qp["qpn"], "counters": ask(host, "hw_counters", qpn=qp["qpn"])})
    nic, ports = ask(host, "hw_counters"), ask(host, "port_counters")
    return json.dumps({"host": host, "counters": nic, "ports": ports, "queue_pairs": pairs}, indent=2)


def entropy_values(host: str, ask: Ask) -> Table:
    """A line each path of each queue pair of a host."""
    table = columns("QP", "remote", "EV", "plane", "uplink", "state", "active", "sent", "lost", "RTT")
    for qp in ask(host, "qps"):
        for path in ask(host, "qp_paths", qpn=qp["qpn"]):
            active = "yes" if path["active"] else "no"
            table.add_row(
                _qpn(qp["qpn"]), _remote(qp), f"0x{path['ev']:08x}", str(path["plane"]),
                str(path["ev"] & _UPLINK), path["state"], active, str(path["sent"]), str(path["lost"]),
                duration(path["rtt"]),
            )  # fmt: skip
    return table


def paths(fabric: Fabric, source: str, destination: str, ask: Ask) -> Table:
    """A line each path from one host to another: over which T1s and T2, in which state, what was sent and lost there.

    Figures are sums over the queue pairs that lead from `source` to `destination`; the round trip is that of the one
    made last. Without one, only what the controller denies is known of the states.
    """
    nic, peer = fabric.nic(source), fabric.nic(destination)
    if nic == peer:
        raise ExperimentError("a path goes from one host to another")
    there = str(addressing.nic_address(fabric, peer))
    denied = {path["ev"] for path in ask(source, "denied_paths") if path["peer"] == there}
    by_ev = _by_ev(source, destination, ask)
    table = columns("EV", "plane", "over", "state", "in use", "sent", "lost", "ECN marks", "trims", "RTT")
    known = {addressing.path_ev(path): path for path in fabric.paths(nic, peer)}
    for ev in (*dict.fromkeys((*known, *by_ev)),):
        plane = addressing.plane_of(ev)
        over = _over(nodes(fabric, nic, peer, known[ev])) if ev in known else "hashed"
        found = by_ev.get(ev, ())
        totals = (str(sum(path[key] for path in found)) for key in ("sent", "lost", "marked", "trimmed"))
        active = "yes" if any(path["active"] for path in found) else "no"
        rtt = next((path["rtt"] for path in reversed(found) if path["rtt"]), 0)
        table.add_row(f"0x{ev:08x}", str(plane), over, _state(found, ev in denied), active, *totals, duration(rtt))
    return table


def _over(switches: Sequence[str]) -> str:
    """The switches that identify a path: all but the T0s at its ends, unless there is only one."""
    between = switches[1:-1] or switches
    plane = between[0].partition("@")[2]
    return " ".join(name.partition("@")[0] for name in between) + f"@{plane}"


def _qpn(number: int) -> str:
    """A QPN as Wireshark and perftest show it."""
    return f"{number:#08x}"


def _remote(qp: dict[str, Any]) -> str:
    host, _, qpn = qp["remote"].rpartition(":")
    return f"{host}:{_qpn(int(qpn))}" if host else "-"


def _by_ev(source: str, destination: str, ask: Ask) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for qp in ask(source, "qps"):
        if qp["type"] == "mrc" and qp["remote"].rpartition(":")[0] == destination:
            for path in ask(source, "qp_paths", qpn=qp["qpn"]):
                found.setdefault(path["ev"], []).append(path)
    return found


def _state(found: Sequence[dict[str, Any]], denied: bool) -> str:
    """The state of a path, with how many queue pairs see it so where they differ."""
    states = Counter(path["state"].upper() for path in found)
    if not states:
        return "DENIED" if denied else "not used"
    if len(states) == 1:
        return str(next(iter(states)))
    return ", ".join(f"{state} {count}" for state, count in states.most_common())


def duration(ns: int) -> str:
    """A round trip in words; a dash where none is known."""
    if not ns:
        return "-"
    return f"{ns / 1e3:.0f} us" if ns < 1_000_000 else f"{ns / 1e6:.1f} ms"
