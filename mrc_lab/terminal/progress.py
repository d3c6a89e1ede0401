"""Progress with an estimate, for what takes longer than two seconds: a line on the terminal that goes when it is done.

Nothing is drawn before two seconds are over. Where standard error is no terminal, there is a plain line every half
minute, so that a log shows that the work goes on. The estimate is the time that the work took so far for what it has
done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from mrc_lab.terminal.console import console

QUIET_S: Final = 2.0
PLAIN_S: Final = 30.0  # between lines where there is no terminal, at least; a tenth of the time so far, if longer


class LateProgress:
    """Reports of how much of the work is done, from 0 to 1; `clock` is in seconds."""

    def __init__(self, what: str, to: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._to, self._clock = what, to, clock
        self._began = clock()
        self._next_plain = PLAIN_S  # after how many seconds
        self._progress: Progress | None = None
        self._task = TaskID(0)

    def report(self, share: float) -> None:
        """So much is done."""
        took = self._clock() - self._began
        share = min(max(share, 0.0), 1.0)
        if not self._to.is_terminal:
            if took >= self._next_plain:
                self._next_plain = took + max(PLAIN_S, took / 10)
                left = time_left(took, share)
                self._to.print(f"{self._what}: {share:.0%}{left and f', {left}'}", soft_wrap=True, markup=False)
            return
        if took < QUIET_S:
            return
        if self._progress is None:
            columns = TextColumn("{task.description}"), BarColumn(None), TaskProgressColumn(), TimeElapsedColumn()
            self._progress = Progress(*columns, TextColumn("{task.fields[left]}"), console=self._to, transient=True)
            self._task = self._progress.add_task(self._what, total=1.0, left="")
            self._progress.start()
        self._progress.update(self._task, completed=share, left=time_left(took, share))

    def print(self, text: str) -> None:
        """A line that stays."""
        self.close()
        self._to.print(text, soft_wrap=True)

    def close(self) -> None:
        """The line goes, until the next report; before anybody else prints, and when the work is over."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def time_left(took: float, share: float) -> str:
    """What is left if the rest goes on as so far, in words; nothing as long as that cannot be known."""
    if share <= 0:
        return ""
    left = took * (1 - share) / share
    if left < 90:
        return f"about {left:.0f} s left"
    return f"about {left / 60:.0f} min left" if left < 5400 else f"about {left / 3600:.1f} h left"


@contextmanager
def progress(what: str, to: Console | None = None) -> Iterator[LateProgress]:
    """Progress of `what` meanwhile, on standard error unless `to` is another console."""
    late = LateProgress(what, to or console(stderr=True))
    try:
        yield late
    finally:
        late.close()
