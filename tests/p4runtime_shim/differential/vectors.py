"""What is done to a switch, and what it did: values that both switches' runners share, and their form in a file.

A vector is a program, the P4Runtime updates that fill its tables, and frames in order; they are sent one at a time,
each after everything that the one before caused, so queues are empty and nothing depends on a clock. An outcome holds
what came out of each port in order, packets to the controller, digests, counters and registers. One JSON object a line
holds one vector and, where it was recorded, BMv2's outcome.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import finsy
from finsy.p4entity import encode_updates
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from p4runtime_shim.server.p4info import Schema
from p4runtime_shim.server.p4info import build as build_schema
from tests.p4runtime_shim import programs

CPU_PORT = 510
PORTS = (1, 2, 3, 4)
FOLDER = Path(__file__).parent / "recorded"
SHORTEST = 14  # bytes of a frame that an interface takes: Linux refuses less than an Ethernet header
TIMES = {"state": slice(8, 18)}  # where a program writes times into its frames


@dataclass(frozen=True)
class Vector:
    """Updates (serialized, in order) and frames (port, bytes); what comes from CPU_PORT is a packet-out."""

    program: str
    updates: tuple[bytes, ...]
    frames: tuple[tuple[int, bytes], ...]


@dataclass
class Outcome:
    """What a switch did, in terms that are equal when two switches did the same."""

    frames: dict[str, list[str]] = field(default_factory=dict)  # port -> frames in hexadecimal
    packet_ins: list[list[Any]] = field(default_factory=list)  # metadata values, payload
    digests: list[list[Any]] = field(default_factory=list)  # id, members' values
    counters: dict[str, list[int]] = field(default_factory=dict)  # name[index] -> packets, bytes; without zeros
    direct: dict[str, list[int]] = field(default_factory=dict)  # entry -> packets, bytes
    registers: dict[str, list[int]] = field(default_factory=dict)  # name -> cells; without arrays of zeros


def program_text(name: str) -> str:
    """BMv2 JSON of a test program, or of the fabric's."""
    return programs.FABRIC.read_text() if name == "fabric" else programs.text(name)


def p4info(name: str) -> p4i.P4Info:
    """P4Info of a program."""
    folder = programs.FABRIC.parent if name == "fabric" else programs.FOLDER
    return text_format.Parse((folder / f"{name}.p4info.txtpb").read_text(), p4i.P4Info())


@functools.cache
def schema(name: str) -> Schema:
    """P4Info as the embedded switch's server reads it."""
    return build_schema(p4info(name))


@functools.cache
def own_schema(program: str) -> finsy.P4Schema:
    """P4Info as finsy reads it."""
    return finsy.P4Schema(p4info(program))


def vector(program: str, entities: Sequence[Any], frames: Iterable[tuple[int, bytes]]) -> Vector:
    """A vector from finsy's entities, each inserted, or modified where it is marked so (`~entity`)."""
    own = own_schema(program)
    inserts = [item if isinstance(item, p4r.Update) else _insert(item, own) for item in entities]
    return Vector(program, tuple(update.SerializeToString() for update in inserts), tuple(frames))


def modified(program: str, entity: Any) -> p4r.Update:
    """An update that modifies."""
    return p4r.Update(type=p4r.Update.MODIFY, entity=entity.encode(own_schema(program)))


def _insert(entity: Any, own: finsy.P4Schema) -> p4r.Update:
    (update,) = encode_updates(+entity, own)
    assert isinstance(update, p4r.Update)
    return update


def shown(program: str, frame: bytes) -> str:
    """A frame as it is compared: without times."""
    hidden = TIMES.get(program, slice(0, 0))
    zeros = bytes(len(frame[hidden]))
    return (frame[: hidden.start] + zeros + frame[hidden.start + len(zeros) :]).hex()


def number(data: bytes) -> int:
    """Value of a byte string, however long it was written."""
    return int.from_bytes(data, "big")


def entry_key(entry: p4r.TableEntry, own: Schema) -> str:
    """A table entry in one line, independent of how its byte strings were written."""
    parts = []
    for match in sorted(entry.match, key=lambda item: item.field_id):
        kind = match.WhichOneof("field_match_type")
        shown = getattr(match, kind)
        values = [number(value) if isinstance(value, bytes) else value for _, value in shown.ListFields()]
        parts.append(f"{match.field_id}:{kind}{values}")
    return f"{own.tables[entry.table_id].name} {' '.join(parts)} {entry.priority}"


def leaves(data: Any) -> list[int]:
    """The numbers in a P4Data message, in order."""
    kind = data.WhichOneof("data")
    if kind == "struct":
        return [value for member in data.struct.members for value in leaves(member)]
    return [number(data.bitstring)]


def to_line(item: Vector, outcome: Outcome) -> str:
    """One line of a file."""
    updates = [base64.b64encode(update).decode() for update in item.updates]
    frames = [[port, frame.hex()] for port, frame in item.frames]
    shown = {key: value for key, value in asdict(outcome).items() if value}
    return json.dumps({"program": item.program, "updates": updates, "frames": frames, "outcome": shown})


def from_line(line: str) -> tuple[Vector, Outcome]:
    """What `to_line` wrote."""
    data = json.loads(line)
    updates = tuple(base64.b64decode(update) for update in data["updates"])
    frames = tuple((port, bytes.fromhex(frame)) for port, frame in data["frames"])
    return Vector(data["program"], updates, frames), Outcome(**data["outcome"])
