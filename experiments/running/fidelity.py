"""Whether the timing of an emulated run can be trusted.

Emulation keeps real time only while the machine has processors to spare. What it does when it has none is delay
frames beyond what the model explains (links of known rate without propagation, the traffic manager's queues), and that
is measured where it happens, in every switch and NIC (`machine_delays`). Three limits follow from the model itself:

- A packet and its answer may be delayed by no more, on average, than the transport is told to expect of processes
  (`PROCESSES_NS`): beyond that congestion control takes the machine for a queue.
- No line may stand idle for more than a twentieth of the run although a frame waits: that is rate lost, where the line
  is a bottleneck. What a late line makes up for (`slack`, `burst_ns`) is not lost.
- No switch or NIC may delay more than one frame in a hundred by more than the time in which the slowest line sends what
  may wait before switches mark: beyond that the machine alone makes bursts that a switch takes for congestion.

Besides, twenty times a second a coroutine asks to be woken and notes how late it was, and the fabric and this process
have to leave a tenth of the processors unused. What others use does not count, since a fabric's processes go before
them (`experiments.emulation.prefer`), unless the switches cannot measure (BMv2): then nothing else would tell, and a
tenth has to be idle. A run in which any of these was bad for long is marked: its bytes are right all the same, but its
rates and times say more about the machine than about the fabric.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from time import monotonic

import numpy as np

from experiments.demo.headroom import sample_idle
from experiments.running.machine_delays import Hop, differences, round_trip_ns
from experiments.running.recording import Fidelity
from topologies.emulation.timing import PROCESSES_NS
from topologies.fabric import Fabric

LEAST_ROOM = 0.10  # of all processors; of what is idle, in all but a tenth of the seconds
MOST_LAG_S = 0.050  # of this process's wake-ups, in all but a hundredth
LATE_SHARE = 0.01  # of the frames at a hop that may be delayed for longer than `late_frame_ns`
MOST_LINE_IDLE = 0.05  # of the run, any line, although frames waited
_BEAT_S = 0.05

Read = Callable[[bool], Mapping[str, Hop]]
"""Reads what was measured, by switch and NIC; from then on they measure (True) or do not."""


class Watch:
    """Watches `fabric` while :meth:`run` runs. `delays` is called in a thread of its own, and by :meth:`judge`."""

    def __init__(self, cpu_seconds: Callable[[], float], fabric: Fabric, delays: Read) -> None:
        self._cpu_seconds = cpu_seconds
        self._fabric = fabric
        self._delays = delays
        self._idle: list[float] = []
        self._lags: list[float] = []
        self._began = monotonic()
        self._cpu_began = 0.0
        self._before: Mapping[str, Hop] | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        self._before = await asyncio.to_thread(self._delays, True)
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
        """The verdict on what was seen so far; delays are measured no more."""
        seconds = monotonic() - self._began
        cores = (self._cpu_seconds() - self._cpu_began) / seconds if seconds > 0 else 0.0
        now = self._delays(False)
        hops = {} if self._before is None else differences(now, self._before)
        used = cores / len(os.sched_getaffinity(0))
        return judge(self._idle, self._lags, used, self._fabric, hops, seconds)


def judge(
    idle: list[float], lags: list[float], used: float, fabric: Fabric, hops: Mapping[str, Hop], seconds: float
) -> Fidelity:
    """The verdict on shares of idle time (0..1), late wake-ups (s) and delays by the machine in a run of `seconds`.

    `used` is the share of the processors (0..1) that the fabric and this process took. `hops` may lack some switches
    and NICs, or all.
    """
    low_idle = float(np.percentile(idle, 10)) if idle else 1.0
    high_lag = float(np.percentile(lags, 99)) if lags else 0.0
    reasons = []
    if not any(switch.name in hops for switch in fabric.switches):
        if low_idle < LEAST_ROOM:
            reasons.append(f"only {_percent(low_idle)} of the processors were idle; {_percent(LEAST_ROOM)} are needed")
    elif 1 - used < LEAST_ROOM:
        reasons.append(f"the fabric took {_percent(used)} of the processors; {_percent(1 - LEAST_ROOM)} are allowed")
    if high_lag > MOST_LAG_S:
        reasons.append(f"wake-ups were {1000 * high_lag:.0f} ms late; {1000 * MOST_LAG_S:.0f} ms are allowed")
    figures = {"idle_p10": low_idle, "lag_p99_s": high_lag, "processors_used": used}
    late, delays = _judge_delays(fabric, hops, seconds)
    notes = _unmeasured(fabric, hops)
    rounded = {name: round(value, 6) for name, value in {**figures, **delays}.items()}
    reasons += late
    return Fidelity(not reasons, tuple(reasons), rounded, notes)


def late_frame_ns(fabric: Fabric) -> int:
    """In how long the slowest line sends what may wait before switches mark."""
    slowest = min(link.rate_bps for link in fabric.links)
    return fabric.queues.bytes_at(fabric.queues.ecn_low, slowest, fabric.mtu) * 8_000_000_000 // slowest


def _judge_delays(fabric: Fabric, hops: Mapping[str, Hop], seconds: float) -> tuple[list[str], dict[str, float]]:
    if not hops or not seconds:
        return [], {}
    reasons = []
    round_trip, most = round_trip_ns(fabric, hops), late_frame_ns(fabric)
    mean, slow = _worst(hops, lambda hop: hop.mean_ns)
    p99, late = _worst(hops, lambda hop: hop.quantile_ns(1 - LATE_SHARE))
    idle, busy = _worst(hops, lambda hop: hop.longest_idle_ns / 1e9 / seconds)
    if round_trip > PROCESSES_NS:
        reasons.append(
            f"the machine delayed a packet and its answer by {_ms(round_trip)} on average, of which {_ms(mean)} at"
            f" {slow}; {_ms(PROCESSES_NS)} are allowed"
        )
    if p99 > most:
        reasons.append(
            f"the machine delayed one frame in a hundred by {_ms(p99)} or more at {late}; {_ms(most)} are allowed"
        )
    if idle > MOST_LINE_IDLE:
        reasons.append(
            f"a line of {busy} stood idle for {100 * idle:.0f} % of the run although frames waited;"
            f" {100 * MOST_LINE_IDLE:.0f} % are allowed"
        )
    figures = {"machine_round_trip_s": round_trip / 1e9, "machine_delay_p99_s": p99 / 1e9, "machine_line_idle": idle}
    return reasons, figures


def _worst(hops: Mapping[str, Hop], figure: Callable[[Hop], float]) -> tuple[float, str]:
    """The largest figure, and the switch or NIC that has it."""
    return max((figure(hop), name) for name, hop in hops.items())


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3g} ms"


def _unmeasured(fabric: Fabric, hops: Mapping[str, Hop]) -> tuple[str, ...]:
    nodes = [*(switch.name for switch in fabric.switches), *(nic.name for nic in fabric.nics)]
    missing = [name for name in nodes if name not in hops]
    if not missing:
        return ()
    if set(missing) == {switch.name for switch in fabric.switches}:
        return ("delays by the machine were measured at NICs only: these switches cannot measure them",)
    return (f"delays by the machine were not measured at {', '.join(missing[:4])}{' and others' * (len(missing) > 4)}",)
