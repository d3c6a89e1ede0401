"""Time that a collective library takes: to launch an operation, and with each chunk before it sends it on.

Real libraries start a kernel on the GPU, copy and reduce there, and hand chunks to the NIC through a thread of the host
(docs/timing.md). In simulation all that takes no time, so where it matters it is waited for: chunks are reduced and
copied one after the other at a rate, and each is sent on some time later. That time overlaps for chunks that follow
each other closely.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PacingSettings:
    """`launch` and `step` are ns: of each operation, and of each chunk. `copy_rate` is b/s, 0 without limit.

    ValueError for what is negative.
    """

    launch: int = 0
    step: int = 0
    copy_rate: int = 0

    def __post_init__(self) -> None:
        if min(self.launch, self.step, self.copy_rate) < 0:
            raise ValueError("launch, step and copy_rate must not be negative")

    def pacing(self) -> Pacing | None:
        """Of one rank, in the running loop; None where nothing takes time."""
        return Pacing(self) if self != PacingSettings() else None


class Pacing:
    """One rank's library. Times are those of the loop in which it is made, in seconds."""

    def __init__(self, settings: PacingSettings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._copied = 0.0  # when the last chunk is, or will be

    def begin(self) -> None:
        """An operation is called: no chunk is ready before it is launched."""
        self._copied = max(self._copied, self._loop.time() + self._settings.launch / _SECOND)

    def ready(self, size: int) -> float:
        """A chunk of `size` bytes is there now: when it may be sent on."""
        settings = self._settings
        took = 8 * size / settings.copy_rate if settings.copy_rate else 0.0
        self._copied = max(self._copied, self._loop.time()) + took
        return self._copied + settings.step / _SECOND

    async def until(self, ready: float) -> None:
        """Wait for a time that :meth:`ready` gave."""
        wait = ready - self._loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
