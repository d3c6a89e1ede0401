from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest

from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import Fabric, Link, LinkEnd, LinkKind, Switch


@pytest.fixture
def fabric() -> Fabric:
    return multi_plane_clos("demo", planes=2, t0=2, t1=4, hosts=4)


def test_fabrics_are_immutable_values(fabric: Fabric) -> None:
    again = multi_plane_clos("demo", planes=2, t0=2, t1=4, hosts=4)
    assert fabric == again
    assert hash(fabric) == hash(again)
    with pytest.raises(dataclasses.FrozenInstanceError):
        fabric.planes = 3  # type: ignore[misc]


def test_links_are_found_by_name_in_either_order(fabric: Fabric) -> None:
    link = fabric.link("t0-1:t1-3@p1")
    assert link.kind is LinkKind.T0_T1
    assert (link.lower, link.upper) == (LinkEnd("t0-1@p1", 6), LinkEnd("t1-3@p1", 2))
    assert fabric.link("t1-3:t0-1@p1") is link
    assert fabric.link("h4@p0").switch_end == LinkEnd("t0-1@p0", 2)
    assert fabric.link_at(link.upper) is link
    assert fabric.link_at(LinkEnd("t0-0@p0", 99)) is None


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("t0-0:t1-*@p1", ["t0-0:t1-0@p1", "t0-0:t1-1@p1", "t0-0:t1-2@p1", "t0-0:t1-3@p1"]),
        ("t1-2:t0-*@p0", ["t0-0:t1-2@p0", "t0-1:t1-2@p0"]),
        ("h?@p1", ["h1@p1", "h2@p1", "h3@p1", "h4@p1"]),
        ("h[1,3]@p*", ["h1@p0", "h3@p0", "h1@p1", "h3@p1"]),
        ("h2@p0", ["h2@p0"]),
    ],
)
def test_patterns_match_links(fabric: Fabric, pattern: str, names: list[str]) -> None:
    assert [link.name for link in fabric.find_links(pattern)] == names


def test_patterns_match_switches(fabric: Fabric) -> None:
    assert [switch.name for switch in fabric.find_switches("t1-[0,2]@p1")] == ["t1-0@p1", "t1-2@p1"]


@pytest.mark.parametrize(
    ("look_up", "message"),
    [
        (lambda f: f.find_links("t0-1:t1-7@p0"), "no link that matches 't0-1:t1-7@p0': did you mean t0-1:t1-"),
        (lambda f: f.link("h9@p0"), "no link that matches 'h9@p0': did you mean h"),
        (lambda f: f.switch("t2-0@p0"), "no switch that matches 't2-0@p0'"),
        (lambda f: f.find_switches("*@p7"), "no switch that matches '*@p7'"),
        (lambda f: f.nic("host1"), "no NIC that matches 'host1'"),
        (lambda f: f.nic("h*"), "'h*' is a pattern, and here one NIC is meant: write its name, as in h1"),
    ],
)
def test_unknown_names_are_reported_with_a_hint(
    fabric: Fabric, look_up: Callable[[Fabric], object], message: str
) -> None:
    with pytest.raises(FabricError) as raised:
        look_up(fabric)
    assert message in str(raised.value)


def test_links_of_a_node_are_listed(fabric: Fabric) -> None:
    assert [link.name for link in fabric.links_of("h1")] == ["h1@p0", "h1@p1"]
    assert len(list(fabric.links_of("t0-0@p0"))) == 6
    assert len(list(fabric.links_of("t1-0@p0"))) == 2


def _change(fabric: Fabric, rng: random.Random) -> Fabric:
    """A fabric with one thing about its wiring changed."""
    kind = rng.choice(["drop link", "swap links", "rename", "cross wires", "drop switch", "port", "nic", "plane"])
    links, switches, nics = list(fabric.links), list(fabric.switches), list(fabric.nics)
    number = rng.randrange(len(links))
    link: Link = links[number]
    at = rng.randrange(len(switches))
    switch: Switch = switches[at]
    if kind == "drop link":
        del links[number]
    elif kind == "swap links":
        links[number] = dataclasses.replace(link, lower=link.upper, upper=link.lower)
    elif kind == "rename":
        links[number] = dataclasses.replace(link, name=links[number - 1].name)
    elif kind == "cross wires":
        links[number] = dataclasses.replace(link, upper=links[number - 1].upper)
    elif kind == "drop switch":
        del switches[at]
    elif kind == "port":
        switches[at] = dataclasses.replace(switch, ports=(*switch.ports, len(switch.ports) + 1))
    elif kind == "nic":
        nics[0], nics[-1] = nics[-1], nics[0]
    else:
        switches[at] = dataclasses.replace(switch, plane=switch.plane + 1)
    return dataclasses.replace(fabric, links=tuple(links), switches=tuple(switches), nics=tuple(nics))


@pytest.mark.parametrize("seed", range(60))
def test_wiring_that_is_not_a_clos_is_refused(fabric: Fabric, seed: int) -> None:
    print(f"seed {seed}")
    with pytest.raises(FabricError) as raised:
        _change(fabric, random.Random(seed))
    assert "\n" not in str(raised.value)


def test_other_settings_make_an_equal_fabric_that_derives_anew():
    fabric = multi_plane_clos()
    assert fabric.derived("hop limit", lambda: fabric.settings.hop_limit) == fabric.settings.hop_limit
    settings = dataclasses.replace(fabric.settings, hop_limit=9)
    other = fabric.with_settings(settings)
    assert other == dataclasses.replace(fabric, settings=settings)
    assert other.derived("hop limit", lambda: other.settings.hop_limit) == 9
    assert fabric.settings.hop_limit != 9
