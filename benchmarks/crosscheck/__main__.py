"""``python -m benchmarks.crosscheck PATH``: run every scenario in both simulators and print one table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crosscheck import htsim, ours
from benchmarks.crosscheck.htsim import Measured, Program, SkippedError, TooSlowError
from benchmarks.crosscheck.ours import Transport
from benchmarks.crosscheck.scenarios import SCENARIOS, Scenario
from mrc_lab.reports.statistics import statistic

SEEDS = (1, 2, 3)
FAR = 0.2  # a ratio further from 1 is marked
PAIRS: Sequence[tuple[Transport, Program]] = (
    (ours.UET, htsim.UEC),
    (ours.MRC, htsim.UEC),
    (ours.RC, htsim.ROCE),
    (ours.RC_DCQCN, htsim.DCQCN),
    (ours.MRC, htsim.EQDS),
    (ours.MRC, htsim.NDP),
)
HEAD = ("scenario", "ours", "htsim", "mean", "p99", "last", "sent again")


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over seeds: of completion times (us) the mean, the 99th percentile and the last; and packets sent again."""

    mean: float
    p99: float
    last: float
    sent_again: float

    @classmethod
    def of(cls, runs: Sequence[Measured]) -> Summary:
        """Of the runs of all seeds."""
        columns = [(_statistic("mean", run), _statistic("p99", run), max(run.times), run.sent_again) for run in runs]
        return cls(*(sum(column) / len(runs) for column in zip(*columns, strict=True)))


def _statistic(name: str, run: Measured) -> float:
    value = statistic(name, run.times)
    assert value is not None, "a scenario has flows"
    return value


def row(scenario: Scenario, transport: Transport, program: Program, one: Summary, other: Summary) -> tuple[str, ...]:
    """A row of the table: ratios, ours over htsim's, with ours and theirs behind."""
    return (
        scenario.name,
        transport.name,
        program.name,
        ratio(one.mean, other.mean),
        ratio(one.p99, other.p99),
        ratio(one.last, other.last),
        ratio(one.sent_again, other.sent_again),
    )


def ratio(one: float, other: float) -> str:
    """``1.03 (180 / 175)``, bold if far from 1; without a ratio where the other is nothing."""
    values = f"{one:,.0f} / {other:,.0f}"
    if not other:
        return f"= ({values})" if not one else f"**more** ({values})"
    found = one / other
    text = f"{found:.2f}"
    return f"{text if abs(found - 1) <= FAR else f'**{text}**'} ({values})"


def rows(folder: Path, chosen: Sequence[Scenario]) -> Iterator[tuple[str, ...]]:
    """Rows as they are measured; what is missing is said on standard error."""
    known: dict[tuple[str, str], Summary] = {}
    too_slow: set[Program] = set()
    skipped: set[str] = set()
    for scenario in chosen:
        for transport, program in PAIRS:
            if program in too_slow:
                continue
            try:
                other = Summary.of([htsim.measure(program, folder, scenario, transport.wire, seed) for seed in SEEDS])
            except SkippedError as why:
                said = f"skipped: {scenario.name}, {program.name}: {why}"
                if said not in skipped:
                    print(said, file=sys.stderr, flush=True)
                skipped.add(said)
                if isinstance(why, TooSlowError):
                    too_slow.add(program)
                continue
            key = (scenario.name, transport.name)
            if key not in known:
                known[key] = Summary.of([ours.measure(transport, scenario, seed) for seed in SEEDS])
            yield row(scenario, transport, program, known[key], other)


def main(arguments: Sequence[str]) -> int:
    """Print the table; the exit status is 2 without a folder with programs of htsim, 3 if a run of ours fails."""
    if not arguments or not (folder := Path(arguments[0])).is_dir() or not htsim.found(folder):
        print("usage: make cross-check HTSIM=PATH, of a folder with htsim_uec, htsim_roce ...", file=sys.stderr)
        return 2
    chosen = [scenario for scenario in SCENARIOS if not arguments[1:] or scenario.name in arguments[1:]]
    print(f"htsim in {folder}, {htsim.version(folder)}: {', '.join(htsim.found(folder))}")
    print(f"seeds {', '.join(map(str, SEEDS))}; times in us; ratios are ours / htsim, bold beyond {FAR:.0%}\n")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    try:
        for cells in rows(folder, chosen):
            print(f"| {' | '.join(cells)} |", flush=True)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
