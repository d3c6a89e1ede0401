"""Elements of the diagrams: text, boxes and arrows, in the colours of the pages."""

from __future__ import annotations

import math
from html import escape

PANEL, BOX, TEXT, QUIET, EDGE, LOSS = "#f6f7f9", "#1f5fa8", "#20242b", "#555b66", "#b7bcc4", "#b3261e"
_HEAD = 7  # length of an arrow's head


def panel(width: int, height: int) -> str:
    """The background of a diagram."""
    return f'<rect width="{width}" height="{height}" rx="6" fill="{PANEL}"/>'


def text(x: float, y: float, words: str, color: str, size: int, anchor: str = "middle", **style: str) -> str:
    """A line of text; `style` are attributes, such as font_family."""
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    where = f'x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text {where} fill="{color}"{attributes}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, title: str, lines: tuple[str, ...] = ()) -> list[str]:
    """A box with a title and smaller lines below it."""
    parts = [f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="4" fill="{BOX}"/>']
    top = y + height / 2 + 5 - 8 * len(lines)
    parts.append(text(x + width / 2, top, title, "#fff", 15, font_weight="bold"))
    parts += [text(x + width / 2, top + 17 * n, line, "#fff", 12) for n, line in enumerate(lines, 1)]
    return parts


def arrow(x1: float, y1: float, x2: float, y2: float, color: str = QUIET, dashed: bool = False) -> list[str]:
    """A straight arrow to the second point."""
    angle = math.atan2(y2 - y1, x2 - x1)
    sides = [(x2 - _HEAD * math.cos(angle + side), y2 - _HEAD * math.sin(angle + side)) for side in (-0.4, 0.4)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(x2, y2), *sides])
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    line = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"{dash}/>'
    return [line, f'<polygon points="{points}" fill="{color}"/>']


def svg(width: int, height: int, parts: list[str]) -> str:
    """The file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>"])
