"""The page of ``mrc train-faults``: what each stack made of each case, what recoveries took, time lines; and as CSV.

Cases in which MRC is not the best come first. A stack does better if the job goes on, with more ranks, without a
reconfiguration, and if all that is equal, if the fault cost less; costs that differ by no more than the largest one of
``healthy``, where nothing fails, are equal.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mrc_common.units import counted
from mrc_lab.torch_jobs.train_faults.cases import REROUTE_NS, FaultCase, FaultMatrix
from mrc_lab.torch_jobs.train_faults.measures import RunMeasures, measure
from mrc_lab.torch_jobs.train_faults.timeline import timeline

SUBJECT = "mrc"
_DETAILS = ("detected", "aborted", "reconfigured", "stepped")


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One case: measures by stack, of those that were run; stacks `beside` the others are not compared with MRC."""

    case: FaultCase
    runs: Mapping[str, RunMeasures]
    noise: float = 0.0
    beside: frozenset[str] = frozenset()

    @property
    def compared(self) -> dict[str, RunMeasures]:
        """Measures of the stacks that are compared with one another."""
        return {name: run for name, run in self.runs.items() if name not in self.beside}

    @property
    def behind(self) -> bool:
        """Whether another stack did better than MRC."""
        own = self.runs.get(SUBJECT)
        return own is not None and any(self._better(other, own) for other in self.compared.values())

    @property
    def unnecessary(self) -> tuple[str, ...]:
        """The stacks that had to reconfigure where MRC had not."""
        own = self.runs.get(SUBJECT)
        if own is None or own.rounds:
            return ()
        return tuple(name for name, run in self.compared.items() if run.rounds)

    def _better(self, one: RunMeasures, other: RunMeasures) -> bool:
        rank, others = _rank(one), _rank(other)
        if rank != others or one.cost is None or other.cost is None:
            return rank < others
        return one.cost < other.cost - self.noise


def _rank(run: RunMeasures) -> tuple[bool, int, bool]:
    """The smaller the better."""
    return (not run.finished, -len(run.left), run.rounds > 0)


def rows_of(matrix: FaultMatrix, records: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[FaultRow]:
    """A row for each case that has a run, those where MRC is behind first."""
    found: dict[str, dict[str, RunMeasures]] = {}
    for case in matrix.cases:
        for stack in matrix.stacks:
            record = records.get((case.name, stack.name))
            if record is not None:
                found.setdefault(case.name, {})[stack.name] = measure(record)
    quiet = [run for case in matrix.cases if case.harmless for run in found.get(case.name, {}).values()]
    noise = max((abs(run.cost) for run in quiet if run.cost is not None), default=0.0)
    beside = frozenset(stack.name for stack in matrix.stacks if stack.beside)
    rows = [FaultRow(case, found[case.name], noise, beside) for case in matrix.cases if case.name in found]
    return sorted(rows, key=lambda row: not row.behind)


def headline(rows: Sequence[FaultRow]) -> str:
    """In how many cases MRC made a reconfiguration unnecessary, and how that comes about."""
    saved = [row for row in rows if row.unnecessary]
    text = f"MRC made reconfigurations unnecessary in {len(saved)} of {len(rows)} cases"
    names = dict.fromkeys(name for row in rows for name in row.runs)
    parts = []
    for name in sorted(names, key=SUBJECT.__eq__):
        ran = [row.runs[name] for row in rows if name in row.runs]
        ended = sum(not run.finished for run in ran)
        had_to = sum(run.rounds > 0 for run in ran)
        parts.append(f"{name} had to reconfigure in {had_to}" + (f", and {ended} of these jobs ended" if ended else ""))
    return f"**{text}**: {'; '.join(parts)}."


def markdown(
    matrix: FaultMatrix, rows: Sequence[FaultRow], records: Mapping[tuple[str, str], Mapping[str, Any]]
) -> str:
    """The whole page."""
    names = [stack.name for stack in matrix.stacks]
    noise = max((row.noise for row in rows), default=0.0)
    lines = [
        "# A training job under faults",
        "",
        headline(rows),
        "",
        f"MRC is not the best in {sum(row.behind for row in rows)} cases, which come first. What a fault cost is the"
        f" time by which steps after it took longer than the usual one; costs that differ by no more than {noise:.1f}"
        " s, the largest where nothing fails, count as equal.",
        "",
        f"| case | what fails | {' | '.join(names)} |",
        "|---" * (len(names) + 2) + "|",
        *(
            f"| {row.case.name} | {row.case.title} | "
            + " | ".join(outcome(row.runs[name]) if name in row.runs else "" for name in names)
            + " |"
            for row in rows
        ),
        "",
        *_conditions(matrix, records),
        "",
        *_recoveries(rows),
        "",
        "## Time lines",
    ]
    for row in rows:
        for name in row.runs:
            lines += ["", f"{row.case.name}, {name}:", "", "```text", *timeline(records[row.case.name, name]), "```"]
    return "\n".join(lines) + "\n"


def _recoveries(rows: Sequence[FaultRow]) -> list[str]:
    """What the parts of each recovery took, and by how much weights differ."""
    return [
        "## Recoveries",
        "",
        "Seconds from the fault until the last rank of those that went on had done it; *attempts* at a new group.",
        "",
        "| case | stack | detected | aborted | reconfigured | first step | attempts | steps lost | weights differ by |",
        "|---" * 9 + "|",
        *(
            f"| {row.case.name} | {name} | "
            + " | ".join(_seconds(getattr(run, part)) for part in _DETAILS)
            + f" | {run.rounds} | {run.steps_lost} | {_difference(run)} |"
            for row in rows
            for name, run in row.runs.items()
            if run.rounds
        ),
        "",
        f"Weights of runs without a recovery differ by at most {_most(rows)} from those of the uninterrupted job.",
    ]


def _conditions(matrix: FaultMatrix, records: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[str]:
    """What was run, as far as it is the same for all cases, and what each stack does."""
    settings = next(iter(records.values()))["settings"]
    networks = (
        f"`{name}`: {', '.join(f'{key} {value}' for key, value in sizes.items())}"
        for name, sizes in matrix.networks.items()
    )
    return [
        f"{settings['hosts']} ranks take {settings['steps']} steps of a small GPT in float64; the fault comes after"
        f" {settings['fault_step']} and stays. An operation may take {settings['operation_s']:g} s, and a recovery"
        f" {settings['recovery_s']:g} s. {REROUTE_NS / 1e9:g} s after a link has lost its carrier, switches take other"
        f" routes for TCP and RoCE. Networks are {'; '.join(networks)}.",
        "",
        *(f"- **{stack.name}** ({stack.network}): {stack.does}" for stack in matrix.stacks),
    ]


def outcome(run: RunMeasures) -> str:
    """How a run ended, in a few words."""
    if not run.finished:
        return f"ended after {counted(run.rounds, 'attempt')}" if run.rounds else "ended"
    cost = "" if run.cost is None else f"{run.cost:+.1f} s"
    if not run.rounds:
        return f"goes on, {cost}"
    again = f"{run.rounds} attempts" if run.rounds > 1 else "reconfigured"
    return f"{again}, {len(run.left)} ranks left, {cost}"


def tidy(rows: Sequence[FaultRow]) -> str:
    """A row for each case and stack, with a head; times in seconds."""
    stream = io.StringIO()
    columns = [name for name in RunMeasures.__dataclass_fields__ if name != "left"]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("case", "stack", "finished", "ranks_left", *columns))
    for row in rows:
        for name, run in row.runs.items():
            values = asdict(run)
            writer.writerow((row.case.name, name, run.finished, len(run.left), *(values[column] for column in columns)))
    return stream.getvalue()


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _difference(run: RunMeasures) -> str:
    return "-" if run.difference is None else "nothing" if run.difference == 0 else f"{run.difference:.1e}"


def _most(rows: Sequence[FaultRow]) -> str:
    known = [run.difference for row in rows for run in row.runs.values() if not run.rounds]
    return f"{max((value for value in known if value is not None), default=0.0):.1e}"
