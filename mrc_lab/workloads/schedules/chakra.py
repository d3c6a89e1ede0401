"""Read Chakra execution traces: what each rank of a training job computed and communicated, as a graph of nodes.

A trace is one file a rank, ``NAME.0.et``, ``NAME.1.et`` and so on: messages of Protocol Buffers, each behind its
length, the first about the trace and every other a node (MLCommons Chakra, schema of version 1.0). Of a node its id,
name, kind, dependencies, duration and those attributes count that say what is communicated; the rest is left out.

Computing and memory accesses become calcs of their duration: what runs on the CPU (`is_cpu_op`), what runs on the GPU,
and memory accesses each one after the other, and the three beside each other, as ASTRA-sim has them. A node that does
not say where it runs is the CPU's, as Chakra's feeder takes it. Sends and receives are what they are, and a collective
the messages of a ring or of a star (`chakra_collectives`), with a calc of no time at its end on which the nodes behind
it wait. Its rows in tasks.csv all have the node's name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from mrc_common import named_files
from mrc_lab.errors import FileError
from mrc_lab.workloads.schedules.chakra_collectives import COLLECTIVES, Collectives
from mrc_lab.workloads.schedules.schedule import (
    MAX_OPERATIONS,
    MAX_RANKS,
    MAX_SIZE,
    MAX_TIME,
    Operation,
    OperationKind,
    Schedule,
)

FIRST = ".0.et"
MAX_FILE = 64 << 20  # bytes
_METADATA, _LOAD, _STORE, _COMPUTE, _SEND, _RECV, _COLLECTIVE = range(1, 8)
_CPU = {_COMPUTE: 0, _LOAD: 1, _STORE: 1, _METADATA: 2}  # what runs beside the others; the last takes no time
_GPU = 3  # where computing is that is not the CPU's
_RUNS_ON_CPU = "is_cpu_op"
_MAX_TAG = (1 << 31) - 1  # collectives have those above
_LONGEST_NAME = 80
_WIRE_BYTES = 10  # of a length, at most


@dataclass(frozen=True, slots=True)
class ChakraNode:
    """A node, and where it is: `number` in the file `source`, from 1."""

    source: str
    number: int
    raw: Any
    attributes: dict[str, int | str]

    @property
    def label(self) -> str:
        """Its name without what does not print, or its id."""
        name = "".join(letter for letter in self.raw.name if letter.isprintable())[:_LONGEST_NAME]
        return name or f"node {self.raw.id}"

    def error(self, why: str) -> FileError:
        """That something is wrong with it."""
        return FileError(f"{self.source}, node {self.number} (id {self.raw.id}): {why}")

    def count(self, name: str, most: int) -> int:
        """An attribute that is a number from 0 to `most`."""
        value = self.attributes.get(name)
        if not isinstance(value, int) or not 0 <= value <= most:
            found = "is missing" if value is None else f"is {value!r}"
            raise self.error(f"{name} {found}: a number from 0 to {most} is needed")
        return value

    def flag(self, name: str, *, otherwise: bool) -> bool:
        """An attribute that is true or false, in numbers 1 or 0; `otherwise` if it is not there."""
        value = self.attributes.get(name, int(otherwise))
        if value not in (0, 1):
            raise self.error(f"{name} is {value!r}: true or false is needed")
        return bool(value)


def rank_files(path: Path) -> tuple[Path, ...]:
    """The files of all ranks, given that of rank 0."""
    if not path.name.endswith(FIRST):
        return (path,)
    stem = path.name.removesuffix(FIRST)
    found = [path]
    while len(found) <= MAX_RANKS and (following := path.with_name(f"{stem}.{len(found)}.et")).exists():
        found.append(following)
    return tuple(found)


def read_chakra(path: Path) -> Schedule:
    """The schedule of a trace, given rank 0's file; FileError with file, node and reason for anything wrong with it."""
    if not path.name.endswith(FIRST):
        raise FileError(f"{path.name}: is not the trace of rank 0: name the file that ends in {FIRST}")
    files = rank_files(path)
    if len(files) > MAX_RANKS:
        raise FileError(f"{path.name}: more than {MAX_RANKS} ranks, which is the most")
    operations: list[Operation] = []
    collectives = Collectives(operations)
    traces = [list(_nodes(file)) for file in files]
    ends: list[dict[int, int]] = []  # by rank: the operation with which a node is done, by the node's id
    for rank, nodes in enumerate(traces):
        ends.append({})
        for node in nodes:
            if node.raw.id in ends[rank]:
                raise node.error("another node before it has the same id")
            if node.raw.type == _COLLECTIVE:
                collectives.add(rank, node)
            else:
                operations.append(_operation(rank, node, len(files)))
            ends[rank][node.raw.id] = len(operations) - 1
        if len(operations) > MAX_OPERATIONS:
            raise FileError(f"{files[rank].name}: more than {MAX_OPERATIONS} operations, which is the most")
    begins = collectives.expand()
    for rank, nodes in enumerate(traces):
        for node in nodes:
            requires = [_end(ends[rank], node, other) for other in (*node.raw.ctrl_deps, *node.raw.data_deps)]
            end = ends[rank][node.raw.id]
            for number in begins.get(end, [end]):
                operations[number].requires += requires
    return Schedule(path.name, len(files), operations)


def _end(ends: dict[int, int], node: ChakraNode, other: int) -> int:
    if other not in ends:
        raise node.error(f"it depends on a node {other}, which this rank does not have")
    return ends[other]


def _operation(rank: int, node: ChakraNode, ranks: int) -> Operation:
    """What a node other than a collective does."""
    kind = node.raw.type
    if kind in _CPU:
        duration = node.raw.duration_micros * 1000
        if duration > MAX_TIME:
            raise node.error(f"its duration of {node.raw.duration_micros} us is too long")
        cpu = _GPU if kind == _COMPUTE and not node.flag(_RUNS_ON_CPU, otherwise=True) else _CPU[kind]
        return Operation(rank, OperationKind.CALC, duration, cpu=cpu, line=node.number, label=node.label)
    if kind not in (_SEND, _RECV):
        raise node.error(f"its type is {kind}, which no node of version 1.0 has")
    size = node.count("comm_size", MAX_SIZE)
    peer = node.count("comm_dst" if kind == _SEND else "comm_src", ranks - 1)
    tag = node.count("comm_tag", _MAX_TAG) if "comm_tag" in node.attributes else 0
    done = OperationKind.SEND if kind == _SEND else OperationKind.RECV
    return Operation(rank, done, size, peer, tag, line=node.number, label=node.label)


def _nodes(file: Path) -> Iterator[ChakraNode]:
    """The nodes of a rank's file, checked as far as each can be alone."""
    try:
        data = memoryview(named_files.read_bytes(file, MAX_FILE))
    except OSError as error:
        raise FileError(f"{file.name} cannot be read: {error.strerror}") from None
    types = _message_types()
    for number, part in enumerate(_delimited(file.name, data)):
        raw = types["Node" if number else "GlobalMetadata"]()
        try:
            raw.ParseFromString(bytes(part))
        except message.DecodeError:
            raise FileError(f"{file.name}: {_part(number)} is no message of a Chakra trace") from None
        if number:
            values = ((one, one.WhichOneof("value")) for one in raw.attr)
            attributes = {one.name: getattr(one, which) for one, which in values if which is not None}
            node = ChakraNode(file.name, number, raw, attributes)
            if raw.type == _COLLECTIVE and attributes.get("comm_type", 0) not in COLLECTIVES:
                raise node.error(f"comm_type is {attributes['comm_type']!r}, which no collective of version 1.0 has")
            yield node


def _delimited(name: str, data: memoryview) -> Iterator[memoryview]:
    """Messages that each stand behind their length, a varint."""
    if not data:
        raise FileError(f"{name}: is empty")
    at = number = 0
    while at < len(data):
        length = shift = 0
        while True:
            if at >= len(data) or shift > 7 * _WIRE_BYTES:
                raise _cut_off(name, number)
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if length > len(data) - at:
            raise _cut_off(name, number)
        yield data[at : at + length]
        at += length
        number += 1


def _cut_off(name: str, number: int) -> FileError:
    reason = (
        f"ends within node {number}, as if cut off" if number else "is no Chakra trace: its first message has no end"
    )
    return FileError(f"{name}: {reason}")


def _part(number: int) -> str:
    """A message of a file for people."""
    return f"node {number}" if number else "its beginning"


@functools.cache
def _message_types() -> dict[str, Any]:
    """Classes of the messages, with those fields that count here; parsing leaves out all others."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="chakra_parts.proto", package="chakra_parts", syntax="proto3")
    file.message_type.add(name="GlobalMetadata").field.add(
        name="version", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL
    )
    attribute = file.message_type.add(name="Attribute")
    attribute.field.add(name="name", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    attribute.oneof_decl.add(name="value")
    for number, kind in (
        (7, field.TYPE_INT32), (9, field.TYPE_INT64), (11, field.TYPE_UINT32), (13, field.TYPE_UINT64),
        (15, field.TYPE_SINT32), (17, field.TYPE_SINT64), (27, field.TYPE_BOOL), (29, field.TYPE_STRING),
    ):  # fmt: skip
        attribute.field.add(name=f"value_{number}", number=number, type=kind, label=field.LABEL_OPTIONAL, oneof_index=0)
    node = file.message_type.add(name="Node")
    for number, name, kind, label in (
        (1, "id", field.TYPE_UINT64, field.LABEL_OPTIONAL),
        (2, "name", field.TYPE_STRING, field.LABEL_OPTIONAL),
        (3, "type", field.TYPE_INT32, field.LABEL_OPTIONAL),  # an enum is sent as one
        (4, "ctrl_deps", field.TYPE_UINT64, field.LABEL_REPEATED),
        (5, "data_deps", field.TYPE_UINT64, field.LABEL_REPEATED),
        (7, "duration_micros", field.TYPE_UINT64, field.LABEL_OPTIONAL),
    ):
        node.field.add(name=name, number=number, type=kind, label=label)
    node.field.add(
        name="attr", number=10, type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED, type_name=".chakra_parts.Attribute"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [one.name for one in file.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"chakra_parts.{name}")) for name in names}
