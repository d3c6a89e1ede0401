"""What `tables` and `queues` show of a switch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from rich.table import Table

from controller.errors import ControllerError
from controller.grpc_signals import run_in_thread
from controller.inspection import DROP_REASONS
from controller.switch_reader import SwitchReader, table_names
from mrc_common.suggestions import did_you_mean
from mrc_lab.errors import ExperimentError
from mrc_lab.prompt.text_table import columns
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from topologies.fabric import Fabric, LinkEnd, Switch

_TIMEOUT_S = 10.0


def all_tables(reader: SwitchReader) -> Table:
    """A line each table."""
    table = columns("table", "entries", "room", "packets", "default")
    for name in table_names():
        found = reader.table(name)
        packets = str(sum(row.packets for row in found.rows)) if found.counted else "-"
        default = next((row.action for row in found.rows if row.default), "-")
        table.add_row(name, str(found.entries), str(found.size), packets, default)
    return table


def one_table(reader: SwitchReader, name: str) -> Table:
    """A line each entry."""
    if name not in table_names():
        hint = did_you_mean(name, table_names()) or f"there are {', '.join(table_names())}"
        raise ExperimentError(f"the switches' program has no table {name!r}", hint)
    found = reader.table(name)
    prioritized = any(row.priority for row in found.rows)
    table = columns(*["priority"] * prioritized, "match", "action", *["packets", "bytes"] * found.counted)
    for row in found.rows:
        counts = [str(row.packets), str(row.bytes)] if found.counted else []
        table.add_row(*[str(row.priority)] * prioritized, row.match, row.action, *counts)
    return table


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


def queues(fabric: Fabric, switch: Switch, state: pb.Switch | None, counted: Signals) -> Iterator[Table | str]:
    """A line each queue that has been used and each port that has marked, trimmed or dropped; then drops by reason."""
    depths = ("waiting", "bytes", "peak", "peak bytes", "limit", "dropped") if state is not None else ()
    table = columns("port", "link", *(["queue"] if state is not None else []), *depths, "ECN marks", "trims")
    for port in switch.ports:
        link = fabric.link_at(LinkEnd(switch.name, port))
        head = [str(port), link.name if link else "-"]
        tail = [str(counted.marked.get(port, 0)), str(counted.trimmed.get(port, 0))]
        if state is None:
            table.add_row(*head, *tail)
            continue
        for queue in _used(state, port):
            values = (queue.packets, queue.bytes, queue.peak_packets, queue.peak_bytes, queue.max_packets, queue.drops)
            table.add_row(*head, str(queue.priority), *map(str, values), *tail)
            head, tail = ["", ""], ["", ""]
    yield table
    if state is None:
        yield "BMv2 does not report the depth of its queues."
    ours = [f"{reason} {count}" for reason, count in counted.drops.items()]
    yield f"dropped by the P4 program: {', '.join(ours) or 'nothing'}"
    if state is not None:
        theirs = [f"{reason} {n}" for reason, n in sorted(state.drops.items()) if n and reason not in _PROGRAMS]
        yield f"dropped by the switch: {', '.join(theirs) or 'nothing'}"


_PROGRAMS = ("ingress", "egress")  # drops by the program, which has reasons of its own


def _used(state: pb.Switch, port: int) -> list[pb.Queue]:
    """Queues of a port in which something has waited or been dropped; the first where there is none."""
    found = next((some for some in state.ports if some.port == port), None)
    if found is None:
        return []
    return [queue for queue in found.queues if queue.peak_packets or queue.drops] or list(found.queues[:1])
