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
them (`mrc_lab.fabric.emulation.prefer`), unless the switches cannot measure (BMv2): then nothing else would tell, and a
tenth has to be idle. A run in which any of these was bad for long is marked: its bytes are right all the same, but its
rates and times say more about the machine than about the fabric.

All this is measured while there is traffic, neither before, when queue pairs are connected and faults are ordered, nor
after, when bytes are compared. A run may be too short for a measurement; then it has none, and a note says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

import numpy as np

from mrc_lab.experiments.running.machine_delays import Hop, differences, round_trip_ns
from mrc_lab.experiments.running.recording import Fidelity
from mrc_lab.fabric.cpu_idle import idle_share, read_ticks, sample_idle
from topologies.emulation.transport_timers import PROCESSES_NS
from topologies.fabric import Fabric

LEAST_ROOM = 0.10  # of all processors; of what is idle, in all but a tenth of the seconds
MOST_LAG_S = 0.050  # of this process's wake-ups, in all but a hundredth
LATE_SHARE = 0.01  # of the frames at a hop that may be delayed for longer than `late_frame_ns`
MOST_LINE_IDLE = 0.05  # of the run, any line, although frames waited
_BEAT_S = 0.05
_LEAST_TICKS = 20  # of all processors (100 a second each): fewer could not tell a tenth from nothing
_LEAST_FRAMES = 100  # of which one is one in a hundred

Read = Callable[[bool], Mapping[str, Hop]]
"""Reads what was measured, by switch and NIC; from then on they measure (True) or do not."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a watch saw during `seconds` of traffic.

    `idle` are shares (0..1) of the processors that nobody used, one a second; of less than a second there is one of all
    the time, or none if it is too short to tell. `lags` are late wake-ups in s. `used` is the share (0..1) of the
    processors that the fabric and this process took. `hops` may lack some switches and NICs, or all.
    """

    seconds: float
    idle: Sequence[float]
    lags: Sequence[float]
    used: float
    hops: Mapping[str, Hop]


class FidelityWatch:
    """Watches `fabric` while there is traffic. `delays` is called in a thread of its own."""

    def __init__(self, cpu_seconds: Callable[[], float], fabric: Fabric, delays: Read) -> None:
        self._cpu_seconds = cpu_seconds
        self._fabric = fabric
        self._delays = delays
        self._before: Mapping[str, Hop] | None = None
        self._observed = Observed(0.0, (), (), 0.0, {})

    async def prepare(self) -> None:
        """Let switches and NICs measure from now on."""
        self._before = await asyncio.to_thread(self._delays, True)

    @asynccontextmanager
    async def traffic(self) -> AsyncIterator[None]:
        """Watch what happens inside: the traffic of a run."""
        idle: list[float] = []
        lags: list[float] = []
        tasks = [asyncio.ensure_future(sample_idle(idle.append)), asyncio.ensure_future(_note_lags(lags))]
        ticks, began, used = read_ticks(), monotonic(), self._cpu_seconds()
        try:
            yield
        finally:
            seconds, used = monotonic() - began, self._cpu_seconds() - used
            whole = idle_share(ticks, read_ticks(), _LEAST_TICKS)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            now = await asyncio.to_thread(self._delays, False)
        if not idle and whole is not None:
            idle.append(whole)
        hops = {} if self._before is None else differences(now, self._before)
        share = used / seconds / len(os.sched_getaffinity(0)) if seconds > 0 else 0.0
        self._observed = Observed(seconds, idle, lags, share, hops)

    def judge(self) -> Fidelity:
        """The verdict on what was seen."""
        return judge(self._observed, self._fabric)


async def _note_lags(lags: list[float]) -> None:
    while True:
        due = monotonic() + _BEAT_S
        await asyncio.sleep(_BEAT_S)
        lags.append(max(0.0, monotonic() - due))


def judge(seen: Observed, fabric: Fabric) -> Fidelity:
    """The verdict on what was seen."""
    reasons = []
    measurements = {"traffic_s": seen.seconds, "processors_used": seen.used}
    measured = any(switch.name in seen.hops for switch in fabric.switches)
    if seen.idle:
        measurements["idle_p10"] = float(np.percentile(seen.idle, 10))
    if seen.lags:
        measurements["lag_p99_s"] = float(np.percentile(seen.lags, 99))
    if measured and 1 - seen.used < LEAST_ROOM:
        reasons.append(
            f"the fabric took {_percent(seen.used)} of the processors; {_percent(1 - LEAST_ROOM)} are allowed"
        )
    if not measured and not seen.idle:
        reasons.append(f"{_ms(seen.seconds * 1e9)} of traffic are too short to tell whether the processors had room")
    elif not measured and measurements["idle_p10"] < LEAST_ROOM:
        low = _percent(measurements["idle_p10"])
        reasons.append(f"only {low} of the processors were idle; {_percent(LEAST_ROOM)} are needed")
    if measurements.get("lag_p99_s", 0.0) > MOST_LAG_S:
        reasons.append(
            f"wake-ups were {1000 * measurements['lag_p99_s']:.0f} ms late; {1000 * MOST_LAG_S:.0f} ms are allowed"
        )
    late, delays = _judge_delays(fabric, seen.hops, seen.seconds)
    notes = (*_unmeasured(fabric, seen.hops), *_too_short(seen, delays))
    rounded = {name: round(value, 6) for name, value in {**measurements, **delays}.items()}
    reasons += late
    return Fidelity(not reasons, tuple(reasons), rounded, notes)


def _too_short(seen: Observed, delays: Mapping[str, float]) -> tuple[str, ...]:
    """What could not be measured since there was too little traffic, in a sentence."""
    missing = ["how idle the processors were"] * (not seen.idle) + ["late wake-ups"] * (not seen.lags)
    if seen.hops and "machine_delay_p99_s" not in delays:
        missing.append("the delay of one frame in a hundred")
    if not missing:
        return ()
    return (f"{_ms(seen.seconds * 1e9)} of traffic are too short to measure {_listed(missing)}",)


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
    p99, late = _worst(hops, lambda hop: hop.quantile_ns(1 - LATE_SHARE, _LEAST_FRAMES))
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
    measurements = {"machine_round_trip_s": round_trip / 1e9, "machine_line_idle": idle}
    if any(hop.most_frames >= _LEAST_FRAMES for hop in hops.values()):
        measurements["machine_delay_p99_s"] = p99 / 1e9
    return reasons, measurements


def _worst(hops: Mapping[str, Hop], measurement: Callable[[Hop], float]) -> tuple[float, str]:
    """The largest measurement, and the switch or NIC that has it."""
    return max((measurement(hop), name) for name, hop in hops.items())


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " or " * (len(words) > 1) + words[-1]


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
