"""A vector on the embedded switch: P4Runtime updates and reads without a connection, device verbs, a clock by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from finsy.proto import p4r

from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.server import packet_io
from p4runtime_shim.server.forwarding_state import ForwardingState
from p4runtime_shim.server.p4info import PacketHeaderInfo
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim.differential.vectors import (
    CPU_PORT,
    PORTS,
    SHORTEST,
    Outcome,
    Vector,
    entry_key,
    leaves,
    number,
    program_text,
    schema,
    shown,
)

STEP_NS = 1_000_000
WIDEST_REGISTER = 63  # bits that BMv2's Thrift interface can show

_pipelines: dict[str, Pipeline] = {}


def pipeline(name: str) -> Pipeline:
    """A program, loaded once."""
    if name not in _pipelines:
        _pipelines[name] = Pipeline.load(program_text(name))
    return _pipelines[name]


@contextmanager
def _running(vector: Vector, program: Pipeline) -> Iterator[tuple[EmbeddedSwitch, ForwardingState]]:
    with EmbeddedSwitch(program, device_id=1, ports=(*PORTS, CPU_PORT), seed=1) as switch:
        forwarding = ForwardingState(schema(vector.program), switch.control_plane)
        for update in vector.updates:
            forwarding.write([p4r.Update.FromString(update)])
        yield switch, forwarding


def run(vector: Vector, program: Pipeline | None = None) -> tuple[Outcome, int]:
    """The outcome, and how many frames came out in all, to the controller or elsewhere; `program` if not p4c's JSON."""
    with _running(vector, program or pipeline(vector.program)) as (switch, forwarding):
        outcome, count = Outcome(), 0
        header = forwarding.schema.packet_in
        for step, (port, frame) in enumerate(vector.frames):
            now = step * STEP_NS
            switch.receive(port, frame, now)
            count += _take_frames(vector.program, switch, header, outcome, now)
            for digests in forwarding.digests.offer(switch.control_plane.take_digests(), now):
                for item in digests.data:
                    outcome.digests.append([digests.digest_id, *leaves(item)])
        _take_state(vector, switch, forwarding, outcome)
        return outcome, count


def _take_frames(
    program: str, switch: EmbeddedSwitch, header: PacketHeaderInfo | None, outcome: Outcome, now: int
) -> int:
    count = 0
    while ports := switch.ready():
        for port in ports:
            while (frame := switch.transmit(port, now)) is not None:
                if port == CPU_PORT:
                    message = packet_io.from_frame(header, frame)
                    assert message is not None
                    outcome.packet_ins.append(packet_in(message))
                elif len(frame) >= SHORTEST:
                    outcome.frames.setdefault(str(port), []).append(shown(program, frame))
                else:
                    continue
                count += 1
    return count


def packet_in(message: p4r.PacketIn) -> list[object]:
    """A packet-in as it is compared."""
    return [[number(item.value) for item in message.metadata], message.payload.hex()]


def _take_state(vector: Vector, switch: EmbeddedSwitch, forwarding: ForwardingState, outcome: Outcome) -> None:
    collect_counters(forwarding.read(wanted(vector.program)), vector.program, outcome)
    for register in pipeline(vector.program).program.registers:
        if register.width <= WIDEST_REGISTER:
            cells = [switch.control_plane.externs.register_read(register.name, index) for index in range(register.size)]
            if any(cells):
                outcome.registers[register.name] = cells


def wanted(program: str) -> list[p4r.Entity]:
    """All counters of a program."""
    own = schema(program)
    entities = [p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=id_)) for id_ in own.counters]
    for id_, table in own.tables.items():
        if table.has_counter:
            entry = p4r.DirectCounterEntry(table_entry=p4r.TableEntry(table_id=id_))
            entities.append(p4r.Entity(direct_counter_entry=entry))
    return entities


def collect_counters(entities: Iterator[p4r.Entity], program: str, outcome: Outcome) -> None:
    """Sort what was read into an outcome."""
    own = schema(program)
    for entity in entities:
        if entity.HasField("counter_entry"):
            cell = entity.counter_entry
            if cell.data.packet_count or cell.data.byte_count:
                name = f"{own.counters[cell.counter_id].name}[{cell.index.index}]"
                outcome.counters[name] = [cell.data.packet_count, cell.data.byte_count]
        else:
            direct = entity.direct_counter_entry
            key = entry_key(direct.table_entry, own)
            outcome.direct[key] = [direct.data.packet_count, direct.data.byte_count]
