"""What may be sent where, and while nothing moves: little, but for answers to what the other end asks."""

from collections import Counter
from types import SimpleNamespace

import pytest

from mrc_host.wire import opcodes
from tests.swarm.plans import fabric, plan, write
from tests.swarm.traffic_checks import Shares
from tests.swarm.traffic_counts import Stretch, TrafficCounts
from topologies.faults.flap import Flap

MS = 1_000_000
NEAR, FAR = 0x101, 0x202  # QPNs of h1 and h3


def judged(near, far, *faults):
    """What the rule says of stretches of h1 (`near`) and of h3 (`far`)."""
    scenario = plan(*faults, writes=[write()])
    ends = [
        SimpleNamespace(nic=nic, qp=SimpleNamespace(qpn=qpn), pair=scenario.pairs[0])
        for nic, qpn in (("h1", NEAR), ("h3", FAR))
    ]
    counts = SimpleNamespace(still={("h1", FAR): near, ("h3", NEAR): far})
    found = []
    transport = scenario.fabric.settings.transport
    Shares(scenario, transport, counts, found.append).storms(SimpleNamespace(ends=[tuple(ends), tuple(ends[::-1])]))
    return [text.split()[0] for text in found]


@pytest.mark.parametrize(
    ("data", "answers", "storms"),
    [(200, 0, []), (200, 500, []), (200, 1_000, ["h3"]), (0, 500, ["h3"]), (1_000, 2_000, ["h1"])],
)
def test_answers_are_bounded_by_the_peers_retransmissions(data, answers, storms):
    assert judged([Stretch(0, MS, data, data, 0, 0)], [Stretch(0, MS, 0, 0, 0, answers)]) == storms


def test_what_was_lost_may_be_sent_again_once():
    assert judged([Stretch(0, MS, 1_000, 0, 0, 0)], [Stretch(0, MS, 0, 0, 0, 2_000)]) == []
    assert judged([Stretch(0, MS, 1_000, 500, 0, 0)], []) == ["h1"]


def test_retransmissions_in_another_period_excuse_no_answers():
    assert judged([Stretch(MS, MS, 200, 200, 0, 0)], [Stretch(3 * MS, MS, 0, 0, 0, 500)]) == ["h3"]


@pytest.mark.parametrize(
    ("probes", "answers", "storms"),
    [(150, 450, []), (150, 1_000, ["h3"]), (500, 1_500, ["h1"]), (0, 500, ["h3"])],
)
def test_answers_are_bounded_by_the_peers_probes_and_these_by_themselves(probes, answers, storms):
    assert judged([Stretch(0, MS, 0, 0, probes, 0)], [Stretch(0, MS, 0, 0, 0, answers)]) == storms


def test_answers_excuse_no_answers():
    assert judged([Stretch(0, MS, 0, 0, 0, 500)], [Stretch(0, MS, 0, 0, 0, 500)]) == ["h1", "h3"]


@pytest.mark.parametrize(
    ("flap", "storms"),
    [
        (Flap("h1@*", 10_000, 90_000), []),  # 2 links come and go 20 times each, on each of which 2 planes are probed
        (Flap("h1@*", 100_000, 900_000), ["h1"]),
    ],
)
def test_each_time_that_a_link_flaps_planes_may_be_probed(flap, storms):
    assert judged([Stretch(0, MS, 0, 0, 330, 0)], [], (flap, 0, MS)) == storms
    assert judged([Stretch(2 * MS, MS, 0, 0, 330, 0)], [], (flap, 0, MS)) == ["h1"]
    assert judged([Stretch(0, MS, 0, 0, 1_000, 0)], [], (flap, 0, MS)) == ["h1"]


def balance(first, again):
    """What the rule on planes says of h1, which sent so many packets by plane for the first time, and again."""
    scenario = plan(writes=[write()])
    transport = scenario.fabric.settings.transport
    assert (transport.plane_skew_limit, scenario.pairs[0].attributes.path_mtu, scenario.fabric.planes) == (8, 4096, 2)
    ends = [
        SimpleNamespace(
            nic=nic,
            qp=SimpleNamespace(qpn=qpn),
            life=scenario.pairs[0],  # what is asked of it are its attributes
            baseline=False,
            path_changed=False,
            lives=[None],
        )
        for nic, qpn in (("h1", NEAR), ("h3", FAR))
    ]
    flow = ("h1", FAR)
    counts = SimpleNamespace(
        planes={flow: Counter(dict(enumerate(first)))},
        repeated={flow: Counter(dict(enumerate(again)))} if any(again) else {},
    )
    found = []
    Shares(scenario, transport, counts, found.append).planes(SimpleNamespace(ends=[tuple(ends), tuple(ends[::-1])]))
    return found


@pytest.mark.parametrize(
    ("first", "again"),
    [([16, 8], [0, 0]), ([16, 6], [0, 2]), ([16, 6], [9, 2]), ([6, 16], [2, 0]), ([16, 16], [50, 0])],
)
def test_a_plane_may_be_one_burst_ahead_of_another_including_retransmissions(first, again):
    assert balance(first, again) == []


@pytest.mark.parametrize(
    ("first", "again"),
    [([17, 8], [0, 0]), ([16, 6], [0, 1]), ([16, 6], [2, 0]), ([6, 16], [1, 50]), ([9, 0], [0, 0])],
)
def test_a_plane_further_ahead_is_reported(first, again):
    assert balance(first, again) == [f"h1 sent {first} packets by plane and {again} again, though no path was bad"]


def test_retransmissions_are_counted_apart():
    on = fabric()
    counts = TrafficCounts(on, MS)
    devices = [*(nic.name for nic in on.nics), *(switch.name for switch in on.switches)]
    counts.start(devices)
    link = next(link for link in on.links if link.lower.node == "h1")

    def send(now, opcode, flags=0x20, psn=7):
        frame = bytearray(160)
        frame[20] = 41
        frame[102] = opcode
        frame[107:110] = FAR.to_bytes(3, "big")
        frame[110] = flags
        frame[111:114] = psn.to_bytes(3, "big")
        counts.frame(now, devices.index(link.upper.node), link.upper.port, bytes(frame))

    send(1, opcodes.WRITE_ONLY, flags=0)
    for now in range(MS, 3 * MS, MS // 2):
        send(now, opcodes.WRITE_ONLY, psn=now // MS)
        send(now, opcodes.PROBE)
        send(now, opcodes.PROBE)
        send(now, opcodes.SACK)
    send(3 * MS, opcodes.WRITE_ONLY, flags=0)
    counts.finish(5 * MS)
    assert counts.still == {("h1", FAR): [Stretch(MS, 2 * MS, 4, 2, 8, 4)]}
    assert counts.planes == {("h1", FAR): {link.plane: 2}}
    assert counts.repeated == {("h1", FAR): {link.plane: 4}}
