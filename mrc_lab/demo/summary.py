"""The summary of a demo: what goes into ``summary.json``, the checks that decide its exit status, and the tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from mrc_lab.demo.metrics import FaultMetrics, RunMetrics, Spread
from mrc_lab.demo.record import RunRecord
from mrc_lab.demo.settings import DemoSettings
from topologies.fabric import LinkKind

WEIGHT_TOLERANCE = 1e-6
_TITLES = {"gloo": "gloo (TCP)", "roce": "RoCE", "mrc": "MRC"}


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """One run with its metrics; `weights_diff` is its largest difference from single-process training, if it ended."""

    record: RunRecord
    metrics: RunMetrics
    weights_diff: float | None
    same_bits: bool | None  # as single-process training that adds in the ring's order


def summarise(
    settings: DemoSettings, bring_up: Mapping[str, float], outcomes: Mapping[str, DemoOutcome], *, interrupted: bool
) -> dict[str, Any]:
    """The whole of ``summary.json``. Times are seconds; null stands for what never happened, see `notes`."""
    diffs = [outcome.weights_diff for outcome in outcomes.values()]
    known = [diff for diff in diffs if diff is not None]
    summary: dict[str, Any] = {
        "bring_up_s": bring_up.get("total_s"),
        "weights_max_abs_diff": max(known) if known and len(known) == len(diffs) else None,
        "wrong_bytes": sum(outcome.metrics.wrong_bytes for outcome in outcomes.values()),
        "verified_bytes": sum(outcome.metrics.verified_bytes for outcome in outcomes.values()),
        "interrupted": interrupted,
    }
    for transport in ("mrc", "roce"):
        outcome = outcomes.get(transport)
        summary[transport] = None if outcome is None else _transport(outcome)
    checks = run_checks(outcomes, interrupted=interrupted)
    summary["checks"] = checks
    summary["passed"] = all(checks.values())
    summary["notes"] = _notes(outcomes)
    summary["bring_up"] = dict(bring_up)
    summary["settings"] = dataclasses.asdict(settings) | {"results": str(settings.results)}
    return summary


def run_checks(outcomes: Mapping[str, DemoOutcome], *, interrupted: bool) -> dict[str, bool]:
    """Name of each check -> whether it holds."""
    both = [outcomes[name] for name in ("roce", "mrc") if name in outcomes]
    checks = {
        "both runs were made to the end": not interrupted and len(both) == 2 and all(o.record.complete for o in both),
        "no byte arrived wrong": bool(both)
        and all(o.metrics.wrong_bytes == 0 < o.metrics.verified_bytes for o in both),
        "all ranks had the same gradients": bool(both) and all(o.metrics.unequal_gradients == 0 for o in both),
        "weights equal those of one process": bool(both)
        and all(o.weights_diff is not None and o.weights_diff <= WEIGHT_TOLERANCE for o in both),
        "every link came back up": bool(both)
        and all([f.link_up_s is not None for f in o.metrics.faults] == [True, True] for o in both),
    }
    stalls = [_stall(outcomes, transport, LinkKind.T0_T1) for transport in ("mrc", "roce")]
    checks["MRC's stall at the T0-T1 cut is below RoCE's"] = (
        stalls[0] is not None and stalls[1] is not None and stalls[0] < stalls[1]
    )
    return checks


def _transport(outcome: DemoOutcome) -> dict[str, Any]:
    metrics = outcome.metrics
    cut = _fault(metrics, LinkKind.T0_T1)
    rest = dataclasses.asdict(metrics)
    return {
        "steps": rest.pop("steps"),
        "median_step_s": rest.pop("median_step_s"),
        "longest_stall_s": rest.pop("longest_stall_s"),
        "packets_lost": rest.pop("packets_lost"),
        "packets_retransmitted": rest.pop("packets_retransmitted"),
        "failover_time_s": cut.failover.largest if cut and cut.failover else None,
        "recovery_time_s": cut.recovery.largest if cut and cut.recovery and not cut.never_recovered else None,
        "completed": outcome.record.complete,
        "failures": list(outcome.record.failures),
        "weights_max_abs_diff": outcome.weights_diff,
        "same_bits_as_one_process": outcome.same_bits,
        **rest,
    }


def _notes(outcomes: Mapping[str, DemoOutcome]) -> list[str]:
    notes = [
        "failover_time_s: at the T0-T1 cut, from sending the first packet that was lost on a path until the NIC took"
        " the path out of use; the slowest path counts. recovery_time_s: from restoring that link until the NIC judged"
        " the last of these paths recovered. Both for each fault, with least and median, under faults.",
        "wrong_bytes: every chunk of every collective is compared by CRC-32 between the sender's and the receiver's"
        " memory, and known patterns are gathered and compared byte by byte before, during and after training.",
        "The links cut are those that carried most bytes of the RoCE run in its first steps, by the interfaces'"
        " counters; the MRC run has the same ones cut after the same steps.",
        "packets_lost counts what a requester judged lost; with RoCE each such judgement goes back to the oldest packet"
        " and sends all after it again.",
        "cpu_used_share is what the fabric and the job used of all cores, cpu_idle_share what nobody used, whatever"
        " else ran on the machine; with little idle, times say as much about the machine as about the transports.",
    ]
    roce = outcomes.get("roce")
    cut = _fault(roce.metrics, LinkKind.T0_T1) if roce else None
    if cut is not None and cut.failover is None:
        resumed = cut.resumed_after_link_up_s
        after = f" {resumed:.2f} s after the link was restored" if resumed is not None else " never again in this run"
        notes.append(
            "RoCE has no failover or recovery time (null): a queue pair keeps its one path, waits, and the next step"
            f" was complete{after}."
        )
    mrc = outcomes.get("mrc")
    cut = _fault(mrc.metrics, LinkKind.T0_T1) if mrc else None
    if cut is not None and cut.failover is None:
        notes.append("MRC has no failover or recovery time (null): no path that crosses the cut link went out of use.")
    elif cut is not None and cut.never_recovered:
        notes.append(
            f"MRC has no recovery time (null): {cut.never_recovered} paths did not recover before the next fault."
        )
    return notes


def _fault(metrics: RunMetrics, kind: LinkKind) -> FaultMetrics | None:
    return next((fault for fault in metrics.faults if fault.kind == kind.value), None)


def _stall(outcomes: Mapping[str, DemoOutcome], transport: str, kind: LinkKind) -> float | None:
    fault = _fault(outcomes[transport].metrics, kind) if transport in outcomes else None
    return fault.longest_stall_s if fault else None


# Tables


def print_summary(console: Console, summary: Mapping[str, Any], outcomes: Mapping[str, DemoOutcome]) -> None:
    """The summary for people."""
    names = [name for name in ("roce", "mrc") if name in outcomes]
    print_table(console, names, _rows([outcomes[name] for name in names]))
    bring_up = summary["bring_up_s"]
    if bring_up is not None:
        console.print(f"Bring-up of the fabric, programmed and verified: {bring_up:.2f} s", highlight=False)
    print_checks(console, summary["checks"])


def print_table(console: Console, names: Sequence[str], rows: Sequence[tuple[str, list[str]]]) -> None:
    """A column for each run named; an empty label starts a section."""
    table = Table(title="The same job and the same faults; medians", title_justify="left")
    table.add_column("")
    for name in names:
        table.add_column(_TITLES[name], justify="right")
    for label, cells in rows:
        if label:
            table.add_row(label, *cells)
        else:
            table.add_section()
    console.print(table)


def print_checks(console: Console, checks: Mapping[str, bool]) -> None:
    """A line for each."""
    for name, holds in checks.items():
        console.print(f"  {'ok ' if holds else 'NO '} {name}", highlight=False, style=None if holds else "bold red")


def _rows(outcomes: Sequence[DemoOutcome]) -> list[tuple[str, list[str]]]:
    """Rows of the table; an empty label starts a section."""
    metrics = [outcome.metrics for outcome in outcomes]
    rows: list[tuple[str, list[str]]] = [
        ("steps completed", [f"{f.steps}/{o.record.planned_steps}" for f, o in zip(metrics, outcomes, strict=True)]),
        ("run", [show_seconds(f.duration_s) for f in metrics]),
        ("step time, median", [show_seconds(f.median_step_s) for f in metrics]),
        ("longest stall", [show_seconds(f.longest_stall_s) for f in metrics]),
        ("packets lost / retransmitted", [f"{f.packets_lost} / {f.packets_retransmitted}" for f in metrics]),
        ("wrong / verified bytes", [f"{f.wrong_bytes} / {f.verified_bytes:,}" for f in metrics]),
        ("weights off one process by", [_number(o.weights_diff) for o in outcomes]),
        ("processor used / idle", [f"{_share(f.cpu_used_share)} / {_share(f.cpu_idle_share)}" for f in metrics]),
    ]
    return [*rows, *fault_sections(metrics, _fault_rows)]


def fault_sections(
    metrics: Sequence[RunMetrics],
    rows_of: Callable[[LinkKind, Sequence[FaultMetrics | None]], list[tuple[str, list[str]]]],
) -> list[tuple[str, list[str]]]:
    """A section for each fault: its link, when it was cut, and `rows_of` it."""
    rows: list[tuple[str, list[str]]] = []
    for kind, title in ((LinkKind.T0_T1, "T0-T1 link"), (LinkKind.NIC_T0, "NIC-T0 link")):
        faults = [_fault(f, kind) for f in metrics]
        link = next((fault.link for fault in faults if fault), None)
        if link is not None:
            rows += [("", []), (f"{title} {link} cut", [_at(fault) for fault in faults])]
            rows += rows_of(kind, faults)
    return rows


def step_rows(faults: Sequence[FaultMetrics | None]) -> list[tuple[str, list[str]]]:
    """Rows on the steps around one fault, a cell for each run."""
    return [
        ("  step time before", [_middle(f.step_before if f else None, "-") for f in faults]),
        ("  step time during", [_middle(f.step_during if f else None, "-") for f in faults]),
        ("  step time after", [_middle(f.step_after if f else None, "-") for f in faults]),
        ("  time lost", ["-" if f is None or f.lost_s is None else show_seconds(f.lost_s) for f in faults]),
        ("  longest stall", [show_seconds(f.longest_stall_s if f else None) for f in faults]),
    ]


def _fault_rows(kind: LinkKind, faults: Sequence[FaultMetrics | None]) -> list[tuple[str, list[str]]]:
    rows = step_rows(faults)
    if kind is LinkKind.NIC_T0:
        rows += [
            ("  cut to plane avoided", [_middle(f.port_down if f else None, "never") for f in faults]),
            ("  restored to plane in use", [_middle(f.port_up if f else None, "never") for f in faults]),
        ]
    if kind is LinkKind.T0_T1 or any(f.failover for f in faults if f):
        rows += [
            ("  failover time", [_middle(f.failover if f else None, "never") for f in faults]),
            ("  recovery time", [_middle(f.recovery if f else None, "never") for f in faults]),
        ]
    return rows


def show_seconds(value: float | None) -> str:
    """A time for people; ``never`` for None."""
    if value is None:
        return "never"
    if value < 0.1:
        return f"{value * 1000:.1f} ms"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1e}"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0%}"


def _at(fault: FaultMetrics | None) -> str:
    if fault is None:
        return "not reached"
    until = "never restored" if fault.link_up_s is None else f"to {fault.link_up_s:.1f} s"
    return f"{fault.link_down_s:.1f} {until}"


def _middle(value: Spread | None, absent: str) -> str:
    return absent if value is None else f"{show_seconds(value.median)} (max {show_seconds(value.largest)})"
