"""Designs, or jobs that lose time, side by side: as tables for a terminal, and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table

from mrc_common.units import show_rate, show_time
from mrc_lab.planning.clos import Design, Impossible, Request
from mrc_lab.planning.failure_rates import FailureRate, FailureRates
from mrc_lab.planning.job_losses import MonthLost
from mrc_lab.planning.parts import Parts

_Row = tuple[str, Callable[[Design], str]]


def as_values(request: Request, parts: Parts, designs: Sequence[Design], rest: Sequence[Impossible]) -> dict[str, Any]:
    """Everything, for ``--json``: speeds in b/s, power in W, shares from 0 to 1."""
    return {
        "request": asdict(request),
        "parts": asdict(parts),
        "designs": [
            {
                **asdict(design),
                "switches": design.switches,
                "switches_per_nic": design.switches / request.nics,
                "optics_per_nic": design.optics / request.nics,
                "power_w": parts.power(design),
                "cost": parts.cost(design),
                "currency": parts.currency,
            }
            for design in designs
        ],
        "impossible": [asdict(one) for one in rest],
    }


def show(request: Request, parts: Parts, designs: Sequence[Design]) -> Iterator[Table]:
    """What the designs take, and what a failed part costs each; one column a design."""
    yield _table("takes", designs, _needs(request, parts, designs))
    names = dict.fromkeys(loss.part for design in designs for loss in design.losses)
    order = ("NIC port", "T0-T1 link", "T1-T2 link", "T0", "T1", "T2")
    yield _table("loses when one fails", designs, [(name, _loss(name)) for name in order if name in names])


def _needs(request: Request, parts: Parts, designs: Sequence[Design]) -> Iterable[_Row]:
    yield "ports of a switch", lambda d: f"{d.radix} x {show_rate(d.link_speed)}"
    for tier in range(max(design.tiers for design in designs)):
        yield f"T{tier} switches", lambda d, tier=tier: f"{(d.t0, d.t1, d.t2)[tier]:,}"  # type: ignore[misc]
    yield "switches", lambda d: f"{d.switches:,}"
    yield "  a NIC", lambda d: f"{d.switches / request.nics:.4f}"
    yield "optics", lambda d: f"{d.optics:,}"
    yield "  a NIC", lambda d: f"{d.optics / request.nics:.2f}"
    yield "links", lambda d: f"{d.links:,}"
    first = next((d for d in designs if d.planes == 1), None)
    if first is not None and len(designs) > 1:
        yield f"switches / {first.name}", lambda d: f"{d.switches / first.switches:.3f}"
        yield f"optics / {first.name}", lambda d: f"{d.optics / first.optics:.3f}"
    yield "longest path, switches", lambda d: str(d.longest_path)
    yield "paths of a far pair", lambda d: f"{d.paths:,}"
    yield "NICs below a T0", lambda d: f"{d.neighbours:,}"
    yield "NICs at most", lambda d: f"{d.most_nics:,}"
    yield "power, kW", lambda d: f"{parts.power(d) / 1e3:,.1f}"
    yield f"cost, {parts.currency}", lambda d: f"{parts.cost(d):,.0f}"


def _loss(part: str) -> Callable[[Design], str]:
    def cell(design: Design) -> str:
        found = next((loss for loss in design.losses if loss.part == part), None)
        if found is None:
            return "-"
        nics = "1 NIC" if found.nics == 1 else f"{found.nics:,} NICs"
        return f"{_percent(found.share)} of {nics}"

    return cell


_PARTS = {"links": ("T0-T1 links", "a T0-T1 link"), "t1s": ("T1s", "a T1"), "nic_ports": ("NIC ports", "a NIC port")}


def losses_as_values(rates: FailureRates, losses: Sequence[MonthLost]) -> dict[str, Any]:
    """What jobs lose, for ``--json``: rates in failures a second, times in ns, shares from 0 to 1."""
    return {
        "failures": {name: asdict(rate) for name, rate in rates.given()},
        "jobs": [
            {**asdict(lost.result), "gpu_hours": lost.gpu_hours, "lost": dict(lost.by_kind), "lost_in_all": lost.lost}
            for lost in losses
        ],
    }


def losses_table(rates: FailureRates, losses: Sequence[MonthLost]) -> Table:
    """GPU hours that jobs lose a month, one column a job."""
    distinct = len({lost.result.transport for lost in losses}) == len(losses)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("", no_wrap=True)
    for job in (lost.result for lost in losses):
        name = job.transport if distinct else f"{job.transport}, {job.name}"
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("GPUs", *(f"{lost.result.gpus:,}" for lost in losses))
    for kind, _ in rates.given():
        drops = [lost.result.drops[kind] for lost in losses]
        seen = (f"{_percent(sum(shares) / len(shares))} ({len(shares)})" for shares in drops)
        table.add_row(f"slower while {_PARTS[kind][1]} is down (mean of)", *seen)
    for kind, rate in rates.given():
        hours = (f"{lost.by_kind[kind]:,.0f}" for lost in losses)
        table.add_row(f"GPU hours a month by {_PARTS[kind][0]} ({_often(rate)})", *hours)
    table.add_row("GPU hours a month in all", *(f"{lost.lost:,.0f}" for lost in losses))
    table.add_row("  of all GPU hours", *(_percent(lost.lost / lost.gpu_hours) for lost in losses))
    return table


def _often(rate: FailureRate) -> str:
    return f"{rate.a_month:,.{0 if rate.a_month >= 100 else 1}f} of {show_time(rate.down)}"


def _percent(share: float) -> str:
    return "all" if share == 1 else f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"


def _table(title: str, designs: Sequence[Design], rows: Iterable[_Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(title, no_wrap=True)
    for design in designs:
        table.add_column(design.name, justify="right", no_wrap=True)
    for name, cell in rows:
        table.add_row(name, *map(cell, designs))
    return table
