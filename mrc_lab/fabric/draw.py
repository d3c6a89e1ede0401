"""A fabric as text of at most 80 columns: what ``mrc up --show`` prints before anything is brought up.

    fabric lab: 2 planes, 3 tiers, 2 pods, 20 switches, 8 hosts, 40 links
    planes 0 1
              t2-0 t2-1
               ║ 2 x 80 Mb/s and 20 us
      pod 0   t1-0 t1-1
               ║ 4 x 40 Mb/s
              t0-0 t0-1  h1..h4  (2 x 40 Mb/s down, 2 x 40 Mb/s up each)

Planes, pods and racks that are alike are drawn once; runs of names are written as ``h1..h16``.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from mrc_common.units import counted, show_rate, show_time
from topologies.fabric import Fabric, Link, LinkKind, Switch, Tier
from topologies.wiring import positions

WIDTH = 80
_INDENT = 10
_MOST_NAMED = 12  # missing links that are listed
_NUMBER = re.compile(r"(.*?)([0-9]+)")


def draw(fabric: Fabric) -> str:
    """The drawing, a line feed at the end."""
    expected = positions(fabric.planes, fabric.switches, fabric.nics, fabric.wiring)
    present = {link.name for link in fabric.links}
    missing = [name for name in expected if name not in present]
    lines = [f"fabric {fabric.name}: {fabric.in_words()}" + (f" ({len(missing)} missing)" if missing else "")]
    for planes, drawing in _alike(fabric):
        lines += [("plane " if len(planes) == 1 else "planes ") + _runs(map(str, planes)), *drawing]
    if fabric.kernel_switches:
        lines.append(f"Linux itself: {', '.join(switch.name for switch in fabric.kernel_switches)}")
    lines += _missing(missing)
    lines += _paths(fabric)
    return "\n".join(part for line in lines for part in _wrapped(line)) + "\n"


def _alike(fabric: Fabric) -> list[tuple[list[int], tuple[str, ...]]]:
    """Drawings of planes, each with the planes that look like it."""
    found: dict[tuple[str, ...], list[int]] = {}
    for plane in range(fabric.planes):
        found.setdefault(tuple(_plane(fabric, plane)), []).append(plane)
    return [(planes, drawing) for drawing, planes in found.items()]


def _plane(fabric: Fabric, plane: int) -> Iterator[str]:
    if fabric.t2_count:
        yield " " * _INDENT + _runs(switch.short_name for switch in fabric.tier(Tier.T2, plane))
    pods = [tuple(_pod(fabric, plane, pod)) for pod in range(fabric.pods)]
    for pod, lines in enumerate(pods):
        title = f"  pod {pod}".ljust(_INDENT) if fabric.t2_count else " " * _INDENT
        for number, line in enumerate(lines):
            is_title = line.strip() and not line.lstrip().startswith("║") and number <= 1 and title.strip()
            yield (title if is_title else " " * _INDENT) + line
            title = " " * _INDENT if is_title else title


def _pod(fabric: Fabric, plane: int, pod: int) -> Iterator[str]:
    t1s = [switch for switch in fabric.tier(Tier.T1, plane) if switch.pod == pod]
    t0s = [switch for switch in fabric.tier(Tier.T0, plane) if switch.pod == pod]
    above = [link for t1 in t1s for link in fabric.uplinks(t1.name).values()]
    if fabric.t2_count:
        yield f" ║ {_links(above)}"
    if t1s:
        yield _runs([t1.short_name for t1 in t1s])
        yield f" ║ {_links([link for t0 in t0s for link in fabric.uplinks(t0.name).values()])}"
    racks = [(t0.short_name, *_rack(fabric, t0)) for t0 in t0s]
    for what, group in groupby(racks, key=lambda rack: rack[2]):
        same = list(group)
        hosts = _runs(nic for _, nics, _ in same for nic in nics) or "no host"
        yield f"{_runs(name for name, _, _ in same)}  {hosts}  ({what}{' each' if len(same) > 1 else ''})"


def _rack(fabric: Fabric, t0: Switch) -> tuple[list[str], str]:
    """Hosts below a T0, and what it has links to, in words."""
    down = [link for link in fabric.links_of(t0.name) if link.kind is LinkKind.NIC_T0]
    up = list(fabric.uplinks(t0.name).values())
    words = f"{_links(down)} down" + (f", {_links(up)} up" if up else "")
    supply, demand = sum(link.rate_bps for link in up), sum(link.rate_bps for link in down)
    if up and demand > supply:
        words += f", {demand / supply:.3g}:1"
    return [nic.name for nic in fabric.nics_of(t0.index) if fabric.nic_link(nic, t0.plane)], words


def _links(links: Sequence[Link]) -> str:
    """Links by rate and delay: ``4 x 80 Mb/s and 20 us``."""
    kinds = Counter((link.rate_bps, link.delay_ns) for link in links)
    parts = [
        f"{count} x {show_rate(rate)}" + ("" if delay is None else f" and {show_time(delay)}")
        for (rate, delay), count in kinds.items()
    ]
    return " + ".join(parts) or "no links"


def _missing(names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        yield f"missing: {' '.join(names[:_MOST_NAMED])}{more}"


def _paths(fabric: Fabric) -> Iterator[str]:
    """Paths from the first host to the nearest and the farthest."""
    if len(fabric.nics) > 1:
        first = fabric.nics[0]
        for peer in dict.fromkeys((fabric.nics[1], fabric.nics[-1])):
            paths = fabric.paths(first, peer)
            over = {Tier.T0: "inside a rack", Tier.T1: "over T1s", Tier.T2: "over T2s"}[paths[0].turn]
            yield f"{first.name} > {peer.name}: {counted(len(paths), 'path')} {over}"


def _runs(names: Iterable[str]) -> str:
    """Names with runs of three or more written as ``h1..h16``."""
    parts: list[tuple[str, int]] = []
    for name in names:
        match = _NUMBER.fullmatch(name)
        assert match is not None, "names end with a number"
        parts.append((match[1], int(match[2])))
    found = []
    for _, group in groupby(enumerate(parts), key=lambda item: (item[1][0], item[1][1] - item[0])):
        run = [f"{prefix}{number}" for _, (prefix, number) in group]
        found += run if len(run) < 3 else [f"{run[0]}..{run[-1]}"]
    return " ".join(found)


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, drop_whitespace=True) if len(line) > WIDTH else [line]
