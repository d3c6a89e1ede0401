"""Diagrams of fabrics, of an address, and of the rooms of the code."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.diagrams.svg import BOX, EDGE, QUIET, TEXT, panel, svg, text
from topologies import drawing
from topologies.addressing import nic_usid, switch_usid
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric
from topologies.loader import load_file
from topologies.paths import destination

ROOT = Path(__file__).resolve().parents[2]
_EV = 0x402  # the path of docs/how-mrc-works-here.md


def fabric(file: str | None = None) -> str:
    """The fabric of a file in examples/, or that of the demo."""
    value = load_file(ROOT / "examples" / file) if file else multi_plane_clos()
    return drawing.svg(value, names=True)


def rooms() -> str:
    """Annexes, and below them layers of top-level packages, higher ones above: who may import whom."""
    width, row, gap = 940, 54, 12
    layers = _layers()
    height = (1 + len(layers)) * (row + gap) + gap
    parts = [panel(width, height)]
    shape = f'x="{gap}" y="{gap}" width="{width - 2 * gap}" height="{row}" rx="4"'
    parts.append(f'<rect {shape} fill="#fff" stroke="{EDGE}" stroke-dasharray="6 4"/>')
    parts.append(text(width / 2, gap + 23, "annexes, which the core does not import", TEXT, 14))
    parts.append(text(width / 2, gap + 42, ", ".join(_annexes()), QUIET, 12))
    for number, names in enumerate(layers, 1):
        y = gap + number * (row + gap)
        each = (width - gap * (len(names) + 1)) / len(names)
        for place, name in enumerate(names):
            x = gap + place * (each + gap)
            parts.append(f'<rect x="{x:.0f}" y="{y}" width="{each:.0f}" height="{row}" rx="4" fill="{BOX}"/>')
            parts.append(text(x + each / 2, y + 23, name, "#fff", 16, font_weight="bold"))
            parts.append(text(x + each / 2, y + 42, _purpose(name, int(each / 6.4)), "#fff", 12))
    return svg(width, height, parts)


def address() -> str:
    """The outer address of one path from h1 to h3 of the demo's fabric, uSID by uSID."""
    value = multi_plane_clos()
    near, far = value.nic("h1"), value.nic("h3")
    raw = destination(value, near, far).template.address(_EV)
    groups = [raw[at : at + 2].hex() for at in range(0, 16, 2)]
    names = _names_of_usids(value, _EV >> 10)
    width, cell, top = 940, 116, 44
    parts = [panel(width, 130)]
    title = f"EV 0x{_EV:03x}, from h1 to h3: the outer destination address"
    parts.append(text(14, 24, title, QUIET, 13, anchor="start"))
    for number, group in enumerate(groups):
        x = 6 + number * cell
        known = names.get(int(group, 16), "") if number >= 2 else ""
        shape = f'x="{x + 4}" y="{top}" width="{cell - 8}" height="40" rx="4"'
        parts.append(f'<rect {shape} fill="{BOX if known else "#fff"}" stroke="{EDGE}"/>')
        parts.append(text(x + cell / 2, top + 27, group, "#fff" if known else QUIET, 19, font_family="monospace"))
        parts.append(text(x + cell / 2, top + 62, known or ("block" if number < 2 else "empty"), TEXT, 13))
    return svg(width, 130, parts)


def _names_of_usids(value: Fabric, plane: int) -> dict[int, str]:
    """What each uSID of a plane leads to, on the way to h3."""
    switches = {switch_usid(switch): switch.name for switch in value.switches if switch.plane == plane}
    return {**switches, nic_usid(value.nic("h3"), plane): "h3"}


def _layers() -> list[list[str]]:
    """The layers of the contract between rooms."""
    settings = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'name = "Rooms import downwards"\ntype = "layers"\nlayers = \[(.*?)\]', settings, re.DOTALL)
    assert found is not None
    return [layer.split(" | ") for layer in re.findall(r'"([^"]+)"', found[1])]


def _annexes() -> list[str]:
    """Names of the packages that the core may not import, from the contract about them."""
    settings = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'name = "The core imports no annex"\n.*?protected_modules = \[(.*?)\]', settings, re.DOTALL)
    assert found is not None
    return sorted(name.rpartition(".")[2] for name in re.findall(r'"([^"]+)"', found[1]))


def _purpose(room: str, letters: int) -> str:
    """What a package's docstring begins with, as far as it fits."""
    code = (ROOT / room / "__init__.py").read_text()
    (first,) = re.findall(r'\A"""(.+?)(?:[.;:]? *(?:\n|"""))', code)
    return _shortened(first.partition(": ")[2] or first, letters)


def _shortened(words: str, letters: int) -> str:
    words = re.sub(r"`+", "", words)
    while len(words) > letters and re.search(r"[,;] ", words):
        words = re.split(r"[,;] (?=[^,;]*$)", words)[0]
    return words if len(words) <= letters else words[: letters - 1].rsplit(" ", 1)[0] + "…"
