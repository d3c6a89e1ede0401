"""NICs that leave data packets in place, as the simulation's core has them do (mrc_common/packet_in_place.h).

Frames are on their way as bytes all the same, so that the wires of a `World` can do to them what they do to others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from mrc_host.nic import Nic
from tests.mrc_host.datapath.pieces import carry_rest, receive
from tests.mrc_host.nic_world import World

HEAD = 192
Transmit = Callable[[int, int], "bytes | None"]


class _Outbox(ctypes.Structure):
    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("open", ctypes.c_int),
        ("traced", ctypes.c_int),
        ("left", ctypes.c_void_p),
        ("under_way", ctypes.c_void_p),
        ("head", ctypes.c_char * HEAD),
    )


class _Packet(ctypes.Structure):
    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("next", ctypes.c_void_p),
        ("link", ctypes.c_void_p),
        ("message", ctypes.c_void_p),
        ("payload", ctypes.c_void_p),
        ("copy", ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
        ("length", ctypes.c_uint32),
        ("payload_length", ctypes.c_uint32),
        ("body", ctypes.c_uint32),
        ("crc", ctypes.c_uint32),
    )


class Packet:
    """A packet in place, with a reference to it."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.held = ctypes.cast(ctypes.c_void_p(address), ctypes.py_object).value
        self.fields = _Packet.from_address(address)

    def rest(self, length: int | None = None) -> bytes:
        """What comes after the head, or the first bytes of it."""
        length = self.fields.length if length is None else length
        to = (ctypes.c_char * length)()
        self.fields.copy(self.address, ctypes.addressof(to), length)
        return to.raw

    def carry(self, nic: Nic, port: int, head: bytes) -> tuple[bool, Any]:
        """Give it to a NIC's datapath, with a head, as ``pieces.carry``."""
        assert nic.datapath is not None
        return carry_rest(nic.datapath, port, head, self.fields.payload, self.fields.length, self.address)


def transmit(nic: Nic, verb: Transmit, port: int, now: int) -> tuple[bytes | None, Packet | None]:
    """The next frame that `verb` of the NIC gives, whole, and the packet that it has left in place, if it has."""
    assert nic.datapath is not None
    outbox = _Outbox.from_address(id(nic.datapath.outbox))
    outbox.open = 1
    frame = verb(port, now)
    outbox.open = 0
    if not outbox.left:
        return frame, None
    packet = Packet(outbox.left)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(packet.held))  # the outbox's reference
    outbox.left = None
    whole = ctypes.string_at(ctypes.addressof(outbox) + _Outbox.head.offset, HEAD) + packet.rest()
    assert frame == bytes(len(whole)), "what stands for it has its length alone"
    return whole, packet


def under_way(nic: Nic) -> int:
    """How many packets are under way whose payload is in the memory of a message."""
    assert nic.datapath is not None
    at, count = _Outbox.from_address(id(nic.datapath.outbox)).under_way, 0
    while at:
        at, count = _Packet.from_address(at).next, count + 1
    return count


class InPlaceWorld(World):
    """A `World` of such NICs. What arrives must be what was sent, if applications keep to the rules."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.rules_kept = True
        self.arrived = self.carried = 0  # packets in place
        self.packets: dict[bytes, Packet] = {}  # under way, by what comes after their heads
        for number, nic in enumerate(self.nics):
            nic.transmit = partial(self._transmit, nic, nic.transmit)  # type: ignore[method-assign]
            self.receivers[number] = partial(self._arrive, nic)

    def _transmit(self, nic: Nic, verb: Transmit, port: int, now: int) -> bytes | None:
        frame, packet = transmit(nic, verb, port, now)
        if packet is not None and frame is not None:
            self.packets[frame[HEAD:]] = packet
        return frame

    def _arrive(self, nic: Nic, port: int, frame: bytes, now: int) -> None:
        packet = self.packets.get(frame[HEAD:])
        if packet is None:
            nic.receive(port, frame, now)
            return
        self.arrived += 1
        assert packet.rest() == frame[HEAD:] or not self.rules_kept
        outcome = packet.carry(nic, port, frame[:HEAD])
        if not self.faults.duplicate:
            del self.packets[frame[HEAD:]]
        self.carried += receive(nic, port, frame, outcome, now)
