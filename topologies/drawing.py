"""A picture of a fabric as SVG, with faults marked: one panel a plane, its tiers above each other.

Reports, diagrams of pages and notebooks show it; `mrc_lab/fabric/draw.py` is the drawing for terminals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from topologies.parts import LinkKind, Tier

if TYPE_CHECKING:
    from topologies.fabric import Fabric

_WIDTH, _GAP = 940, 16
_LETTER = 6.0  # width of one of a host's name
_RED, _LINE, _BOX = "#c62828", "#b7bcc4", "#1f5fa8"
_ROW, _TOP, _BOTTOM = 49.0, 28.0, 24.0  # between rows, above the first, below the last
_ROW_NAMED = 74.0  # with names of switches


def svg(fabric: Fabric, faults: Sequence[Iterable[str]] = (), *, names: bool = False) -> str:
    """The picture. `faults` are the links that each fault touches: they are red, with the fault's number beside them.

    With `names`, switches have their names beside them where there is room; otherwise only when pointed at.
    """
    per_row = min(fabric.planes, 4 if fabric.planes > 2 else fabric.planes)
    panel = (_WIDTH - _GAP * (per_row - 1)) / per_row
    rows = -(-fabric.planes // per_row)
    row = _ROW_NAMED if names else _ROW
    panel_height = _height(fabric, row)
    parts: list[str] = []
    marks: dict[str, list[int]] = {}
    for number, fault in enumerate(faults, 1):
        for link in fault:
            marks.setdefault(link, []).append(number)
    for plane in range(fabric.planes):
        x, y = plane % per_row * (panel + _GAP), plane // per_row * (panel_height + _GAP)
        parts.append(f'<g transform="translate({x:.1f},{y:.1f})">{_panel(fabric, plane, panel, row, marks)}</g>')
    height = rows * (panel_height + _GAP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="100%"'
    return head + ' font-family="sans-serif">' + "".join(parts) + "</svg>"


def _panel(fabric: Fabric, plane: int, width: float, row: float, marks: dict[str, list[int]]) -> str:
    place = _places(fabric, plane, width, row)
    out = [f'<rect width="{width:.1f}" height="{_height(fabric, row)}" rx="6" fill="#f6f7f9"/>']
    out.append(f'<text x="6" y="13" font-size="10" fill="#555">plane {plane}</text>')
    labels: list[str] = []
    for link in fabric.links:
        if link.plane != plane:
            continue
        (x1, y1), (x2, y2) = place[link.lower.node], place[link.upper.node]
        found = marks.get(link.name)
        style = f'stroke="{_RED}" stroke-width="2"' if found else f'stroke="{_LINE}" stroke-width="0.6"'
        line = (
            f'<line x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}" {style}><title>{escape(link.name)}</title></line>'
        )
        (labels if found else out).append(line)
        if found:
            near = 0.35 if link.kind is LinkKind.NIC_T0 else 0.5
            text = ",".join(map(str, found[:3])) + ("…" if len(found) > 3 else "")
            spot = f'x="{x1 + (x2 - x1) * near + 3:.1f}" y="{y1 + (y2 - y1) * near:.1f}"'
            labels.append(f'<text {spot} font-size="9" fill="{_RED}">{text}</text>')
    out += labels
    for name, (x, y) in place.items():
        size = 4.0 if name in fabric.nic_names else 5.0
        place_and_size = f'x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size}" height="{2 * size}"'
        out.append(f'<rect {place_and_size} rx="1.5" fill="{_BOX}"><title>{escape(name)}</title></rect>')
    if row == _ROW_NAMED:
        out += _switch_names(fabric, plane, width, place)
    if row == _ROW_NAMED and not _room_for_hosts(fabric, width):
        text = f"{fabric.nics[0].name} … {fabric.nics[-1].name}"
        out.append(
            f'<text x="{width - 6:.1f}" y="{place[fabric.nics[0].name][1] + 16}" font-size="10" text-anchor="end"'
            f' fill="#555">{text}</text>'
        )
    if _room_for_hosts(fabric, width):
        for nic in fabric.nics:
            x, y = place[nic.name]
            out.append(
                f'<text x="{x:.1f}" y="{y + 15}" font-size="9" text-anchor="middle" fill="#333">{nic.name}</text>'
            )
    return "".join(out)


def _switch_names(fabric: Fabric, plane: int, width: float, place: dict[str, tuple[float, float]]) -> Iterator[str]:
    """Names of the switches without their plane, to the right of each; of rows without room the first and the last."""
    halo = 'stroke="#f6f7f9" stroke-width="3" paint-order="stroke"'
    for names in filter(None, _rows(fabric, plane)[:-1]):
        if all(_fits(name, names, width) for name in names):
            for name in names:
                x, y = place[name]
                yield f'<text x="{x + 8:.1f}" y="{y + 4}" font-size="11" fill="#333" {halo}>{_short(name)}</text>'
        else:
            text = f"{_short(names[0])} … {_short(names[-1])}"
            spot = f'x="{width - 6:.1f}" y="{place[names[0]][1] - 9}" text-anchor="end"'
            yield f'<text {spot} font-size="10" fill="#555" {halo}>{text}</text>'


def _room_for_hosts(fabric: Fabric, width: float) -> bool:
    return len(fabric.nics) * (2 + _LETTER * max(map(len, fabric.nic_names))) <= width


def _short(name: str) -> str:
    """A switch's name without its plane."""
    return name.partition("@")[0]


def _fits(name: str, names: list[str], width: float) -> bool:
    """Whether there is room for a name beside its switch."""
    return width / len(names) > 20 + _LETTER * len(_short(name))


def _places(fabric: Fabric, plane: int, width: float, height: float) -> dict[str, tuple[float, float]]:
    return {
        name: (width * (n + 0.5) / len(names), _TOP + row * height)
        for row, names in enumerate(_rows(fabric, plane))
        for n, name in enumerate(names)
    }


def _rows(fabric: Fabric, plane: int) -> list[list[str]]:
    """Names from top to bottom; the T1s have a row even where there are none."""
    tiers = (Tier.T2, Tier.T1, Tier.T0) if fabric.t2_count else (Tier.T1, Tier.T0)
    switches = [[switch.name for switch in fabric.tier(tier, plane)] for tier in tiers]
    return [*switches, [nic.name for nic in fabric.nics]]


def _height(fabric: Fabric, row: float) -> float:
    return _TOP + (len(_rows(fabric, 0)) - 1) * row + _BOTTOM
