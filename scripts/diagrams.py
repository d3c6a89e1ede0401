"""Diagrams of the pages, drawn from what the tests check: ``python -m scripts.diagrams`` writes docs/diagrams.

Fabrics are drawn from the Fabric value, as ``mrc up --show FILE.svg`` does; an address from the paths of that fabric;
the house of rooms from the layers that import-linter enforces (pyproject.toml). A test sees that they are current.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

from mrc_lab.reports.topology import render
from topologies.addressing import nic_usid, switch_usid
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric
from topologies.loader import load_file
from topologies.paths import destination

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "diagrams"
_PANEL, _BOX, _TEXT, _QUIET, _EDGE = "#f6f7f9", "#1f5fa8", "#20242b", "#555b66", "#b7bcc4"
_EV = 0x402  # the path of docs/how-mrc-works-here.md


def fabric(file: str | None = None) -> str:
    """The fabric of a file in examples/, or that of the demo."""
    value = load_file(ROOT / "examples" / file) if file else multi_plane_clos()
    return str(render(value, (), names=True))


def rooms() -> str:
    """Layers of top-level packages, higher ones above: who may import whom."""
    width, row, gap = 940, 54, 12
    layers = _layers()
    height = len(layers) * (row + gap) + gap
    parts = [f'<rect width="{width}" height="{height}" rx="6" fill="{_PANEL}"/>']
    for number, names in enumerate(layers):
        y = gap + number * (row + gap)
        each = (width - gap * (len(names) + 1)) / len(names)
        for place, name in enumerate(names):
            x = gap + place * (each + gap)
            parts.append(f'<rect x="{x:.0f}" y="{y}" width="{each:.0f}" height="{row}" rx="4" fill="{_BOX}"/>')
            parts.append(_text(x + each / 2, y + 23, name, "#fff", 16, font_weight="bold"))
            parts.append(_text(x + each / 2, y + 42, _purpose(name, int(each / 6.4)), "#fff", 12))
    return _svg(width, height, parts)


def address() -> str:
    """The outer address of one path from h1 to h3 of the demo's fabric, uSID by uSID."""
    value = multi_plane_clos()
    near, far = value.nic("h1"), value.nic("h3")
    raw = destination(value, near, far).template.address(_EV)
    groups = [raw[at : at + 2].hex() for at in range(0, 16, 2)]
    names = _names_of_usids(value, _EV >> 10)
    width, cell, top = 940, 116, 44
    parts = [f'<rect width="{width}" height="130" rx="6" fill="{_PANEL}"/>']
    title = f"EV 0x{_EV:03x}, from h1 to h3: the outer destination address"
    parts.append(_text(14, 24, title, _QUIET, 13, anchor="start"))
    for number, group in enumerate(groups):
        x = 6 + number * cell
        known = names.get(int(group, 16), "") if number >= 2 else ""
        shape = f'x="{x + 4}" y="{top}" width="{cell - 8}" height="40" rx="4"'
        parts.append(f'<rect {shape} fill="{_BOX if known else "#fff"}" stroke="{_EDGE}"/>')
        parts.append(_text(x + cell / 2, top + 27, group, "#fff" if known else _QUIET, 19, font_family="monospace"))
        parts.append(_text(x + cell / 2, top + 62, known or ("block" if number < 2 else "empty"), _TEXT, 13))
    return _svg(width, 130, parts)


def _names_of_usids(value: Fabric, plane: int) -> dict[int, str]:
    """What each uSID of a plane leads to, on the way to h3."""
    switches = {switch_usid(switch): switch.name for switch in value.switches if switch.plane == plane}
    return {**switches, nic_usid(value.nic("h3"), plane): "h3"}


def _layers() -> list[list[str]]:
    """The layers of the contract between rooms."""
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'name = "Rooms import downwards"\ntype = "layers"\nlayers = \[(.*?)\]', text, re.DOTALL)
    assert found is not None
    return [layer.split(" | ") for layer in re.findall(r'"([^"]+)"', found[1])]


def _purpose(room: str, letters: int) -> str:
    """What a package's docstring begins with, as far as it fits."""
    text = (ROOT / room / "__init__.py").read_text()
    (first,) = re.findall(r'\A"""(.+?)(?:[.;:]? *(?:\n|"""))', text)
    return _shortened(first.partition(": ")[2] or first, letters)


def _shortened(text: str, letters: int) -> str:
    text = re.sub(r"`+", "", text)
    while len(text) > letters and re.search(r"[,;] ", text):
        text = re.split(r"[,;] (?=[^,;]*$)", text)[0]
    return text if len(text) <= letters else text[: letters - 1].rsplit(" ", 1)[0] + "…"


def _text(x: float, y: float, text: str, color: str, size: int, anchor: str = "middle", **style: str) -> str:
    """A line of text; `style` are attributes, such as font_family."""
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    where = f'x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text {where} fill="{color}"{attributes}>{escape(text)}</text>'


def _svg(width: int, height: int, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>"])


DIAGRAMS: Mapping[str, Callable[[], str]] = {
    "demo-fabric": fabric,
    "three-tiers": lambda: fabric("three_tiers.yaml"),
    "uneven": lambda: fabric("uneven.yaml"),
    "two-clusters": lambda: fabric("two_clusters.yaml"),
    "address": address,
    "rooms": rooms,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in DIAGRAMS.items():
        (FOLDER / f"{name}.svg").write_text(drawn() + "\n", "utf-8")
