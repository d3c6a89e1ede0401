"""Recovery after each fault, and why the rate came back when it did: from the recorded series and events alone.

A repaired link is not used at once. Queue pairs that had taken paths out of use probe them and take them back only when
probes are answered, and NICs have to learn that a port's link is up. So a report shows, for each fault, which paths and
ports were still out of use when it was repaired and until when, what throughput was meanwhile, and what happened
between then and 95 % of the usual throughput. The usual one is the median over the time bins between the warm-up and
the first fault; collectives have none, since they pause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrc_common.units import show_rate, show_time
from mrc_host.verbs_types import PathReason, PathState
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.files.workloads import Ranks
from mrc_lab.experiments.running.recording import (
    FLOW_COUNTERS,
    FaultSpan,
    PathRecord,
    PortRecord,
    Recording,
    RerouteRecord,
)

RECOVERED = 0.95  # of the usual throughput
_BAD = PathState.ASSUMED_BAD.value
_MAX_NAMED = 3  # paths
_REASONS = {
    PathReason.PROBE.value: "probes answered",
    PathReason.ARRIVED.value: "packet had arrived",
    PathReason.PEER_SKIP.value: "peer asked",
}


@dataclass(frozen=True, slots=True)
class Throughput:
    """Around a fault, in b/s and ns; `usual` is positive.

    `lowest` while it lasted, `waiting` the median from its repair until paths and ports were back (None: no whole bin).
    `recovered` is the begin of the first bin after the repair with 95 % of the usual rate (None: there is none).
    """

    usual: float
    lowest: float
    waiting: float | None
    recovered: int | None
    best_after: float | None


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What was recorded of a fault and its repair.

    `left` are the paths that were taken out of use while it lasted. Of those that were out of use at its repair
    (`out`), `back` are those that came back, when they first did. `ports` came up after the repair. `resent` and
    `timeouts` count packets retransmitted and timeouts from the repair until throughput had recovered. `meanwhile` are
    numbers of other faults that were there in that time. At `avoided` switches had routes around its links, at
    `restored` over them again (None: never).
    """

    fault: FaultSpan
    left: tuple[PathRecord, ...]
    out: tuple[PathRecord, ...]
    back: tuple[PathRecord, ...]
    ports: tuple[PortRecord, ...]
    throughput: Throughput | None
    resent: int
    timeouts: int
    meanwhile: tuple[int, ...]
    avoided: int | None = None
    restored: int | None = None

    @property
    def last_back(self) -> int | None:
        """When the last path or port was back; None if none had to come back, or if one never did."""
        if len(self.back) < len(self.out):
            return None
        return max(_times(self.back, self.ports), default=None)


def aftermaths(case: Case, recording: Recording) -> Iterator[Aftermath]:
    """One for each fault of the recording, made when it is asked for: each has all changes of paths while it lasted."""
    return (_aftermath(case, recording, number) for number in range(1, len(recording.faults) + 1))


def _aftermath(case: Case, recording: Recording, number: int) -> Aftermath:
    fault = recording.faults[number - 1]
    end = recording.end if fault.until is None else fault.until
    left = tuple(p for p in recording.paths if p.new == _BAD != p.old and fault.at <= p.time <= end)
    avoided, restored = _rerouted(recording.reroutes, fault)
    if fault.until is None:
        throughput = _throughput(case, recording, fault, None)
        return Aftermath(fault, left, (), (), (), throughput, 0, 0, (), avoided)
    out, back = _out_and_back(recording.paths, end)
    ports = tuple(p for p in recording.ports if p.up and p.time >= end and _was_down(recording.ports, p, end))
    waited = recording.end if len(back) < len(out) else max(_times(back, ports), default=end)
    throughput = _throughput(case, recording, fault, waited)
    over = recording.end if throughput is None or throughput.recovered is None else throughput.recovered
    resent, timeouts = (_counted(recording, name, end, over) for name in ("retransmitted", "timeouts"))
    meanwhile = tuple(
        n
        for n, other in enumerate(recording.faults, 1)
        if n != number and other.at < max(over, waited) and (other.until is None or other.until > end)
    )
    return Aftermath(fault, left, out, back, ports, throughput, resent, timeouts, meanwhile, avoided, restored)


def _rerouted(reroutes: Sequence[RerouteRecord], fault: FaultSpan) -> tuple[int | None, int | None]:
    """When switches first had routes without a link of a fault, and then with all of them again."""

    def about(one: RerouteRecord) -> bool:
        named = {word.rstrip(",:") for word in one.text.split()}
        return not named.isdisjoint(fault.links)

    avoiding = next((one for one in reroutes if one.time >= fault.at and about(one)), None)
    if avoiding is None or fault.until is None:
        return (None if avoiding is None else avoiding.time), None
    later = (one for one in reroutes if one.time >= max(fault.until, avoiding.time) and one.plane == avoiding.plane)
    return avoiding.time, next((one.time for one in later if not about(one)), None)


def _out_and_back(paths: Sequence[PathRecord], repaired: int) -> tuple[tuple[PathRecord, ...], tuple[PathRecord, ...]]:
    """How the paths that were out of use at `repaired` left, and how those of them that came back first did."""
    out: dict[tuple[str, int, int], PathRecord] = {}
    back: dict[tuple[str, int, int], PathRecord] = {}
    for record in sorted(paths, key=lambda record: record.time):
        path = record.host, record.qpn, record.ev
        if record.time < repaired:
            if record.new == _BAD:
                out[path] = record
            else:
                out.pop(path, None)
        elif path in out and record.new != _BAD:
            back.setdefault(path, record)
    return tuple(out.values()), tuple(back.values())


def _was_down(ports: Sequence[PortRecord], up: PortRecord, repaired: int) -> bool:
    """Whether the port that came up was down at `repaired`, and this was the first time since."""
    same = [p for p in ports if (p.host, p.port, p.local) == (up.host, up.port, up.local) and p.time < up.time]
    return bool(same) and not same[-1].up and same[-1].time <= repaired


def _throughput(case: Case, recording: Recording, fault: FaultSpan, waited: int | None) -> Throughput | None:
    """The usual rate; None for collectives, and if it is not known."""
    if any(isinstance(tenant.workload, Ranks) for tenant in case.tenants):
        return None
    rates, begins, ends = recording.rates().sum(axis=1), recording.times[:-1], recording.times[1:]
    first = min(other.at for other in recording.faults)
    quiet = rates[(begins >= case.measure.warmup * recording.time_scale) & (ends <= first)]
    until = recording.end if fault.until is None else fault.until
    during = rates[(begins < until) & (ends > fault.at)]
    if not len(quiet) or not np.median(quiet) or not len(during):
        return None
    usual = float(np.median(quiet))
    lowest = float(during.min())
    if fault.until is None or waited is None:
        return Throughput(usual, lowest, None, None, None)
    after = begins >= until
    good = begins[after & (rates >= RECOVERED * usual)]
    return Throughput(
        usual,
        lowest,
        _median(rates[after & (ends <= waited)]),
        int(good[0]) if len(good) else None,
        float(rates[after].max()) if after.any() else None,
    )


def _median(rates: NDArray[np.float64]) -> float | None:
    return float(np.median(rates)) if len(rates) else None


def _counted(recording: Recording, counter: str, begin: int, end: int) -> int:
    """Increase of a flow counter over all flows, in the bins that `begin` to `end` touches."""
    series = recording.flow_samples[:, :, FLOW_COUNTERS.index(counter)].sum(axis=1)
    first = max(0, int(np.searchsorted(recording.times, begin, side="right")) - 1)
    last = min(len(series) - 1, int(np.searchsorted(recording.times, end, side="left")))
    return int(series[last] - series[first])


def sentences(found: Aftermath, recording: Recording) -> Iterator[str]:
    """The text about a fault."""
    fault, rate = found.fault, found.throughput
    if rate is not None:
        yield f"Throughput was {show_rate(rate.usual)} before, {show_rate(rate.lowest)} at the lowest while it lasted."
    if found.left:
        yield f"{_paths(len(found.left))} taken out of use {_span(found.left)} ({_reasons(found.left)})."
    if found.avoided is not None:
        yield f"Switches had routes around it {show_time(found.avoided - fault.at)} after it began."
    if fault.until is None:
        return
    if found.restored is not None:
        yield f"They had routes over it again {show_time(found.restored - fault.until)} after the repair."
    if found.out:
        yield from _return(found, recording, fault.until)
    if found.ports:
        names = ", ".join(dict.fromkeys(f"{p.host} port {p.port}" for p in found.ports if p.local))
        of = f" ({names})" if names else ""
        yield f"NICs learned that the link is up {_later(found.ports, fault.until)} after the repair{of}."
    if rate is not None:
        yield from _recovery(found, rate, fault.until)


def _return(found: Aftermath, recording: Recording, repaired: int) -> Iterator[str]:
    """Of the paths that were out of use at the repair."""
    named = [f"{recording.flows[p.flow].name} EV {p.ev} plane {p.plane}" for p in found.out[:_MAX_NAMED]]
    more = [f"{len(found.out) - _MAX_NAMED} more"] if len(found.out) > _MAX_NAMED else []
    yield f"At the repair {_paths(len(found.out))} still out of use: {', '.join(named + more)}."
    missing = len(found.out) - len(found.back)
    if found.back:
        late = _later(found.back, repaired)
        number = "All" if not missing else str(len(found.back))
        yield f"{number} came back into use {late} after the repair ({_reasons(found.back)})."
    if missing:
        yield f"{_paths(missing)} still out of use when the run ended."


def _recovery(found: Aftermath, rate: Throughput, repaired: int) -> Iterator[str]:
    """How throughput came back, and what was in its way."""
    share = f"{100 * RECOVERED:.0f} %"
    last = found.last_back
    if rate.waiting is not None and rate.waiting < RECOVERED * rate.usual:
        yield f"Until then throughput was {show_rate(rate.waiting)} (median)."
    if rate.recovered is None:
        best = "" if rate.best_after is None else f"; the most was {show_rate(rate.best_after)}"
        yield f"{share} of the throughput before was not reached again{best}."
    elif rate.lowest < RECOVERED * rate.usual:
        late = f"{show_time(rate.recovered - repaired)} after" if rate.recovered > repaired else "at once after"
        if last is not None and rate.recovered > last:
            late = f"{show_time(rate.recovered - last)} after the last of them was back, {late}"
        yield f"{share} of the throughput before was there again {late} the repair."
    if found.resent or found.timeouts:
        yield f"From the repair until then packets sent again: {found.resent}, timeouts: {found.timeouts}."
    if found.meanwhile:
        numbers = ", ".join(map(str, found.meanwhile))
        yield f"Meanwhile fault{'s' * (len(found.meanwhile) > 1)} {numbers} lasted or began."


def _times(paths: Sequence[PathRecord], ports: Sequence[PortRecord]) -> list[int]:
    return [path.time for path in paths] + [port.time for port in ports]


def _paths(number: int) -> str:
    return "1 path was" if number == 1 else f"{number} paths were"


def _reasons(records: Sequence[PathRecord]) -> str:
    counts = Counter(_REASONS.get(record.reason, record.reason.replace("_", " ")) for record in records)
    return ", ".join(f"{reason}: {count}" for reason, count in counts.most_common())


def _span(records: Sequence[PathRecord]) -> str:
    times = [record.time for record in records]
    first, last = show_time(min(times)), show_time(max(times))
    return f"at {first}" if first == last else f"from {first} to {last}"


def _later(records: Sequence[PathRecord | PortRecord], since: int) -> str:
    times = [record.time - since for record in records]
    first, last = show_time(min(times)), show_time(max(times))
    return first if first == last else f"{first} to {last}"
