"""Frames given to a NIC's datapath as the simulation's core gives them: in pieces, and without Python if it takes them.

Calls the function of the extension's capsule (mrc_common/carry_frame.h). Each piece is memory of its own, of exactly
its size, so that the address sanitizer sees what is read beyond it.
"""

from __future__ import annotations

import ctypes
from typing import Any

from mrc_host.nic import Nic
from mrc_host.transport.native_datapath import NativeDatapath

_NAME = b"mrc_host.datapath.native.carry_frame"


class _FramePieces(ctypes.Structure):
    _fields_ = (
        ("head", ctypes.c_void_p),
        ("rest", ctypes.c_void_p),
        ("head_length", ctypes.c_size_t),
        ("rest_length", ctypes.c_size_t),
        ("in_place", ctypes.c_void_p),
    )


_Carry = ctypes.PYFUNCTYPE(
    ctypes.c_int,
    ctypes.py_object,
    ctypes.c_int,
    ctypes.POINTER(_FramePieces),
    ctypes.POINTER(ctypes.c_void_p),
)


def carry(datapath: NativeDatapath, port: int, frame: bytes, cut: int) -> tuple[bool, Any]:
    """Give the frame in two pieces, the first `cut` bytes long: whether it was carried, what makes an answer due."""
    rest = (ctypes.c_char * len(frame[cut:])).from_buffer_copy(frame[cut:])
    return carry_rest(datapath, port, frame[:cut], ctypes.addressof(rest), len(rest))


def carry_rest(
    datapath: NativeDatapath, port: int, first: bytes, rest: int | None, length: int, in_place: int | None = None
) -> tuple[bool, Any]:
    """The same of a first piece, and one of a `length` at address `rest`; `in_place` is that of its packet."""
    find = ctypes.pythonapi.PyCapsule_GetPointer
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    function = _Carry(ctypes.c_size_t.from_address(find(datapath.carry_frame, _NAME)).value)
    head = (ctypes.c_char * len(first)).from_buffer_copy(first)
    pieces = _FramePieces(ctypes.addressof(head), rest, len(head), length, in_place)
    due = ctypes.c_void_p()
    carried = function(datapath.receiver, port, ctypes.byref(pieces), ctypes.byref(due))
    if not due.value:
        return bool(carried), None
    held = ctypes.cast(due, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(held))  # the reference that was handed over
    return bool(carried), held


def give(nic: Nic, port: int, frame: bytes, cut: int, now: int) -> bool:
    """As the core does it; whether the frame was carried."""
    assert nic.datapath is not None
    return receive(nic, port, frame, carry(nic.datapath, port, frame, cut), now)


def receive(nic: Nic, port: int, frame: bytes, outcome: tuple[bool, Any], now: int) -> bool:
    """What the core does once a frame has been given to the datapath; whether that carried it."""
    carried, due = outcome
    if not carried:
        assert due is None
        nic.receive(port, frame, now)
    elif due is not None:
        nic.answer_due(due, now)
    return carried
