"""How idle the machine's cores were, sampled from /proc/stat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

_IDLE, _IOWAIT = 3, 4  # columns of the cpu line, proc(5)


def parse_cpu_line(text: str) -> tuple[int, int]:
    """(idle, total) ticks of all cores since boot."""
    ticks = [int(word) for word in text.splitlines()[0].split()[1:9]]
    return ticks[_IDLE] + ticks[_IOWAIT], sum(ticks)


async def sample_idle(take: Callable[[float], None], interval_s: float = 1.0) -> None:
    """Call `take` with the idle share (0..1) of each interval, until cancelled."""
    last = parse_cpu_line(Path("/proc/stat").read_text())
    while True:
        await asyncio.sleep(interval_s)
        now = parse_cpu_line(Path("/proc/stat").read_text())
        if now[1] > last[1]:
            take((now[0] - last[0]) / (now[1] - last[1]))
        last = now
