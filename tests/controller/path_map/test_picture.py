"""The map as a person sees it."""

from __future__ import annotations

from dataclasses import replace

from controller.path_map.picture import describe, draw
from controller.path_map.service import pack, unpack
from controller.path_map.values import Direction, LinkHealth, MapState, Part, Verdict
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos()
CUT = Verdict(Part.T0_T1, "t0-0:t1-2@p0", 0, Direction.BOTH, 0.9999, 1.0, 4_200_000_000)
LOSSY = Verdict(Part.NIC_T0, "h2@p1", 1, Direction.DOWN, 0.123, 0.99, 5_000_000_000)
DEAD = Verdict(Part.SWITCH, "t1-0@p1", 1, Direction.BOTH, 1.0, 0.6, 0, ("t0-0:t1-0@p1",))
STATE = MapState(
    True, 10.0, 0.6, 12.0, (CUT, LOSSY, DEAD), tuple(LinkHealth(link.name, 50, 0) for link in FABRIC.links), ("h4",)
)


def test_a_picture_shows_every_link_of_every_plane() -> None:
    lines = draw(FABRIC, STATE).splitlines()
    rows = {}
    plane = ""
    for line in lines:
        if line.startswith("plane"):
            plane = line.split()[1]
        elif line.startswith("t0-") and "(" not in line:
            rows[plane, line.split()[0]] = line.split()[1:]
    assert rows["0", "t0-0"] == ["ok", "ok", "100%", "ok", "h1", "ok", "h2", "ok"]
    assert rows["0", "t0-1"] == ["ok", "ok", "ok", "ok", "h3", "ok", "h4", "ok"]
    assert rows["1", "t0-0"] == ["100%*", "ok", "ok", "ok", "h1", "ok", "h2", "12%v"]
    assert "the agent of h4 does not answer" in lines


def test_verdicts_are_sentences() -> None:
    assert describe(CUT) == "t0-0:t1-2@p0 (T0-T1 link) loses all, since 4.2 s, sure to 100%"
    assert describe(LOSSY) == "h2@p1 (NIC-T0 link) loses 12.3% towards the NIC, since 5.0 s, sure to 99%"
    assert describe(replace(LOSSY, direction=None)).startswith("h2@p1 (NIC-T0 link) loses 12.3%, direction unclear,")
    assert describe(DEAD).endswith("sure to 60%; or else t0-0:t1-0@p1")


def test_a_map_without_probes_or_without_a_start_says_so() -> None:
    assert "'map' starts one" in draw(FABRIC, MapState(False))
    assert "no probes are judged yet" in draw(FABRIC, replace(STATE, verdicts=(), links=()))
    assert "nothing is to blame" in draw(FABRIC, replace(STATE, verdicts=()))
    assert "denylists: 7 entropy values denied" in draw(FABRIC, replace(STATE, feeding=True, denied=7))


def test_a_state_travels_as_a_message() -> None:
    state = replace(STATE, verdicts=(CUT, replace(LOSSY, direction=None), DEAD), feeding=True, denied=3)
    assert unpack(pack(state)) == state
    assert unpack(pack(MapState(False))) == MapState(False)
