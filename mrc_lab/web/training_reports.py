"""Training reports of the demo: lines of JSON that are read as they come and put into the feed.

A line is a list: transport, steps done, steps planned, loss, and how long the last step took, in ms. What is no such
line is left out. The end of the lines is the end of the command that the page was opened beside.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from mrc_common import strict_json
from mrc_lab.fabric.live_view import TrainingState
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import StateSection

_LONGEST_LINE = 4096


class TrainingReports:
    """Reads the lines from `descriptor`; `on_end` is called at their end."""

    def __init__(self, feed: Feed, descriptor: int, on_end: Callable[[], None]) -> None:
        self._feed = feed
        self._descriptor = descriptor
        self._on_end = on_end
        self._rest = b""

    def start(self) -> None:
        """Read in the running loop from now on."""
        os.set_blocking(self._descriptor, False)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._on_end()
            return
        *lines, self._rest = (self._rest + data)[-(1 << 17) :].split(b"\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            self.take(line)

    def take(self, line: bytes) -> None:
        """One line."""
        try:
            transport, step, planned, loss, step_ms = strict_json.loads(line)
            known = float(loss) if loss is not None else None
            state = TrainingState(int(step), int(planned), known, float(step_ms))
        except (ValueError, TypeError, OverflowError):
            return
        self._feed.put(StateSection.TRAINING, str(transport)[:16], state)
