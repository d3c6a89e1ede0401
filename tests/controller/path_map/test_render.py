"""The map as it is printed."""

from __future__ import annotations

import time
from dataclasses import replace

from controller import messages
from controller.path_map.render import describe, draw
from controller.path_map.values import Direction, ElementKind, LinkHealth, MapState, SlowPort, SuspectedFault
from controller.proto import path_map_v1_pb2 as pb
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos()
CUT = SuspectedFault(ElementKind.T0_T1, "t0-0:t1-2@p0", 0, Direction.BOTH, 0.9999, 1.0, 4_200_000_000)
LOSSY = SuspectedFault(ElementKind.NIC_T0, "h2@p1", 1, Direction.DOWN, 0.123, 0.99, 5_000_000_000)
DEAD = SuspectedFault(ElementKind.SWITCH, "t1-0@p1", 1, Direction.BOTH, 1.0, 0.6, 0, ("t0-0:t1-0@p1",))
STATE = MapState(
    True, 10.0, 0.6, 12.0, (CUT, LOSSY, DEAD), tuple(LinkHealth(link.name, 50, 0) for link in FABRIC.links), ("h4",)
)


def test_the_rendered_map_shows_every_link_of_every_plane() -> None:
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


def test_suspected_faults_are_described_in_words() -> None:
    began = time.mktime((2026, 11, 22, 12, 4, 47, 0, 0, -1))
    assert describe(CUT, began) == "t0-0:t1-2@p0 (T0-T1 link): 100 % loss since 12:04:51 (confidence 99 %)"
    lossy = "h2@p1 (NIC-T0 link): 12.3 % loss towards the NIC since 12:04:52 (confidence 98 %)"
    assert describe(replace(LOSSY, confidence=0.989), began) == lossy
    assert ": 12.3 % loss, direction unclear since 12" in describe(replace(LOSSY, direction=None), began)
    assert describe(DEAD, began).endswith("(confidence 60 %); or else t0-0:t1-0@p1")


def test_a_map_not_started_or_without_probes_says_so() -> None:
    assert "'map' starts one" in draw(FABRIC, MapState(False))
    assert "no probes are judged yet" in draw(FABRIC, replace(STATE, suspected=(), links=()))
    assert "no suspected fault" in draw(FABRIC, replace(STATE, suspected=()))
    assert "denylists: 7 entropy values denied" in draw(FABRIC, replace(STATE, feeding=True, denied=7))


def test_a_map_state_survives_protobuf_encoding() -> None:
    state = replace(STATE, suspected=(CUT, replace(LOSSY, direction=None), DEAD), feeding=True, denied=3)
    state = replace(state, slow_ports=(SlowPort("h1@p0", True, 2),))
    assert messages.unpack(messages.pack(state, pb.State), MapState) == state
    assert messages.unpack(messages.pack(MapState(False), pb.State), MapState) == MapState(False)


def test_slow_ports_have_a_line_each() -> None:
    slow = SlowPort("h1@p0", True, 0), SlowPort("h2@p1", False, 3)
    lines = draw(FABRIC, replace(STATE, slow_ports=slow)).splitlines()
    assert "h1@p0 is slower than its NIC's other ports, which wait for it" in lines
    assert "plane 1 from h2 to 3 NICs, or their port there, is slower than the others, which wait for it" in lines
