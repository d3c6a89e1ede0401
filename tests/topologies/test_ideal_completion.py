"""Ideal completion times, by arithmetic: headers at the access rate and a round trip without queues, as in HPCC."""

import pytest

from mrc_host.verbs_types import QpType
from mrc_lab.experiments.files.fabric_part import build_fabric
from tests.docs.blocks import ROOT
from tests.mrc_lab.experiments.running.cases import case_of
from topologies.fabric import Fabric
from topologies.ideal_completion import IdealCompletion, PacketSizes
from topologies.loader import load_file

MTU = 4096
LINE = 24  # preamble, FCS, gap
HEADERS = {"mrc": 142, "rc": 78}  # docs/protocol.md section 1.2 without FCS; 14 + 40 + 8 + 12 + 4 of RoCEv2 over IPv6


def fabric_of(text: str = "{planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G}") -> Fabric:
    return build_fabric(case_of("{kind: permutation}", fabric=text).fabric)


def ideal(size, fabric=None, *, transport="mrc", source="h1", destination="h3", delay=1000):
    fabric = fabric or fabric_of()
    return IdealCompletion(fabric, PacketSizes.of(QpType(transport), MTU, fabric), delay).of(source, destination, size)


def frame_time(payload, rate=100, transport="mrc"):
    return 8 * (payload + HEADERS[transport] + LINE) / rate  # ns at Gb/s


@pytest.mark.parametrize("transport", ["mrc", "rc"])
@pytest.mark.parametrize("planes", [1, 2, 8])
@pytest.mark.parametrize("rate", [25, 100, 400])
@pytest.mark.parametrize("size", [1, 1000, 4096, 5000, 64 << 10, 10_000_000])
@pytest.mark.parametrize(("destination", "links"), [("h2", 2), ("h3", 4)])
def test_it_is_the_definition_of_hpcc_within_two_frames(transport, planes, rate, size, destination, links):
    """base_rtt + total_bytes / rate: packets and their headers at the access rate, then a round trip of one packet."""
    fabric = fabric_of(f"{{planes: {planes}, t0: 2, t1: 2, hosts: 4, rate: {rate}G}}")
    packets = -(-size // MTU)
    last = size - (packets - 1) * MTU
    sent = 8 * (size + packets * (HEADERS[transport] + LINE)) / (rate * planes)
    whole = min(size, MTU)
    round_trip = 2 * links * 1000 + (links - 1) * frame_time(whole, rate, transport) + links * 8 * 166 / rate
    found = ideal(size, fabric, transport=transport, destination=destination)
    assert found == pytest.approx(sent + round_trip, abs=2 * frame_time(MTU, rate, transport))
    assert found >= 2 * links * 1000 + links * frame_time(last, rate, transport) - links * 2


def test_a_full_packet_takes_four_frames_of_store_and_forward():
    """341 ns each at 100 Gb/s, four acknowledgements of 11 ns, eight times 1 us."""
    assert ideal(MTU) == pytest.approx(8000 + 4 * 341 + 4 * 11, abs=10)
    assert ideal(MTU, destination="h2") == pytest.approx(4000 + 2 * 341 + 2 * 11, abs=10)


def test_two_ports_send_two_packets_at_once():
    assert ideal(2 * MTU) == ideal(MTU)
    assert ideal(3 * MTU) == pytest.approx(ideal(MTU) + frame_time(MTU), abs=2)
    assert ideal(200 * MTU) == pytest.approx(ideal(MTU) + 99 * frame_time(MTU), abs=2)


def test_it_grows_with_the_size():
    found = [ideal(size) for size in range(1, 60_000, 997)]
    assert found == sorted(found)


def test_the_slower_end_is_the_access_rate():
    fabric = fabric_of('{planes: 1, t0: 2, t1: 2, hosts: 4, rate: 100G, links: {"h3@p0": {rate: 25G}}}')
    size = 1000 * MTU
    assert ideal(size, fabric) == pytest.approx(1000 * frame_time(MTU, 25), rel=0.03)
    assert ideal(size, fabric, source="h3", destination="h1") == pytest.approx(1000 * frame_time(MTU, 25), rel=0.03)
    assert ideal(size, fabric, destination="h2") == pytest.approx(1000 * frame_time(MTU, 100), rel=0.03)


def test_uneven_ports_are_one_of_their_sum():
    fabric = fabric_of('{planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G, links: {"h3@p1": {rate: 25G}}}')
    assert ideal(1000 * MTU, fabric) == pytest.approx(1000 * frame_time(MTU, 125), rel=0.05)  # and a round trip at 25G


def test_the_fastest_of_several_paths_counts():
    slow = '{planes: 1, t0: 2, t1: 2, hosts: 4, rate: 100G, links: {"t0-0:t1-0@p0": {delay: 50us}}}'
    assert ideal(MTU, fabric_of(slow)) == ideal(MTU, fabric_of("{planes: 1, t0: 2, t1: 2, hosts: 4, rate: 100G}"))
    both = '{planes: 1, t0: 2, t1: 2, hosts: 4, rate: 100G, links: {"t0-0:t1-*@p0": {delay: 50us}}}'
    assert ideal(MTU, fabric_of(both)) - ideal(MTU, fabric_of(slow)) == 2 * 49_000


def test_three_tiers_have_six_links():
    fabric = fabric_of("{planes: 1, pods: 2, t0: 2, t1: 2, t2: 2, hosts: 8, rate: 100G}")
    assert ideal(MTU, fabric, destination="h8") == pytest.approx(12_000 + 6 * 341 + 6 * 11, abs=12)


def test_any_shape_of_fabric_has_one():
    fabric = load_file(ROOT / "examples/uneven.yaml")
    for source in fabric.nic_names:
        for destination in fabric.nic_names:
            if source != destination:
                assert ideal(10_000, fabric, source=source, destination=destination, delay=0) > 0


@pytest.mark.parametrize("rate", ["100G", "400G"])
def test_three_tiers_of_even_links_take_six_links_and_look_at_one_path(rate, monkeypatch):
    fabric = fabric_of(f"{{planes: 2, pods: 2, t0: 2, t1: 2, t2: 4, hosts: 8, rate: 100G, uplink_rate: {rate}}}")
    monkeypatch.setattr(Fabric, "paths", None)  # thousands for each two T0s of a large fabric
    up = 4 if rate == "400G" else 1
    frame, answer = frame_time(1 << 12), 8 * (142 + LINE - 24) / 100
    way = frame + 5 * 1000 + 1000 + 4 * (frame - 0.96) / up + (frame - 0.96)
    back = 6 * 1000 + 2 * answer + 4 * answer / up
    assert ideal(4096, fabric, destination="h8") == pytest.approx(way + back, abs=10)
