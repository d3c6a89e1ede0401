"""Diagrams of the whole: the concepts and how they depend on each other, and the processes of an emulated fabric."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.diagrams.svg import PANEL, TEXT, arrow, box, panel, svg, text

_WIDTH = 940
_OUTLINED = {"paint_order": "stroke", "stroke": PANEL, "stroke_width": "4"}  # legible where it crosses an arrow


@dataclass(frozen=True, slots=True)
class _Box:
    """A box by its left upper corner, and the boxes to which its arrows lead, with a word for each."""

    x: int
    y: int
    width: int
    title: str
    lines: tuple[str, ...] = ()
    to: tuple[tuple[str, str], ...] = ()

    @property
    def height(self) -> int:
        return 36 + 17 * len(self.lines)


_CONCEPTS = {
    "experiment": _Box(
        20, 20, 420, "experiment file", ("workload, faults, what to measure",), (("backend", "is run on"),)
    ),
    "fabric": _Box(
        500,
        20,
        420,
        "Fabric",
        ("planes, tiers, switches, links, addresses",),
        (("entries", ""), ("paths", ""), ("backend", "is wired by")),
    ),
    "backend": _Box(
        20,
        140,
        420,
        "backend",
        ("emulation: namespaces, real time", "simulation: one process, virtual time"),
        (("nic", "drives"), ("switch", "drives"), ("faults", "drives")),
    ),
    "entries": _Box(500, 140, 200, "table entries", ("routes by uSID",), (("switch", "tell"),)),
    "paths": _Box(720, 140, 200, "path plans", ("an entropy value", "for each path"), (("nic", "are the choices of"),)),
    "nic": _Box(680, 290, 240, "NIC", ("queue pairs; chooses a path", "for every packet"), (("switch", "frames"),)),
    "switch": _Box(350, 290, 250, "switch", ("runs the P4 program; forwards", "along the uSIDs of the packet")),
    "faults": _Box(
        20, 290, 250, "fault engine", ("links down, loss, delay,", "blackholes, flaps"), (("switch", "breaks"),)
    ),
}
_PROCESSES = {
    "application": _Box(20, 20, 220, "application", ("in a host; verbs",), (("agent", "UNIX socket"),)),
    "agent": _Box(20, 150, 220, "agent", ("one a host; runs its NIC",), (("switch", "veth links"),)),
    "mrc": _Box(690, 20, 230, "mrc, prompt, page", ("what you type and click",), (("controller", "gRPC"),)),
    "controller": _Box(
        690,
        150,
        230,
        "controller",
        ("routes, faults, path map",),
        (("switch", "P4Runtime"), ("agent", "probes, counters")),
    ),
    "switch": _Box(330, 270, 280, "switch process", ("all switches, or one each",)),
}


def concepts() -> str:
    """The ideas of the project on one page."""
    return _drawn(_CONCEPTS, 380)


def processes() -> str:
    """The processes of an emulated fabric, and what they speak."""
    return _drawn(_PROCESSES, 345)


def _drawn(boxes: dict[str, _Box], height: int) -> str:
    parts = [panel(_WIDTH, height)]
    for start in boxes.values():
        for name, word in start.to:
            end = boxes[name]
            (x1, y1), (x2, y2) = _ends(start, end)
            parts += arrow(x1, y1, x2, y2)
            if word:
                parts.append(
                    text(
                        (x1 + x2) / 2,
                        (y1 + y2) / 2 - 5,
                        word,
                        TEXT,
                        12,
                        paint_order="stroke",
                        stroke="#f6f7f9",
                        stroke_width="4",
                    )
                )
    for each in boxes.values():
        parts += box(each.x, each.y, each.width, each.height, each.title, each.lines)
    return svg(_WIDTH, height, parts)


def _ends(start: _Box, end: _Box) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where an arrow leaves a box and where it reaches the other: straight where both overlap, else at the middle."""
    if start.y == end.y:
        y = start.y + start.height / 2
        return ((start.x, y), (end.x + end.width, y)) if start.x > end.x else ((start.x + start.width, y), (end.x, y))
    left, right = max(start.x, end.x), min(start.x + start.width, end.x + end.width)
    if right - left > 40:
        x1 = x2 = (left + right) / 2
    else:
        x1, x2 = start.x + start.width / 2, end.x + end.width / 2
    down = end.y > start.y
    return (x1, start.y + (start.height if down else 0)), (x2, end.y + (0 if down else end.height))
