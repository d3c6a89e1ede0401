"""Packet I/O: the controller header of packet-in and packet-out, and the rate limit of packet-in.

P4Runtime spec, "Packet I/O". The fields of the header follow one another bit by bit, as in the P4 header of that name.
"""

from __future__ import annotations

from finsy.proto import p4r

from p4runtime_shim.server import bytestrings
from p4runtime_shim.server.p4info import PacketHeaderInfo
from p4runtime_shim.server.rpc_errors import invalid

SECOND = 10**9  # ns


def to_frame(header: PacketHeaderInfo | None, message: p4r.PacketOut) -> bytes:
    """The frame for the CPU port: header and payload; INVALID_ARGUMENT if the metadata does not match the P4Info."""
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


def from_frame(header: PacketHeaderInfo | None, frame: bytes) -> p4r.PacketIn | None:
    """The message for a frame from the CPU port; None if the frame is shorter than its header."""
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


class TokenBucket:
    """`rate` events per second (0 = no limit) after a burst of at most `burst`. Time is an argument (ns)."""

    def __init__(self, rate: int, burst: int) -> None:
        self.rate = rate
        self._burst = burst
        self._paid = 0  # time up to which tokens are used

    def wait(self, now: int) -> int:
        """Nanoseconds until `take` may be called; 0 = now."""
        if not self.rate:
            return 0
        return max(0, self._paid - now - (self._burst - 1) * SECOND // self.rate)

    def take(self, now: int) -> None:
        """Use a token."""
        if self.rate:
            self._paid = max(self._paid, now) + SECOND // self.rate
