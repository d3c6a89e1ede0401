"""Whether the timing of an emulated run can be trusted.

Emulation keeps real time only while the machine has processors to spare. Twenty times a second a coroutine asks to be
woken and notes how late it was; once a second the share of idle processor time is read. A run in which either was bad
for long is marked: its bytes are right all the same, but its rates and times say more about the machine than about
the fabric.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

import numpy as np

from experiments.demo.headroom import sample_idle
from experiments.running.recording import Fidelity

LEAST_IDLE = 0.10  # of all processors, in all but a tenth of the seconds
MOST_LAG_S = 0.050  # of this process's wake-ups, in all but a hundredth
_BEAT_S = 0.05


class Watch:
    """Watches while :meth:`run` runs."""

    def __init__(self, cpu_seconds: Callable[[], float]) -> None:
        self._cpu_seconds = cpu_seconds
        self._idle: list[float] = []
        self._lags: list[float] = []
        self._began = monotonic()
        self._cpu_began = 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
        self._began, self._cpu_began = monotonic(), self._cpu_seconds()
        sampling = asyncio.ensure_future(sample_idle(self._idle.append))
        try:
            while True:
                due = monotonic() + _BEAT_S
                await asyncio.sleep(_BEAT_S)
                self._lags.append(max(0.0, monotonic() - due))
        finally:
            sampling.cancel()

    def judge(self) -> Fidelity:
        """The verdict on what was seen so far."""
        seconds = monotonic() - self._began
        cores = (self._cpu_seconds() - self._cpu_began) / seconds if seconds > 0 else 0.0
        return judge(self._idle, self._lags, cores)


def judge(idle: list[float], lags: list[float], cores: float) -> Fidelity:
    """The verdict on shares of idle time (0..1) and late wake-ups (s); `cores` is for information."""
    low_idle = float(np.percentile(idle, 10)) if idle else 1.0
    high_lag = float(np.percentile(lags, 99)) if lags else 0.0
    reasons = []
    if low_idle < LEAST_IDLE:
        reasons.append(f"only {100 * low_idle:.0f} % of the processors were idle; {100 * LEAST_IDLE:.0f} % are needed")
    if high_lag > MOST_LAG_S:
        reasons.append(f"wake-ups were {1000 * high_lag:.0f} ms late; {1000 * MOST_LAG_S:.0f} ms are allowed")
    figures = {"idle_p10": low_idle, "lag_p99_s": high_lag, "cores_used": cores}
    return Fidelity(not reasons, tuple(reasons), {name: round(value, 4) for name, value in figures.items()})
