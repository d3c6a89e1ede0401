"""Results of benchmarks by commit, so that a loss of speed is seen.

With ``--history`` each run of a benchmark adds a line of JSON to `results/bench/history.jsonl`: the commit, whether the
tree had changes on top of it, the machine, and every measurement. Then it prints each measurement beside that of the
tree measured before on the same machine. Where a tree was measured several times, the median stands for it: one run on
a shared machine scatters by a tenth and more. A change is marked when the value and its ratio have both changed: the
value alone also changes with the load of the machine, and a ratio also with what it compares with.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.report import Measurement
from mrc_common import children

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "results" / "bench" / "history.jsonl"
NOTABLE = 0.1
"""Least relative change that is marked."""
_HIGHER_IS_BETTER = ("packets/s", "calls/s", "faults", "trials", "names")
_SIZES = ("links", "processes")  # of what is measured: neither better nor worse


class HistoryError(Exception):
    """The history cannot be read or written."""


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One run: what was measured, of which commit (`changed`: with uncommitted changes), on which machine, when (s)."""

    commit: str
    changed: bool
    machine: str
    time: float
    measurements: tuple[Measurement, ...]

    @property
    def tree(self) -> str:
        """The commit, with a plus sign for uncommitted changes."""
        return self.commit + "+" * self.changed


@dataclass(frozen=True, slots=True)
class Change:
    """A measurement of two trees. `gain` is relative, positive for better; None for what is neither."""

    name: str
    unit: str
    before: float
    now: float
    gain: float | None

    @property
    def mark(self) -> str:
        """``better`` or ``worse`` for a change that is notable."""
        if self.gain is None or abs(self.gain) < NOTABLE:
            return ""
        return "better" if self.gain > 0 else "worse"


def this_run(measurements: Iterable[Measurement]) -> BenchmarkRun:
    """A run of this tree, now. HistoryError without git."""
    commit = _git("rev-parse", "--short=10", "HEAD").strip()
    changed = bool(_git("status", "--porcelain").strip())
    return BenchmarkRun(commit, changed, _machine(), round(time.time(), 3), tuple(measurements))


def keep(run: BenchmarkRun, file: Path) -> None:
    """Add the run to the file, which belongs to the owner of the sources also when root measures."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(run)) + "\n")
        if os.geteuid() == 0:
            owner = ROOT.stat()
            for path in (file, file.parent):
                os.chown(path, owner.st_uid, owner.st_gid)
    except OSError as error:
        raise HistoryError(f"{file} cannot be written: {error.strerror}") from None


def kept(file: Path) -> list[BenchmarkRun]:
    """All runs of the file, the oldest first. HistoryError with the line for what is none."""
    try:
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(f"{file} cannot be read: {error}") from None
    return [_read(line, f"{file}, line {number}") for number, line in enumerate(lines, 1)]


def _read(line: str, where: str) -> BenchmarkRun:
    try:
        fields = json.loads(line)
        measured = tuple(Measurement(**each) for each in fields.pop("measurements"))
        numbers = [number for each in measured for number in (each.value, each.ratio)]
        if any(not isinstance(number, int | float | None) for number in numbers):
            raise TypeError
        return BenchmarkRun(**fields, measurements=measured)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise HistoryError(f"{where}: no result of a benchmark; remove the line") from None


def changes(runs: Sequence[BenchmarkRun]) -> Iterator[Change]:
    """The last run's measurements beside those of the latest other tree that has them, on the same machine."""
    last = runs[-1]
    here = [run for run in runs if run.machine == last.machine]
    for measurement in last.measurements:
        name = measurement.name
        trees = [run.tree for run in here if _measured(run, name) and run.tree != last.tree]
        if not trees:
            continue
        before, now = (
            [found for run in here if run.tree == tree and (found := _measured(run, name))]
            for tree in (trees[-1], last.tree)
        )
        values = _medians(before, now, "value")
        gains = [_gain(values), _gain(_medians(before, now, "ratio"))]
        known = [gain for gain in gains if gain is not None]
        gain = min(known, key=abs) if known and len({each > 0 for each in known}) == 1 else 0.0
        if measurement.unit in _SIZES:
            yield Change(name, measurement.unit, *values, None)
        else:
            sign = 1 if measurement.unit in _HIGHER_IS_BETTER else -1
            yield Change(name, measurement.unit, *values, sign * gain)


def _measured(run: BenchmarkRun, name: str) -> Measurement | None:
    return next((each for each in run.measurements if each.name == name), None)


def _medians(before: Iterable[Measurement], now: Iterable[Measurement], field: str) -> tuple[float, float]:
    """Medians of a field in both; NaN where it is absent."""
    found = ([each for one in measured if (each := getattr(one, field)) is not None] for measured in (before, now))
    first, second = (statistics.median(values) if values else math.nan for values in found)
    return first, second


def _gain(values: tuple[float, float]) -> float | None:
    before, now = values
    return None if math.isnan(before + now) or not before else (now - before) / abs(before)


def _machine() -> str:
    cpu = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        cpu = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{os.cpu_count()} x {cpu or platform.machine()}"


def _git(*arguments: str) -> str:
    # safe.directory: with sudo the tree belongs to somebody else than root.
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    try:
        done = children.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        raise HistoryError(f"--history needs git, to know the commit: {detail.strip().splitlines()[-1]}") from None
    return str(done.stdout)
