"""Names and patterns of faults become links, ends and directions."""

from __future__ import annotations

import pytest

from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import LinkEnd
from topologies.fault_targets import directions, link_of_port, links_of_switches

FABRIC = multi_plane_clos("places", planes=2, t0=2, t1=2, hosts=4)


@pytest.mark.parametrize(
    ("pattern", "towards", "expected"),
    [
        ("h1@p0", None, {("h1@p0", "h1", "t0-0@p0"), ("h1@p0", "t0-0@p0", "h1")}),
        ("h1@p0", "h*", {("h1@p0", "t0-0@p0", "h1")}),
        ("h[1,2]@p1", "t0-*", {("h1@p1", "h1", "t0-0@p1"), ("h2@p1", "h2", "t0-0@p1")}),
        ("t0-1:t1-0@p0", "t1-0@p0", {("t0-1:t1-0@p0", "t0-1@p0", "t1-0@p0")}),
    ],
)
def test_link_directions_are_resolved_from_names_and_patterns(
    pattern: str, towards: str | None, expected: set[tuple[str, str, str]]
) -> None:
    found = directions(FABRIC, pattern, towards)
    assert {(link.name, source.node, target.node) for link, source, target in found} == expected
    assert all({source, target} == {link.lower, link.upper} for link, source, target in found)


def test_links_between_selected_switches_are_listed_once() -> None:
    found = [link.name for link in links_of_switches(FABRIC, "t?-0@p0")]
    assert sorted(found) == sorted(set(found))
    assert set(found) == {"h1@p0", "h2@p0", "t0-0:t1-0@p0", "t0-0:t1-1@p0", "t0-1:t1-0@p0"}
    assert link_of_port(FABRIC, LinkEnd("h3", 1)).name == "h3@p1"


def test_unknown_targets_are_reported() -> None:
    with pytest.raises(FabricError, match="no link that matches 'h1@p0' leads to a node that matches 'h2'"):
        directions(FABRIC, "h1@p0", "h2")
    with pytest.raises(FabricError, match="no link that matches 'h9@p0'"):
        directions(FABRIC, "h9@p0")
    with pytest.raises(FabricError, match="there is no port 7 of h1 in fabric places"):
        link_of_port(FABRIC, LinkEnd("h1", 7))
    with pytest.raises(FabricError, match="no switch that matches 't9-0@p0'"):
        links_of_switches(FABRIC, "t9-0@p0")
