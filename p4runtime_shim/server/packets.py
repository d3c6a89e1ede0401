"""Packet-in and packet-out: the controller header in front of a frame, and its metadata messages.

P4Runtime spec, "Packet I/O". The header's fields follow each other bit by bit, as the P4 header of the same name.
"""

from __future__ import annotations

from finsy.proto import p4r

from p4runtime_shim.server import bytestrings
from p4runtime_shim.server.errors import invalid
from p4runtime_shim.server.p4info import PacketHeader


def to_frame(header: PacketHeader | None, message: p4r.PacketOut) -> bytes:
    """The frame for the CPU port: header and payload; INVALID_ARGUMENT when the metadata is not that of P4Info."""
    if header is None:
        if message.metadata:
            raise invalid("the program has no packet_out header, so a packet-out has no metadata")
        return message.payload
    values: dict[int, int] = {}
    for item in message.metadata:
        spec = header.fields_by_id.get(item.metadata_id)
        if spec is None:
            raise invalid(f"packet_out has no metadata {item.metadata_id}")
        if item.metadata_id in values:
            raise invalid(f"packet_out metadata {spec.name} is given twice")
        values[spec.id] = bytestrings.decode(item.value, spec.width, f"packet_out metadata {spec.name}")
    bits = 0
    for spec in header.fields:
        if spec.id not in values:
            raise invalid(f"packet_out metadata {spec.name} is missing")
        bits = bits << spec.width | values[spec.id]
    return bits.to_bytes(header.size, "big") + message.payload


def from_frame(header: PacketHeader | None, frame: bytes) -> p4r.PacketIn | None:
    """The message for a frame from the CPU port; None when it is shorter than its header."""
    if header is None:
        return p4r.PacketIn(payload=frame)
    if len(frame) < header.size:
        return None
    message = p4r.PacketIn(payload=frame[header.size :])
    bits = int.from_bytes(frame[: header.size], "big")
    left = header.size * 8
    for spec in header.fields:
        left -= spec.width
        value = bits >> left & ((1 << spec.width) - 1)
        message.metadata.add(metadata_id=spec.id, value=bytestrings.encode(value))
    return message
