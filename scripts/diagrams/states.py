"""Diagrams of states: those of a queue pair and of a path, from the tables that the transport itself has."""

from __future__ import annotations

import textwrap

from mrc_host.transport.path import TRANSITIONS
from mrc_host.transport.states import NEXT, TAKES
from mrc_host.verbs_types import PathState, QpState
from scripts.diagrams.svg import QUIET, TEXT, arrow, box, panel, svg, text

_WIDTH, _ROW = 940, 15
_MEANING = {
    QpState.RESET: "as created",
    QpState.INIT: "profiles and hints",
    QpState.RTR: "ready to receive",
    QpState.RTS: "ready to send",
    QpState.ERROR: "requests are flushed",
}


def queue_pair() -> str:
    """The states of a queue pair, and the attributes that each step takes."""
    width, height, gap, top = 150, 52, 100, 20
    order = [QpState.RESET]
    while (following := NEXT.get(order[-1])) is not None:
        order.append(following)
    parts = [panel(_WIDTH, 290)]
    for number, state in enumerate(order):
        x = 20 + number * (width + gap)
        parts += box(x, top, width, height, state.name, (_MEANING[state],))
        if number:
            parts += arrow(x - gap, top + height / 2, x, top + height / 2)
            lines = textwrap.wrap(", ".join(TAKES[state]), 26)
            for row, line in enumerate(lines):
                parts.append(text(x - gap / 2, top + height + 26 + row * _ROW, line, TEXT, 12))
    x, y = _WIDTH / 2 - width / 2, 226
    parts += box(x, y, width, height, QpState.ERROR.name, (_MEANING[QpState.ERROR],))
    parts.append(text(x - 16, y + 30, "from every state, by a failure or on request", QUIET, 13, anchor="end"))
    parts.append(text(x + width + 16, y + 30, "from every state back to RESET", QUIET, 13, anchor="start"))
    return svg(_WIDTH, 290, parts)


_PLACES = {  # centres
    PathState.GOOD: (470, 60),
    PathState.SKIP: (130, 60),
    PathState.ASSUMED_BAD: (470, 270),
    PathState.DENIED: (810, 60),
}
_LABELS = {  # where the reasons of a change stand, and how they are aligned
    (PathState.GOOD, PathState.SKIP): (300, 42, "middle"),
    (PathState.SKIP, PathState.GOOD): (300, 90, "middle"),
    (PathState.GOOD, PathState.ASSUMED_BAD): (454, 165, "end"),
    (PathState.ASSUMED_BAD, PathState.GOOD): (486, 165, "start"),
    (PathState.SKIP, PathState.ASSUMED_BAD): (250, 200, "end"),
    (PathState.GOOD, PathState.DENIED): (640, 42, "middle"),
    (PathState.DENIED, PathState.GOOD): (640, 90, "middle"),
    (PathState.ASSUMED_BAD, PathState.DENIED): (650, 190, "start"),
}


def path() -> str:
    """The states of a path, and the reasons for each change."""
    half, tall = 80, 22
    parts = [panel(_WIDTH, 320)]
    for (old, new), reasons in TRANSITIONS.items():
        place = _LABELS.get((old, new))
        if place is None:  # a skipped value is of a good path, too: one arrow says it for both
            continue
        (x1, y1), (x2, y2) = _PLACES[old], _PLACES[new]
        if y1 == y2:
            side = -1 if x2 < x1 else 1
            shift = -8 if new is not PathState.GOOD else 8
            parts += arrow(x1 + side * half, y1 + shift, x2 - side * half, y2 + shift)
        elif x1 == x2:
            down = 1 if y2 > y1 else -1
            parts += arrow(x1 - 8 * down, y1 + down * tall, x2 - 8 * down, y2 - down * tall)
        else:
            down = 1 if y2 > y1 else -1
            parts += arrow(x1, y1 + down * tall, x2 + (half if x1 > x2 else -half), y2)
        x, y, anchor = place
        for row, line in enumerate(textwrap.wrap(", ".join(reason.value for reason in reasons), 22)):
            parts.append(text(x, y + row * _ROW, line, TEXT, 12, anchor=anchor))
    for state, (x, y) in _PLACES.items():
        parts += box(x - half, y - tall, 2 * half, 2 * tall, state.value)
    return svg(_WIDTH, 320, parts)
