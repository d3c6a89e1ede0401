"""Shared-memory rings beside a link: made by whoever makes the link, handed to the processes at its ends.

    with FrameRings() as rings:
        start_switch(pass_fds=rings.ends[0].descriptors, ...)
        start_nic(pass_fds=rings.ends[1].descriptors, ...)

Both directions are in one memory file (layout and rules: ``frame_ring.h``); each end has a pipe that wakes it. An end
inherits the descriptors, so that one that is started again finds the same rings.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from types import TracebackType

RING_BYTES = 4 << 20  # a thousand frames of 4 KB; only what is used takes memory
_CONTROL_BYTES = 4096  # FRAME_RING_CONTROL
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class FrameRingError(Exception):
    """Descriptors that are no rings; the message says why."""


@dataclass(frozen=True, slots=True)
class RingEnd:
    """One end's descriptors: memory file, pipe to wait at, pipe to wake the other end with, ring to receive from."""

    memory: int
    bell: int
    other_bell: int
    receiving: int

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """What a process at this end must inherit."""
        return self.memory, self.bell, self.other_bell

    def __str__(self) -> str:
        """As :meth:`parse` takes it."""
        return ",".join(map(str, astuple(self)))

    @classmethod
    def parse(cls, text: str) -> RingEnd:
        """From ``MEMORY,BELL,OTHER_BELL,RECEIVING``; raises FrameRingError."""
        words = text.split(",")
        if len(words) != 4 or not all(word.isascii() and word.isdigit() for word in words):
            raise FrameRingError(f"{text!r} does not name rings: give three descriptors and 0 or 1, like 5,6,7,0")
        return cls.of([int(word) for word in words])

    @classmethod
    def of(cls, numbers: Sequence[int]) -> RingEnd:
        """From the same four numbers; raises FrameRingError."""
        if len(numbers) != 4 or not all(type(number) is int and 0 <= number < 1 << 31 for number in numbers):
            raise FrameRingError(f"{list(numbers)!r} does not name rings: give three descriptors and 0 or 1")
        if numbers[3] > 1:
            raise FrameRingError(f"there is no ring {numbers[3]}: a link has 0 and 1")
        return cls(*numbers)

    def map(self) -> mmap.mmap:
        """The memory of both rings, which nobody can shrink; raises FrameRingError for anything else."""
        try:
            if fcntl.fcntl(self.memory, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
                return mmap.mmap(self.memory, os.fstat(self.memory).st_size)
        except (OSError, ValueError) as error:
            raise FrameRingError(f"descriptor {self.memory} is no memory of rings: {error}") from None
        raise FrameRingError(f"descriptor {self.memory} is no memory of rings: it is not sealed")


class FrameRings:
    """The rings of one link; `ends` are those of its two ends. OSError if descriptors or memory run out."""

    def __init__(self, ring_bytes: int = RING_BYTES) -> None:
        self._descriptors: list[int] = []
        try:
            memory = self._keep(os.memfd_create("frame-rings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
            os.ftruncate(memory, 2 * (_CONTROL_BYTES + ring_bytes))
            fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _SEALS)
            bells = [self._bell() for _ in range(2)]
        except BaseException:
            self.close()
            raise
        self.ends = tuple(RingEnd(memory, bells[end][0], bells[1 - end][1], end) for end in range(2))

    def __enter__(self) -> FrameRings:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptors here; processes at the ends keep theirs."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _bell(self) -> tuple[int, int]:
        """To wait at, and to ring."""
        listening, ringing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        return self._keep(listening), self._keep(ringing)

    def _keep(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor
