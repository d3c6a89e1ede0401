"""JSON listing of `map`."""

from __future__ import annotations

import time

from controller.path_map.values import ElementKind, MapState, SlowPort, SuspectedFault
from mrc_lab.commands.listing import Column, Listing, Row, iso_time
from topologies.fabric import Fabric

MAP = Listing(
    "map",
    "links that were probed, suspected faults of switches and paths, and slow ports",
    (
        Column("element", "name of the link, switch or path"),
        Column("kind", "`nic-t0`, `t0-t1`, `t1-t2`, `switch` or `path`"),
        Column("plane", "its plane"),
        Column("probes_sent", "probes over the link in the last seconds; null unless it is a link"),
        Column("probes_lost", "how many of them were lost, anywhere on their way"),
        Column("suspected", "whether it is suspected of losing packets; the fields below are null if not"),
        Column("loss_fraction", "share of the packets lost there, from 0 to 1"),
        Column("direction", "`up`, `down` or `both`; null where it is unclear"),
        Column("confidence_fraction", "probability that this is the fault, from 0 to 1"),
        Column("since_time", "since when"),
        Column("rivals", "elements that the probes can hardly tell from it"),
        Column("slow", "of a NIC's link: whether its port is slower than the NIC's others, which wait for it"),
        Column("slow_peers", "of a NIC's link: NICs whose port on its plane, or the plane on the way, is slower"),
    ),
)


def elements(fabric: Fabric, state: MapState) -> list[Row]:
    """A row for each link that has a result or whose port is slow, and each other suspected element."""
    suspected = {fault.name: fault for fault in state.suspected}
    slow = {port.name: port for port in state.slow_ports}
    probed = {health.name: health for health in state.links}
    began = time.time_ns() - int(state.seconds * 1e9)
    rows: list[Row] = [
        {
            "element": link.name,
            "kind": link.kind.value,
            "plane": link.plane,
            "probes_sent": None if (health := probed.get(link.name)) is None else health.sent,
            "probes_lost": None if health is None else health.lost,
            **_suspicion(suspected.pop(link.name, None), began),
            **_slowness(slow.get(link.name)),
        }
        for link in fabric.links
        if link.name in probed or link.name in suspected or link.name in slow
    ]
    for fault in suspected.values():
        nothing = {"probes_sent": None, "probes_lost": None}
        where = {"element": fault.name, "kind": ElementKind(fault.part).value, "plane": fault.plane}
        rows.append({**where, **nothing, **_suspicion(fault, began), **_slowness(None)})
    return rows


def _slowness(port: SlowPort | None) -> dict[str, object]:
    return {"slow": port is not None and port.own, "slow_peers": 0 if port is None else port.peers}


def _suspicion(fault: SuspectedFault | None, began_ns: int) -> dict[str, object]:
    if fault is None:
        fields = ("loss_fraction", "direction", "confidence_fraction", "since_time", "rivals")
        return {"suspected": False, **dict.fromkeys(fields)}
    return {
        "suspected": True,
        "loss_fraction": fault.loss,
        "direction": None if fault.direction is None else fault.direction.value,
        "confidence_fraction": fault.confidence,
        "since_time": iso_time(began_ns + fault.since_ns),
        "rivals": list(fault.rivals),
    }
