"""Idle time of the machine's cores, sampled from /proc/stat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

_IDLE, _IOWAIT = 3, 4  # columns of the cpu line, proc(5)


def parse_cpu_line(text: str) -> tuple[int, int]:
    """(idle, total) ticks of all cores since boot."""
    ticks = [int(word) for word in text.splitlines()[0].split()[1:9]]
    return ticks[_IDLE] + ticks[_IOWAIT], sum(ticks)


def read_ticks() -> tuple[int, int]:
    """(idle, total) ticks of all cores since boot, now."""
    return parse_cpu_line(Path("/proc/stat").read_text())


def idle_share(before: tuple[int, int], now: tuple[int, int], least: int = 1) -> float | None:
    """Share (0..1) of the ticks between two readings that were idle; None if there were fewer than `least`."""
    total = now[1] - before[1]
    return (now[0] - before[0]) / total if total >= least else None


async def sample_idle(take: Callable[[float], None], interval_s: float = 1.0) -> None:
    """Call `take` with the idle share (0..1) of each interval, until cancelled."""
    last = read_ticks()
    while True:
        await asyncio.sleep(interval_s)
        now = read_ticks()
        share = idle_share(last, now)
        if share is not None:
            take(share)
        last = now
