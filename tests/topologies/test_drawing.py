"""The picture of a fabric has all of its parts, and notebooks show it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from topologies import fabric as fabric_module
from topologies.clos import multi_plane_clos
from topologies.drawing import svg


@pytest.mark.parametrize(("planes", "t0", "t1", "hosts"), [(1, 1, 0, 1), (2, 2, 4, 4), (8, 2, 16, 64)])
def test_the_fabric_drawing_has_every_part_and_marks_faults(planes: int, t0: int, t1: int, hosts: int):
    fabric = multi_plane_clos(planes=planes, t0=t0, t1=t1, hosts=hosts)
    root = ElementTree.fromstring(svg(fabric, [("h1@p0",)]))
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in root.iter(f"{space}title")]
    assert sorted(set(titles)) == sorted(
        {link.name for link in fabric.links} | {switch.name for switch in fabric.switches} | set(fabric.nic_names)
    )
    red = [line for line in root.iter(f"{space}line") if line.get("stroke") == "#c62828"]
    assert [line.find(f"{space}title").text for line in red] == ["h1@p0"]


@pytest.mark.parametrize(("planes", "t0", "t1", "hosts"), [(1, 1, 0, 1), (2, 2, 4, 4), (4, 8, 16, 32), (8, 2, 16, 64)])
def test_a_fabric_drawn_with_names_names_every_row(planes: int, t0: int, t1: int, hosts: int):
    root = ElementTree.fromstring(svg(multi_plane_clos(planes=planes, t0=t0, t1=t1, hosts=hosts), names=True))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for first, last in (("t0-0", f"t0-{t0 - 1}"), ("t1-0", f"t1-{t1 - 1}"), ("h1", f"h{hosts}")):
        if first != "t1-0" or t1:
            found = texts.count(f"{first} … {last}") + texts.count(first)
            assert found == planes, first


def test_a_fabric_is_one_short_line():
    """8 planes of 2 T0s and 16 T1s; 64 hosts with a port in each, and an uplink from each T0 to each T1."""
    assert repr(multi_plane_clos(planes=8, t0=2, t1=16, hosts=64)) == (
        "<Fabric demo: 8 planes, 2 tiers, 144 switches, 64 hosts, 768 links>"
    )


def test_a_notebook_shows_the_drawing(monkeypatch: pytest.MonkeyPatch):
    fabric = multi_plane_clos(planes=2, t0=2, t1=4, hosts=4)
    assert fabric._repr_svg_() == svg(fabric, names=True)
    monkeypatch.setattr(fabric_module, "MOST_DRAWN", 23)
    assert fabric._repr_svg_() is None, "of 24 links"
