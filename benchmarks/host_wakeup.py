"""Wake-up delay of the event loop of NICs: ``mrc_host.driver.loop`` compared with asyncio on the same machine.

Waits are from well below the loop's two ways of sleeping to well above both. ``host_wakeup_median`` and
``host_wakeup_p99`` are how much later than asked its turns run; asyncio, whose waits are whole milliseconds, is what
they are compared with. Other work on the machine makes both later. ``python -m benchmarks host`` prints them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from time import monotonic_ns

from benchmarks.report import Measurement, report
from mrc_host.driver.loop import Loop

WAITS = (50_000, 400_000, 1_300_000, 2_600_000)  # ns
COUNT = 1000


def loop_lateness() -> list[int]:
    """Nanoseconds that each turn ran later than it had asked."""
    late: list[int] = []
    wanted = monotonic_ns()
    loop = Loop()

    def turn(now: int) -> int:
        nonlocal wanted
        if now >= wanted:
            late.append(now - wanted)
            wanted = now + WAITS[len(late) % len(WAITS)]
        if len(late) == COUNT:
            loop.stop()
        return wanted

    loop.add_turn(turn)
    loop.run()
    loop.close()
    return late


async def asyncio_lateness() -> list[int]:
    """The same of timers in asyncio's loop."""
    late: list[int] = []
    for i in range(COUNT):
        wanted = monotonic_ns() + WAITS[i % len(WAITS)]
        await asyncio.sleep((wanted - monotonic_ns()) / 1e9)
        late.append(monotonic_ns() - wanted)
    return late


def percentile_us(late: Sequence[int], percent: int) -> float:
    """The lateness in microseconds that so many of a hundred do not exceed."""
    return sorted(late)[len(late) * percent // 100 - 1] / 1000


def measure() -> Iterator[Measurement]:
    """Median and 99th percentile, each as a ratio to asyncio's."""
    others = asyncio.run(asyncio_lateness())
    ours = loop_lateness()
    for name, percent in (("median", 50), ("p99", 99)):
        value, other = percentile_us(ours, percent), percentile_us(others, percent)
        yield Measurement(f"host_wakeup_{name}", value, "us", value / other, "asyncio")


if __name__ == "__main__":
    report(measure())
