"""A NIC whose frames come through a shared-memory ring into which its other end writes nonsense."""

from __future__ import annotations

import contextlib
import os
import random
from typing import Any

from mrc_common.frame_rings import FrameRings
from mrc_host.nic import Nic

_LIMITS = (0, 1, 2, 32, 1 << 40, -1)


class HostileRing:
    """Rings to a NIC's ports, made of `ring_class`; ``give`` hands the NIC a frame through them, and perhaps more."""

    def __init__(self, ring_class: Any, chance: random.Random, ports: int = 2) -> None:
        self._chance = chance
        self._open = contextlib.ExitStack()
        self._near, self._far, self._memory, self._bells = [], [], [], []
        for _ in range(ports):
            rings = self._open.enter_context(FrameRings(chance.choice([1 << 12, 1 << 13, 1 << 16])))
            near, far = (ring_class(end.map(), end.receiving, end.bell, end.other_bell) for end in rings.ends)
            for ring in (near, far):
                ring.connect(-1, chance.choice([200, 4500, 1 << 16]))
                ring.stand_aside(False)
            self._near.append(near)
            self._far.append(far)
            self._memory.append(rings.ends[0].map())
            self._bells.append(rings.ends[0].other_bell)

    def give(self, nic: Nic, port: int, frame: bytes, now: int) -> None:
        """As the driver does it, with an enemy at the other end."""
        chance, near, far = self._chance, self._near[port], self._far[port]
        assert nic.datapath is not None
        far.carry_to(nic.datapath.receiver, nic.datapath.carry_frame, chance.choice([port, port, port, 7, -1]))
        with contextlib.suppress(OSError):
            near.send(frame)
            near.flush()
        for _ in range(chance.choice([0, 0, 0, 1, 5])):
            self._scribble(self._memory[port])
        with contextlib.suppress(BlockingIOError):
            os.write(self._bells[port], bytes(chance.choice([1, 1, 100, 1 << 16])))
        for _ in range(12):
            self._act(nic, port, now)
        far.release()

    def _scribble(self, memory: Any) -> None:
        """Mostly positions of rings and the first record, which decide most."""
        chance, size = self._chance, len(memory)
        half = size // 2 * chance.randrange(2)
        at = half + chance.choice([0, 8, 64, 72, 76, 4096, chance.randrange(4096, size // 2 - 8)])
        old = int.from_bytes(memory[at : at + 4], "little")
        new = chance.choice([0, 1, 15, 16, 0xFFFFFFFF, old + 16, old - 16, old ^ 1 << chance.randrange(32)])
        memory[at : at + 4] = (new & 0xFFFFFFFF).to_bytes(4, "little")

    def _act(self, nic: Nic, port: int, now: int) -> None:
        chance, far = self._chance, self._far[port]
        what = chance.randrange(8)
        if what < 4:
            try:
                frames, size, due = far.carry(chance.choice(_LIMITS))
            except OverflowError:
                return
            assert (frames > 0) == (size > 0)
            if due is not None:
                nic.answer_due(due, now)
        elif what < 6:
            buffer = memoryview(bytearray(chance.choice([1 << 16, 5000, 100, 1, 0])))
            length = far.receive_into(buffer)
            if length:
                nic.receive(port, buffer[:length], now)
        elif what == 6:
            far.hear()
            far.pending()
            far.arm()
            far.disarm()
        else:
            far.release()
            far.full()

    def close(self) -> None:
        """Let go of the memory."""
        self._near.clear()
        self._far.clear()
        for memory in self._memory:
            memory.close()
        self._open.close()
