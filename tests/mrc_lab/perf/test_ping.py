"""mrc_ping by hosts' names, and over a whole fabric in virtual time."""

import pytest

from mrc_host.tools.pinger import Pinger, PingPlan
from mrc_lab.errors import ExperimentError
from mrc_lab.perf import ping
from simulation.world import SimulatedWorld
from tests.mrc_lab.perf.test_hosts import up
from topologies.clos import multi_plane_clos

__all__ = ["up"]
MS = 1_000_000
FABRIC = multi_plane_clos("one", planes=2, t0=2, t1=2, hosts=4)


def pinged(world, count):
    """The figures of `count` rounds from h1 to h3."""
    controller = world.open("h1").controller()
    target = controller.destination("h3")
    pinger = Pinger(controller, target, PingPlan(target.evs, count, interval_s=0.1, timeout_s=0.05))
    world.run(pinger.run())
    return pinger.tallies


def test_each_path_is_listed_with_its_switches():
    assert ping.switches_by_path(FABRIC, "h1", "h2") == {0x000: ("t0-0@p0",), 0x400: ("t0-0@p1",)}
    between = ping.switches_by_path(FABRIC, "h3", "h2")
    assert len(between) == 4
    assert between[0x401] == ("t0-1@p1", "t1-1@p1", "t0-0@p1")
    for way in between.values():
        for switch in way:
            FABRIC.switch(switch)


def test_an_idle_fabric_answers_every_probe_within_the_link_delay():
    with SimulatedWorld(FABRIC, seed=1, rate=100_000_000_000, delay=1000) as world:
        tallies = pinged(world, 3)
    assert [tally.plane for tally in tallies] == [0, 0, 1, 1]
    for tally in tallies:
        assert (tally.sent, tally.answered, tally.service_time_known) == (3, 3, True)
        assert all(8 * 1000 <= rtt < 8 * 1000 + 1000 for rtt in tally.rtts)  # eight links; a probe takes 11 ns on each


def test_a_link_down_in_one_direction_shows_on_its_path():
    with SimulatedWorld(FABRIC, seed=1, rate=100_000_000_000) as world:
        world.faults.loss("t0-0:t1-1@p1", 1.0, towards="t1-1@p1")
        tallies = pinged(world, 8)
    assert {tally.ev: tally.answered for tally in tallies} == {0x000: 8, 0x001: 8, 0x400: 8, 0x401: 0}


def test_a_reverse_path_down_affects_all_paths_a_little():
    with SimulatedWorld(FABRIC, seed=1, rate=100_000_000_000) as world:
        world.faults.loss("t0-0:t1-1@p1", 1.0, towards="t0-0@p1")
        tallies = pinged(world, 40)
    assert all(0 < tally.loss < 0.6 for tally in tallies)


@pytest.fixture
def asked(monkeypatch):
    """What the tool was asked, in place of asking it."""
    calls = []

    def note(options, device, destination, echo, switches=None):
        calls.append((device, destination, switches))
        return 0

    monkeypatch.setattr(ping.tool, "ping", note)
    return calls


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (None, "h1 h3"),
        (None, "-d h1 h3 -c 5"),
        ("h1", "h3 -q"),
        ("h1", "fd00:6d:7263:1:1::1"),
        ("h4", "h1 h3"),
        ("h4", "fd00:6d:7263::1 -c 2 fd00:6d:7263:1::1"),
    ],
)
def test_host_names_and_addresses_select_agent_sockets(up, monkeypatch, asked, here, words):
    run = up("one")
    monkeypatch.setattr(ping, "this_host", lambda: (run, here) if here else None)
    monkeypatch.setattr(ping, "find_fabric", lambda name: run)
    assert ping.run(words.split()) == 0
    assert asked == [(f"{run.path}/h1.sock", "h3", ping.switches_by_path(FABRIC, "h1", "h3"))]


def test_a_socket_needs_no_fabric(asked):
    assert ping.run(["-d", "/x/agent.sock", "somebody"]) == 0
    assert asked == [("/x/agent.sock", "somebody", None)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("h3", "from where to where"),
        ("h1 h9", "has no host h9.\nIts hosts are h1, h2, h3, h4."),
        ("h9 h1", "has no host h9"),
        ("h1 h1", "cannot ping itself"),
        ("h1 h3 --fabric one --fabric two", "two fabrics are named, one and two: give one"),
    ],
)
def test_invalid_arguments_are_refused(up, monkeypatch, asked, capsys, words, why):
    run = up("one")
    monkeypatch.setattr(ping, "this_host", lambda: None)
    monkeypatch.setattr(ping, "find_fabric", lambda name: run)
    assert ping.run(words.split()) == 2
    assert why in capsys.readouterr().err
    assert not asked


def test_without_a_fabric_the_exit_status_is_that_of_ping(monkeypatch, capsys):
    def nothing(name):
        raise ExperimentError("No fabric is up.", "Start one.")

    monkeypatch.setattr(ping, "this_host", lambda: None)
    monkeypatch.setattr(ping, "find_fabric", nothing)
    assert ping.run(["h1", "h3"]) == 2
    assert capsys.readouterr().err == "mrc_ping: No fabric is up.\nStart one.\n"
    with pytest.raises(SystemExit, match="2"):
        ping.run(["h1", "h2", "h3"])
