"""Listings of a switch: `tables` and `queues`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from controller.errors import ControllerError
from controller.grpc_signals import run_in_thread
from controller.switch_reader import SwitchReader
from controller.values import HandEntryInfo
from mrc_lab.commands.listing import Column, Listing, Row
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from p4src import DROP_REASONS
from topologies.fabric import Fabric, LinkEnd, Switch

_TIMEOUT_S = 10.0


def _first(field: str) -> Callable[[Row], str]:
    """Of a port's rows only the first shows what is the port's."""
    return lambda row: str(row[field]) if row["first_of_port"] else ""


TABLES = Listing(
    "tables SWITCH",
    "tables of a switch",
    (
        Column("switch", "the switch"),
        Column("table", "name of the table in the P4 program", "table"),
        Column("entries", "number of entries, without the default", "entries"),
        Column("room", "largest number of entries", "room"),
        Column("matched_packets", "packets that matched; null if the table does not count", "packets"),
        Column("default", "action of the default entry; null if there is none", "default"),
        Column("by_hand", "entries changed by hand ('table'); null if the controller does not answer", "by hand"),
    ),
)
ENTRIES = Listing(
    "tables SWITCH TABLE",
    "entries of a table",
    (
        Column("switch", "the switch"),
        Column("table", "the table"),
        Column("priority", "the entry's priority; 0 if the table has none", "priority"),
        Column("match", "its match fields, as text", "match"),
        Column("action", "its action, as text", "action"),
        Column("matched_packets", "packets that matched; null if the table does not count", "packets"),
        Column("matched_bytes", "their bytes", "bytes"),
        Column("by_hand", "changed or deleted, if it was ('table'); null if the controller does not answer", "by hand"),
    ),
)
QUEUES = Listing(
    "queues SWITCH [reset]",
    "all queues of a switch; for BMv2, which reports no queues, its ports",
    (
        Column("switch", "the switch"),
        Column("port", "number of the port", "port", _first("port")),
        Column("link", "link of the port; null if there is none", "link", lambda row: _first("link")(row) or "-"),
        Column("priority", "number of the queue, the highest served first; null for BMv2", "queue"),
        Column("waiting_packets", "packets that wait now", "waiting"),
        Column("waiting_bytes", "their bytes", "bytes"),
        Column("peak_packets", "most packets that waited since the start or the last reset", "peak"),
        Column("peak_bytes", "the same in bytes", "peak bytes"),
        Column("limit_packets", "limit; 0 for none", "limit"),
        Column("dropped_packets", "packets that found the queue at its limit", "dropped"),
        Column("port_ecn_marked_packets", "packets marked, in all queues of the port", "ECN marks",
               _first("port_ecn_marked_packets")),
        Column("port_trimmed_packets", "packets trimmed, in all queues of the port", "trims",
               _first("port_trimmed_packets")),
    ),
)  # fmt: skip
DEPTHS = ("priority", "waiting_packets", "waiting_bytes", "peak_packets", "peak_bytes", "limit_packets",
          "dropped_packets")  # fmt: skip
"""Fields that BMv2 does not know."""


def all_tables(switch: str, reader: SwitchReader, by_hand: Sequence[HandEntryInfo] | None) -> list[Row]:
    """Every table; `by_hand` are the changes by hand of the switch, None if nobody knows."""
    rows: list[Row] = []
    for name in reader.table_names:
        found = reader.table(name)
        rows.append(
            {
                "switch": switch,
                "table": name,
                "entries": found.entries,
                "room": found.size,
                "matched_packets": sum(row.packets for row in found.rows) if found.counted else None,
                "default": next((row.action for row in found.rows if row.default), None),
                "by_hand": None if by_hand is None else sum(change.table == name for change in by_hand),
            }
        )
    return rows


def one_table(switch: str, reader: SwitchReader, name: str, by_hand: Sequence[HandEntryInfo] | None) -> list[Row]:
    """Every entry of a table, the default last but for entries that were deleted by hand."""
    name = reader.table_name(name)
    found = reader.table(name)
    changes = {(change.match, change.priority): change for change in by_hand or () if change.table == name}
    rows: list[Row] = [
        {
            "switch": switch,
            "table": name,
            "priority": row.priority,
            "match": row.match,
            "action": row.action,
            "matched_packets": row.packets if found.counted else None,
            "matched_bytes": row.bytes if found.counted else None,
            "by_hand": None if by_hand is None else "changed" if (row.match, row.priority) in changes else "",
        }
        for row in found.rows
    ]
    gone = (change for change in changes.values() if change.deleted)
    nothing = {"action": "", "matched_packets": None, "matched_bytes": None, "by_hand": "deleted"}
    rows += [
        {"switch": switch, "table": name, "priority": change.priority, "match": change.match, **nothing}
        for change in gone
    ]
    return rows


def without(rows: Collection[Row]) -> tuple[str, ...]:
    """Columns of entries that would say nothing: priorities that are all 0, no changes by hand, what is not counted."""
    unused = [] if any(row["priority"] for row in rows) else ["priority"]
    unused += [] if any(row["by_hand"] for row in rows) else ["by_hand"]
    uncounted = any(row["matched_packets"] is None and row["by_hand"] != "deleted" for row in rows)
    return (*unused, *(("matched_packets", "matched_bytes") if uncounted else ()))


@dataclass(frozen=True, slots=True)
class Signals:
    """What the P4 program has counted: marks and trims by port, drops by reason."""

    marked: dict[int, int]
    trimmed: dict[int, int]
    drops: dict[str, int]


def signals(reader: SwitchReader) -> Signals:
    """Ask the switch."""
    drops = reader.counter("drop_reasons")
    named = {DROP_REASONS[index] if index < len(DROP_REASONS) else str(index): n for index, n in drops.items()}
    return Signals(reader.counter("marked_packets"), reader.counter("trimmed_packets"), named)


def managed(switch: Switch, address: str, *, reset_peaks: bool) -> pb.Switch | None:
    """Data of the switch's management service; None if it has none (BMv2). ControllerError if it does not answer."""
    return run_in_thread(lambda: _managed(switch, address, reset_peaks))


def _managed(switch: Switch, address: str, reset_peaks: bool) -> pb.Switch | None:
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        stub: Any = pb_grpc.SwitchManagementStub(channel)  # type: ignore[no-untyped-call] # generated without types
        request = pb.GetSwitchesRequest(device_ids=[switch.device_id], reset_peaks=reset_peaks)
        try:
            found: pb.Switch = stub.GetSwitches(request, timeout=_TIMEOUT_S).switches[0]
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return None
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise ControllerError(
                    f"Switch {switch.name} does not answer: see 'links' for what has ended."
                ) from None
            raise ControllerError(f"Switch {switch.name} refused: {error.details()}.") from None
    return found


def queues(fabric: Fabric, switch: Switch, state: pb.Switch | None, counted: Signals) -> list[Row]:
    """Every queue of every port; of BMv2 (no `state`) every port."""
    rows: list[Row] = []
    for port in switch.ports:
        link = fabric.link_at(LinkEnd(switch.name, port))
        head = {
            "switch": switch.name,
            "port": port,
            "link": link.name if link else None,
            "port_ecn_marked_packets": counted.marked.get(port, 0),
            "port_trimmed_packets": counted.trimmed.get(port, 0),
        }
        if state is None:
            rows.append({**head, **dict.fromkeys(DEPTHS)})
        else:
            rows += [{**head, **_queue(queue)} for one in state.ports if one.port == port for queue in one.queues]
    return rows


def _queue(queue: pb.Queue) -> dict[str, int]:
    values = (queue.priority, queue.packets, queue.bytes, queue.peak_packets, queue.peak_bytes, queue.max_packets,
              queue.drops)  # fmt: skip
    return dict(zip(DEPTHS, values, strict=True))


def for_people(rows: Collection[Row]) -> list[Row]:
    """Queues in which something has waited or been dropped, the first of ports where there is none."""
    shown: list[Row] = []
    for port in dict.fromkeys(row["port"] for row in rows):
        here = [row for row in rows if row["port"] == port]
        used = [row for row in here if row["peak_packets"] or row["dropped_packets"]] or here[:1]
        shown += [{**row, "first_of_port": number == 0} for number, row in enumerate(used)]
    return shown


def drops(state: pb.Switch | None, counted: Signals) -> Iterator[str]:
    """What a switch has dropped, by reason, in words."""
    if state is None:
        yield "BMv2 does not report the depth of its queues."
    ours = [f"{reason} {count}" for reason, count in counted.drops.items()]
    yield f"dropped by the P4 program: {', '.join(ours) or 'nothing'}"
    if state is not None:
        theirs = [f"{reason} {n}" for reason, n in sorted(state.drops.items()) if n and reason not in _PROGRAMS]
        yield f"dropped by the switch: {', '.join(theirs) or 'nothing'}"


_PROGRAMS = ("ingress", "egress")  # drops by the program, which has reasons of its own
