"""Frames through a switch with payloads that stay where they are (switch.h, struct sw_frame), and who owns them.

Each payload is a buffer of its own, whose only reference is the switch's, or in the frame that it sends. It is
overwritten when the reference is given up, so that a later look at it shows.
"""

from __future__ import annotations

import ctypes as c
from typing import Any

from p4runtime_shim.switch import EmbeddedSwitch


class _Frame(c.Structure):
    _fields_ = (
        ("head", c.c_void_p),
        ("rest", c.c_void_p),
        ("head_len", c.c_size_t),
        ("rest_len", c.c_size_t),
        ("owner", c.c_void_p),
    )


_TAKE = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(_Frame))
_RELEASE = c.CFUNCTYPE(None, c.c_void_p)
_COPY = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_void_p, c.c_size_t)


class SharedFrames:
    """The verbs of a switch, by reference. `owned` are the payloads whose reference was not given up."""

    def __init__(self, switch: EmbeddedSwitch) -> None:
        self.owned: dict[int, Any] = {}
        self._switch = switch
        self._hot = switch.native.hot
        self._next = 0
        self._sent = b""
        self._take = _TAKE(self._taken)
        self._release = _RELEASE(self._released)
        self._copy = _COPY(self._copied)
        self._hot.sw_dev_set_owners(switch.handle, self._release, self._copy)

    def _released(self, owner: int) -> None:
        buffer = self.owned.pop(owner)
        c.memset(buffer, 0xEE, len(buffer))

    def _copied(self, owner: int, rest: int, to: int, length: int) -> None:
        buffer = self.owned[owner]
        assert c.addressof(buffer) == rest
        assert length <= len(buffer)
        c.memmove(to, rest, length)

    def _taken(self, _: object, frame: Any) -> None:
        parts = frame.contents
        self._sent = c.string_at(parts.head, parts.head_len)
        if parts.owner:
            self._sent += c.string_at(parts.rest, parts.rest_len)
            self._released(parts.owner)

    def receive(self, port: int, frame: bytes, now: int, head: int) -> None:
        """A frame arrives with its first `head` bytes, or all, in the head."""
        head = min(head, len(frame))
        parts = _Frame(c.cast(c.c_char_p(frame), c.c_void_p), None, head, len(frame) - head, None)
        if parts.rest_len:
            self._next += 1
            buffer = c.create_string_buffer(frame[head:], parts.rest_len)
            self.owned[self._next] = buffer
            parts.owner, parts.rest = self._next, c.addressof(buffer)
        self._hot.sw_dev_receive_frame(self._switch.handle, port, c.byref(parts), now, None, 0)

    def prefetch(self, port: int) -> None:
        """All steps, for a frame that arrives and for one that leaves."""
        for arrives in (0, 1):
            for step in range(3):
                self._hot.sw_prefetch(self._switch.handle, port, arrives, step)

    def transmit(self, port: int, now: int) -> bytes | None:
        """The next frame of a port."""
        limit = self._switch.queues.max_frame
        length = self._hot.sw_dev_transmit_frame(self._switch.handle, port, now, limit, self._take, None)
        assert length == 0 or length == len(self._sent)
        return self._sent if length else None
