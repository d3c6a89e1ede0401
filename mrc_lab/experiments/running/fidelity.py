"""Trust in the timing of an emulated run.

Emulation keeps real time only while the machine has processors to spare. Otherwise frames are delayed beyond what the
model explains (links of known rate without propagation, the traffic manager's queues). This is measured where it
happens, in every switch and NIC (`machine_delays`). Three limits follow from the model itself:

- The mean delay of a packet and its answer may not exceed what the transport expects of processes (`PROCESSES_NS`):
  beyond that congestion control mistakes the machine for a queue.
- No port may leave its link idle for more than a twentieth of the run although a frame waits: that bandwidth is lost if
  the link is a bottleneck. What a late port catches up (`slack`, `burst_ns`) is not lost.
- No switch or NIC may delay more than one frame in a hundred by more than the time in which the slowest link sends as
  much as may wait before switches mark: beyond that the machine causes bursts that a switch mistakes for congestion.

In addition, a coroutine wakes up twenty times per second and records how late it was, faults must be made and taken
back on time (`fault_times`), and the fabric and this process must leave a tenth of the processors unused. Usage by
others does not count, since a fabric's processes have priority (`mrc_lab.fabric.emulation.prefer`), unless the switches
cannot measure delays (BMv2): then a tenth must be idle. A run that exceeded a limit for long is marked: its bytes are
correct, but its rates and times reflect the machine rather than the fabric.

All this is measured while there is traffic, neither before, while queue pairs are connected and faults are requested,
nor after, while bytes are compared. A run too short for a measurement does not have it, and a note says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

import numpy as np

from mrc_lab.experiments.running.fault_times import Deviation
from mrc_lab.experiments.running.machine_delays import Hop, differences, round_trip_ns
from mrc_lab.experiments.running.recording import Fidelity
from mrc_lab.fabric.cpu_idle import idle_share, read_ticks, sample_idle
from topologies.emulation.transport_timers import PROCESSES_NS
from topologies.fabric import Fabric

MIN_IDLE_CPU = 0.10  # share of all processors, idle in all but a tenth of the seconds
MAX_LAG_S = 0.050  # of this process's wake-ups, in all but a hundredth, and of every change of a fault
LATE_SHARE = 0.01  # of the frames at a hop that may be delayed for longer than `late_frame_ns`
MAX_LINK_IDLE = 0.05  # share of the run in which any link was idle although frames waited
_BEAT_S = 0.05
_MIN_TICKS = 20  # of all processors (100 per second each); with fewer, a tenth cannot be distinguished from nothing
_MOST_FAULTS = 5  # named in reasons
_MIN_FRAMES = 100  # of which one is one in a hundred

Read = Callable[[bool], Mapping[str, Hop]]
"""Reads what was measured, by switch and NIC; from then on they measure (True) or do not."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Measurements over `seconds` of traffic.

    `idle` are shares (0..1) of the processors that were unused, one per second; for less than a second there is one for
    the whole time, or none if it is too short. `lags` are the delays of wake-ups in s. `used` is the share (0..1) of
    the processors that the fabric and this process used. `hops` may lack some switches and NICs, or all.
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
            whole = idle_share(ticks, read_ticks(), _MIN_TICKS)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            now = await asyncio.to_thread(self._delays, False)
        if not idle and whole is not None:
            idle.append(whole)
        hops = {} if self._before is None else differences(now, self._before)
        share = used / seconds / len(os.sched_getaffinity(0)) if seconds > 0 else 0.0
        self._observed = Observed(seconds, idle, lags, share, hops)

    def judge(self, faults: Sequence[Deviation] = ()) -> Fidelity:
        """The verdict on the measurements, and on how far faults were from their times, largest first."""
        return judge(self._observed, self._fabric, faults)


async def _note_lags(lags: list[float]) -> None:
    while True:
        due = monotonic() + _BEAT_S
        await asyncio.sleep(_BEAT_S)
        lags.append(max(0.0, monotonic() - due))


def judge(seen: Observed, fabric: Fabric, faults: Sequence[Deviation] = ()) -> Fidelity:
    """The verdict on the measurements, and on how far faults were from their times, largest first."""
    reasons = []
    measurements = {"traffic_s": seen.seconds, "processors_used": seen.used}
    measured = any(switch.name in seen.hops for switch in fabric.switches)
    if seen.idle:
        measurements["idle_p10"] = float(np.percentile(seen.idle, 10))
    if seen.lags:
        measurements["lag_p99_s"] = float(np.percentile(seen.lags, 99))
    if measured and 1 - seen.used < MIN_IDLE_CPU:
        reasons.append(
            f"the fabric took {_percent(seen.used)} of the processors; {_percent(1 - MIN_IDLE_CPU)} are allowed"
        )
    if not measured and not seen.idle:
        reasons.append(
            f"{_ms(seen.seconds * 1e9)} of traffic is too short to tell whether the processors had capacity to spare"
        )
    elif not measured and measurements["idle_p10"] < MIN_IDLE_CPU:
        low = _percent(measurements["idle_p10"])
        reasons.append(f"only {low} of the processors were idle; {_percent(MIN_IDLE_CPU)} are needed")
    if measurements.get("lag_p99_s", 0.0) > MAX_LAG_S:
        reasons.append(
            f"wake-ups were {1000 * measurements['lag_p99_s']:.0f} ms late; {1000 * MAX_LAG_S:.0f} ms are allowed"
        )
    if faults:
        measurements["fault_off_by_s"] = faults[0].ns / 1e9
    reasons += [
        f"{fault.text}; {1000 * MAX_LAG_S:.0f} ms are allowed"
        for fault in faults[:_MOST_FAULTS]
        if fault.ns / 1e9 > MAX_LAG_S
    ]
    late, delays = _judge_delays(fabric, seen.hops, seen.seconds)
    notes = (*_unmeasured(fabric, seen.hops), *_too_short(seen, delays))
    rounded = {name: round(value, 6) for name, value in {**measurements, **delays}.items()}
    reasons += late
    return Fidelity(not reasons, tuple(reasons), rounded, notes)


def _too_short(seen: Observed, delays: Mapping[str, float]) -> tuple[str, ...]:
    """A note on what could not be measured because there was too little traffic, if anything."""
    missing = ["how idle the processors were"] * (not seen.idle) + ["late wake-ups"] * (not seen.lags)
    if seen.hops and "machine_delay_p99_s" not in delays:
        missing.append("the delay of one frame in a hundred")
    if not missing:
        return ()
    return (f"{_ms(seen.seconds * 1e9)} of traffic is too short to measure {_listed(missing)}",)


def late_frame_ns(fabric: Fabric) -> int:
    """The time in which the slowest link sends as much as may wait before switches mark."""
    slowest = min(link.rate_bps for link in fabric.links)
    return fabric.queues.bytes_at(fabric.queues.ecn_low, slowest, fabric.mtu) * 8_000_000_000 // slowest


def _judge_delays(fabric: Fabric, hops: Mapping[str, Hop], seconds: float) -> tuple[list[str], dict[str, float]]:
    if not hops or not seconds:
        return [], {}
    reasons = []
    round_trip, most = round_trip_ns(fabric, hops), late_frame_ns(fabric)
    mean, slow = _worst(hops, lambda hop: hop.mean_ns)
    p99, late = _worst(hops, lambda hop: hop.quantile_ns(1 - LATE_SHARE, _MIN_FRAMES))
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
    if idle > MAX_LINK_IDLE:
        reasons.append(
            f"a link of {busy} was idle for {100 * idle:.0f} % of the run although frames waited;"
            f" {100 * MAX_LINK_IDLE:.0f} % are allowed"
        )
    measurements = {"machine_round_trip_s": round_trip / 1e9, "machine_link_idle": idle}
    if any(hop.most_frames >= _MIN_FRAMES for hop in hops.values()):
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
    kernel = [switch.name for switch in fabric.kernel_switches]
    nodes = [*(switch.name for switch in fabric.p4_switches), *(nic.name for nic in fabric.nics)]
    missing = [name for name in nodes if name not in hops]
    if not missing:
        return (f"Linux does not measure delays at {_first(kernel)}",) if kernel else ()
    if set(missing) == {switch.name for switch in fabric.p4_switches}:
        return ("delays by the machine were measured at NICs only: these switches cannot measure them",)
    return (f"delays by the machine were not measured at {_first([*missing, *kernel])}",)


def _first(names: Sequence[str]) -> str:
    return f"{', '.join(names[:4])}{' and others' * (len(names) > 4)}"
