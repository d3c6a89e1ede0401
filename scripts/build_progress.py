"""Progress of a build: on a terminal a line that changes, elsewhere a line for each step and each quarter of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

_QUARTERS = 4


class BuildProgress:
    """Prints what `what` is at; `clock` is in seconds."""

    def __init__(self, what: str, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._out = sys.stdout if out is None else out
        self._clock = clock
        self._began = clock()
        self._terminal = self._out.isatty()
        self._line = ""
        self._printed = ("", -1)  # the step, and the quarter of it

    def report(self, step: str, done: int = 0, total: int = 0) -> None:
        """`done` of `total` parts of a step are done: `step` says parts of what; without a total it is what is done."""
        text = f"{self._what}: {done} of {total} {step}" if total else f"{self._what}: {step}"
        if self._terminal:
            took = int(self._clock() - self._began)
            self._draw(f"{text}, {took // 60}:{took % 60:02}")
            return
        at = (step, done * _QUARTERS // total if total else 0)
        if at != self._printed:
            self._printed = at
            print(text, file=self._out, flush=True)

    def close(self) -> None:
        """The changing line goes: what comes next begins in an empty one."""
        if self._line:
            self._draw("")

    def _draw(self, line: str) -> None:
        if line != self._line:
            self._line = line
            print(f"\r{line}\033[K", end="", file=self._out, flush=True)
