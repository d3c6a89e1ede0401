"""What failures cost a job whose GPUs all wait for the slowest: the drop while each lasts, as a result shows it.

A result of the scale backend has a series: the steps of a collective or training job or, of flows, the slowest in every
time bin. Samples in which no fault begins, lasts or ends say how fast the job is; samples that lie within one fault and
touch no other say how fast it is meanwhile. Faults that last for the whole run are part of how the job is.

Failures of a month come at random and independently of one another, and each makes the job as much slower as one of
those that the result has of its kind. While several parts are down the job is as slow as the worst of them makes it.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.model import case_label, joined
from mrc_lab.planning.failure_rates import MONTH, FailureRates
from mrc_lab.reports.read_table import rows, time_bin
from mrc_lab.reports.result_folder import read_summary

_MONTH_HOURS: Final = MONTH / 3600e9
_LINK_KINDS: Final = ("link_down", "port_down")
_SWITCH_KINDS: Final = ("blackhole", "power_off")
_DIGITS: Final = 6  # of a drop: rates in tables are whole b/s
_MEANT: Final = {"links": "a link between a T0 and a T1", "t1s": "a T1", "nic_ports": "a port of a NIC"}
_COUNTED: Final = {"links": "t0_t1_links", "t1s": "t1s", "nic_ports": "nic_ports"}  # in summaries
_RUN_ANOTHER: Final = "Run a file in which it does for several time bins or steps, as docs/plan.md shows."


@dataclass(frozen=True, slots=True)
class JobResult:
    """One case. `drops` has, by kind of part, a share (0 to 1) of the job's rate for each failure in the run.

    `parts` has how many of each kind the fabric has.
    """

    name: str
    transport: str
    gpus: int
    parts: Mapping[str, int]
    drops: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class MonthLost:
    """GPU hours that a job loses a month, by kind of part, of all `gpu_hours` that it has."""

    result: JobResult
    by_kind: Mapping[str, float]
    gpu_hours: float

    @property
    def lost(self) -> float:
        """All of them."""
        return sum(self.by_kind.values())


@dataclass(frozen=True, slots=True)
class _Sample:
    begin: int
    end: int
    rate: float


def read_results(folder: Path, kinds: Sequence[str]) -> list[JobResult]:
    """The cases of a result with the drops for failures of these kinds. ExperimentError if it does not have them."""
    summary = read_summary(folder)
    if (backend := summary.get("backend")) != "scale":
        raise ExperimentError(
            f"{folder} is a result of the {backend} backend, which is too short for failures of a month",
            "Run the file with --backend scale.",
        )
    try:
        return [_job(folder, name, case, kinds) for name, case in summary["cases"].items()]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ExperimentError(f"{folder} is not a result as 'mrc run' writes it: {error!r}") from None


def month_lost(result: JobResult, rates: FailureRates) -> MonthLost:
    """What a job loses a month. ExperimentError if more parts were down at once than there are."""
    whole = result.gpus * _MONTH_HOURS
    given = dict(rates.given())
    for kind, rate in given.items():
        if rate.at_once > result.parts[kind]:
            raise ExperimentError(
                f"{kind}: {rate.at_once:.3g} would be down at one time, but the fabric has {result.parts[kind]}",
                "Give a lower rate, or a shorter down.",
            )
    shares = _shares_lost({kind: (rate.at_once, result.drops[kind]) for kind, rate in given.items()})
    return MonthLost(result, {kind: whole * share for kind, share in shares.items()}, whole)


def _shares_lost(down: Mapping[str, tuple[float, tuple[float, ...]]]) -> dict[str, float]:
    """Shares of the job's rate that are lost on average, by kind; of each the parts down at once, and the drops.

    The worst of what is down is worse than x unless no such part is: of kind k there are n_k P_k(drop > x) on average,
    as many as a Poisson process has. Where several kinds are, each has its part of the blame.
    """
    found = dict.fromkeys(down, 0.0)
    edges = sorted({0.0, *(drop for _, drops in down.values() for drop in drops)})
    for low, high in itertools.pairwise(edges):
        worse = {kind: at_once * np.mean(np.array(drops) > low) for kind, (at_once, drops) in down.items()}
        together = sum(worse.values())
        for kind, number in worse.items():
            found[kind] += float((high - low) * -math.expm1(-together) * number / together)
    return found


def _job(folder: Path, name: str, case: Mapping[str, Any], kinds: Sequence[str]) -> JobResult:
    of = joined(str(folder), case_label(name))
    if case["errors"]:
        raise ExperimentError(
            f"{of}: the job did not go on to the end: {case['errors'][0]}",
            "Run it with more time or, of rc, with a longer transport.attributes.timeout.",
        )
    if len(case.get("tenants", ())) > 1:
        raise ExperimentError(f"{of} has several workloads at once", "Give a result of one job.")
    table = folder / name
    samples = list(_steps(table) if case["operations"] else _slowest(table))
    drops = _drops(samples, case["faults"], int(case["end_ns"]), kinds, of)
    gpus = len({host for flow in case["flows"] for host in flow.partition("#")[0].rpartition("/")[2].split(">")})
    parts = {kind: int(case["extent"]["parts"][_COUNTED[kind]]) for kind in kinds}
    return JobResult(name, str(case["transport"]["type"]), gpus, parts, drops)


# ---- series ---------------------------------------------------------------------------------------------------------


def _steps(folder: Path) -> Iterator[_Sample]:
    """Steps of a job, each from the end of the one before."""
    before = None
    for path, line, row in rows(folder / "completions.csv", ("ended_ns", "bytes")):
        with _line(path, line):
            ended, size = int(row["ended_ns"]), int(row["bytes"])
        if before is not None and ended > before:
            yield _Sample(before, ended, size / (ended - before))
        before = ended


def _slowest(folder: Path) -> Iterator[_Sample]:
    """The slowest flow of every time bin."""
    least: dict[tuple[int, int], float] = {}
    for path, line, row in rows(folder / "flows.csv", ("begin_ns", "end_ns", "bits_per_s")):
        with _line(path, line):
            at, rate = time_bin(row), float(row["bits_per_s"])
        least[at] = min(rate, least.get(at, math.inf))
    for (begin, end), rate in sorted(least.items()):
        yield _Sample(begin, end, rate)


@contextlib.contextmanager
def _line(path: Path, line: int) -> Iterator[None]:
    """Name the line of a number that is none."""
    try:
        yield
    except ValueError as error:
        raise ExperimentError(f"{path}, line {line}: {error}") from None


# ---- drops ----------------------------------------------------------------------------------------------------------


def _kind_of(fault: Mapping[str, Any]) -> str:
    """The kind of part that a fault is one of; ``other`` if none."""
    links = [str(link) for link in fault["links"]]
    if fault["kind"] in _LINK_KINDS and len(links) == 1:
        return "links" if ":" in links[0] else "nic_ports"
    upper = {link.partition(":")[2] for link in links}
    is_t1 = len(upper) == 1 and upper.pop().startswith("t1-")
    return "t1s" if fault["kind"] in _SWITCH_KINDS and is_t1 else "other"


def _drops(
    samples: Sequence[_Sample], faults: Iterable[Mapping[str, Any]], end: int, kinds: Sequence[str], of: str
) -> dict[str, tuple[float, ...]]:
    passing = [
        (_kind_of(one), int(one["at"]), end if one["until"] is None else int(one["until"]))
        for one in faults
        if one["at"] > 0 or (one["until"] is not None and one["until"] < end)
    ]
    begins, ends = (np.array([fault[place] for fault in passing], dtype=np.int64) for place in (1, 2))
    free: list[float] = []
    within: dict[int, list[float]] = {}
    for sample in samples:
        touching = np.flatnonzero((begins < sample.end) & (ends > sample.begin)).tolist()
        if not touching:
            free.append(sample.rate)
        elif len(touching) == 1 and begins[touching[0]] <= sample.begin and ends[touching[0]] >= sample.end:
            within.setdefault(touching[0], []).append(sample.rate)
    usual = float(np.median(free)) if free else 0.0
    if not usual > 0:
        raise ExperimentError(f"{of} has no time in which the job runs and nothing fails", "Give it a longer duration.")
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number, rates in within.items():
        if (kind := passing[number][0]) in found:
            found[kind].append(max(0.0, round(1 - float(np.mean(rates)) / usual, _DIGITS)))
    for kind, drops in found.items():
        if not drops:
            raise ExperimentError(f"{of} does not show what {_MEANT[kind]} alone costs while it is down", _RUN_ANOTHER)
    return {kind: tuple(drops) for kind, drops in found.items()}
