"""The live progress of a run: one line that changes on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.text import Text

from mrc_lab.demo.record import RunRecord

_REFRESH_S = 0.1
_PLAIN_EVERY_S = 5.0
_WAIT_SHOWN_S = 1.0  # a step that takes longer is shown as waiting


class Progress:
    """Shows runs on `console`, and to an `onlooker` each completed step.

    Use in a `with` statement around them.
    """

    def __init__(self, console: Console, onlooker: Callable[[RunRecord], None] | None = None) -> None:
        self._console = console
        self._onlooker = onlooker
        self._live = Live(console=console, refresh_per_second=10, transient=True) if console.is_terminal else None
        self._shown = 0.0
        self._step_seen = (-1, 0.0)  # last completed step and when it was seen

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def echo(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def progress(self, record: RunRecord) -> None:
        """Show where the run is, if it is time to."""
        now = time.monotonic()
        completed = record.completed_steps
        if completed != self._step_seen[0]:
            self._step_seen = (completed, now)
            if self._onlooker is not None and completed:
                self._onlooker(record)
        if now - self._shown < (_REFRESH_S if self._live is not None else _PLAIN_EVERY_S):
            return
        self._shown = now
        text = line(record, waiting_s=now - self._step_seen[1])
        if self._live is not None:
            self._live.update(Text(text))
        else:
            self.echo(text)

    def mark(self, record: RunRecord, text: str) -> None:
        """A line about a fault or failure."""
        at = (time.monotonic_ns() - record.started_ns) / 1e9
        self.echo(f"  {record.transport:<4} {at:6.1f} s  {text}")


def line(record: RunRecord, *, waiting_s: float = 0.0) -> str:
    """One line on a run: step, loss, paths in use, faults under way."""
    completed = record.completed_steps
    parts = [f"{record.transport:<4} step {completed:>4}/{record.planned_steps}"]
    if completed:
        reports = next(r for _, r in sorted(record.steps.items(), reverse=True) if len(r) == len(record.hosts))
        parts.append(f"loss {next(iter(reports.values())).loss:.4f}")
    if record.status:
        in_use = sum(status["paths_in_use"] for status in record.status.values())
        parts.append(f"paths in use {in_use}/{sum(status['paths'] for status in record.status.values())}")
    down = [fault.link for fault in record.faults if fault.link_up_ns is None]
    if down:
        parts.append(f"DOWN {', '.join(down)}")
    if completed and waiting_s >= _WAIT_SHOWN_S:
        parts.append(f"waiting for {waiting_s:.1f} s")
    return "   ".join(parts)
