"""The key ``published`` of a file: values and points read, the package's own looked up, all of it checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import suggest
from mrc_common.units import parse_size, parse_time
from mrc_lab import published as package_list
from mrc_lab.experiments.files.checks import build_fabric, check_selection, parse_value
from mrc_lab.experiments.files.host_names import select_hosts
from mrc_lab.experiments.files.metric_names import CURVES, METRICS
from mrc_lab.experiments.files.model import (
    Case,
    PublishedCurve,
    PublishedNumber,
    PublishedPart,
    Selection,
)
from mrc_lab.experiments.files.workloads import Collective, Replayed, Training, Workload
from mrc_lab.published import Curve, Number
from topologies.errors import FabricError
from topologies.name_patterns import matches, select


def resolve_published(part: PublishedPart, cases: tuple[Case, ...], place: Value) -> PublishedPart:
    """The part with its numbers and curves read; FileError when one does not fit its metric or the cases."""
    members = place.items() if part.numbers or part.curves else {}
    numbers = tuple(
        _resolve_number(number, cases, where)
        for number, where in zip(part.numbers, _elements(members, "numbers"), strict=True)
    )
    curves = tuple(
        _resolve_curve(curve, cases, where)
        for curve, where in zip(part.curves, _elements(members, "curves"), strict=True)
    )
    return PublishedPart(numbers, curves)


def _elements(members: Mapping[str, Value], name: str) -> Iterator[Value]:
    return members[name].elements() if name in members else iter(())


def cases_by_size(cases: tuple[Case, ...], of: Selection, ranks: int | None) -> dict[int, Case]:
    """Cases whose name matches the variant of a selection, a pattern, by message size (of its tenant) in bytes.

    With `ranks` it is the size at which that many ranks take steps of the same size, bytes over ranks. Of two cases of
    one size the first counts.
    """
    found: dict[int, Case] = {}
    for case in cases:
        tenant = case.tenant(of.tenant)
        if tenant is not None and matches(case.name, of.variant or "*"):
            found.setdefault(_size(case, tenant.workload, ranks), case)
    return found


def _size(case: Case, load: Workload, ranks: int | None) -> int:
    if isinstance(load, Training):
        return sum(load.gradients)
    if isinstance(load, Replayed):
        return load.source.schedule.sent_bytes()
    if not isinstance(load, Collective):
        return load.message
    if ranks is None:
        return load.bytes
    return load.bytes * ranks // len(select_hosts(load.hosts, build_fabric(case.fabric)))


def _resolve_number(number: PublishedNumber, cases: tuple[Case, ...], place: Value) -> PublishedNumber:
    given = [name for name in ("id", "value", "flows", "sizes") if name in place.items()]
    if len(given) != 1:
        raise place.error("needs one of id, value, flows, or sizes with values")
    numbers = _listed(number, place) if number.id else tuple(_own(number, place))
    if any(one.unit != number.unit for one in numbers):
        raise place.error(f"{number.id} is a {numbers[0].unit}, but what it is compared with is a {number.unit}")
    if numbers[0].place is not None and number.metric != "throughput":
        raise place.error("values of flows are compared with throughput")
    _check_cases(number.of, number.metric, cases, place, sizes=numbers[0].size is not None)
    if number.against is not None:
        _check_cases(number.against, number.metric, cases, place, sizes=numbers[0].size is not None)
    return replace(number, numbers=numbers)


def _check_cases(selection: Selection, metric: str, cases: tuple[Case, ...], place: Value, *, sizes: bool) -> None:
    if not sizes or len(cases) == 1:
        check_selection(selection, metric, cases, place)
        return
    try:
        meant = select([case.name for case in cases], selection.variant or "*")
    except FabricError as error:
        raise place.error(str(error)) from None
    matching = [case for case in cases if case.name in meant]
    if not matching:
        raise place.error(f"no variant is called {selection.variant}; there are {', '.join(c.name for c in cases)}")
    for case in matching:
        check_selection(replace(selection, variant=case.name), metric, cases, place)


def _listed(number: PublishedNumber, place: Value) -> tuple[Number, ...]:
    entries = package_list.load().entries
    if number.id not in entries:
        raise place.items()["id"].error(
            f"there is no published number {number.id}; {suggest(number.id, list(entries))}"
        )
    return entries[number.id]


def _own(number: PublishedNumber, place: Value) -> Iterator[Number]:
    """Numbers that the file itself gives."""
    members = place.items()
    name = number.title or number.metric.replace("_", " ")

    def one(suffix: str, text: str, key: str, *, size: int | None = None, rank: int | None = None) -> Number:
        value = parse_value(text, number.unit, members[key])
        what = name if not suffix else f"{name}, {suffix}"
        return Number(what, "", what, value, number.unit, number.certainty, number.bound, size=size, place=rank)

    if number.sizes:
        if len(number.sizes) != len(number.values):
            raise place.error(f"there are {len(number.sizes)} sizes and {len(number.values)} values")
        words = [value.text() for value in members["sizes"].elements()]
        for word, size, text in zip(words, number.sizes, number.values, strict=True):
            yield one(word, text, "values", size=size)
    elif number.flows:
        for rank, text in enumerate(number.flows, 1):
            yield one(f"{rank} of {len(number.flows)} from the slowest", text, "flows", rank=rank)
    else:
        yield one("", number.value or "", "value")


def _resolve_curve(curve: PublishedCurve, cases: tuple[Case, ...], place: Value) -> PublishedCurve:
    known = package_list.curves()
    if bool(curve.id) == bool(curve.points):
        raise place.error("needs either id or points")
    if curve.id and curve.id not in known:
        raise place.items()["id"].error(f"there is no published curve {curve.id}; {suggest(curve.id, list(known))}")
    found = known[curve.id] if curve.id else _own_curve(curve, place)
    if found.over == "time" and curve.metric not in CURVES:
        raise place.error(f"{curve.metric} cannot be drawn over time; {', '.join(CURVES)} can")
    if found.over == "time" and [first for first, _ in curve.moments] != sorted({first for first, _ in curve.moments}):
        raise place.error("published times of moments must increase")
    _check_cases(curve.of, curve.metric, cases, place, sizes=found.over == "size")
    return replace(curve, curve=found)


def _own_curve(curve: PublishedCurve, place: Value) -> Curve:
    unit = METRICS[curve.metric]
    points = []
    for pair in place.items()["points"].elements():
        where, value = pair.elements()  # two: PairOf has read them
        try:
            x = float(parse_time(where.text()) if curve.over == "time" else parse_size(where.text()))
        except ValueError as error:
            raise where.error(str(error)) from None
        points.append((x, parse_value(value.text(), unit, value)))
    if sorted(x for x, _ in points) != [x for x, _ in points]:
        raise place.items()["points"].error("points must stand in the order of their times or sizes")
    return Curve("", curve.title or curve.metric, curve.certainty, curve.over, unit, tuple(points))


__all__ = ["cases_by_size", "resolve_published"]
