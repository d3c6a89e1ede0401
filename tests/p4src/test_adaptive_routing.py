"""Adaptive routing: the less loaded of two uplinks for each packet of the class, and for no other."""

from __future__ import annotations

from collections import Counter

import pytest

from mrc_common.p4_match import GroupRef, Lpm
from tests.p4src.device import Device
from tests.p4src.packets import DMAC, NIC_B, SMAC, plain
from tests.p4src.scene import entry, route
from topologies.entries import ECMP, UPLINKS, TableEntry

ADAPTIVE = 24
UP = (2, 3, 4)


@pytest.fixture
def uplinks(device: Device) -> Device:
    """NIC_B is reached by three uplinks, whose bytes are counted; the next addresses by one port."""
    device.group({}, {1: dict.fromkeys(UP, 1)}, ECMP)
    device.group({port: (port, DMAC[port], SMAC[port]) for port in UP}, {1: dict.fromkeys(UP, 1)}, UPLINKS)
    device.write(
        entry("adaptive_class", ADAPTIVE, "route_adaptively"),
        *(TableEntry(table, (Lpm(NIC_B, 128),), GroupRef(1)) for table in ("ipv6_route", "adaptive_route")),
        route(NIC_B + 1, 1),
        *(entry("queue_profile", port, "tail_drop", limit=1 << 30) for port in (1, *UP)),
    )
    return device


def sent(device: Device, count: int, **packet: int) -> Counter[int]:
    """How many of so many packets of one flow wait at each port."""
    before = {port: device.queued(port) for port in UP}
    for _ in range(count):
        device.send(1, plain(**packet).pack())
    size = len(plain().pack())
    return Counter({port: (device.queued(port) - before[port]) // size for port in UP})


def test_packets_of_one_flow_are_spread_so_that_queues_stay_alike(uplinks: Device) -> None:
    """Two choices leave the longest of three queues within a few packets of the shortest; one would not (by 17)."""
    spread = sent(uplinks, 300, dscp=ADAPTIVE)
    assert sum(spread.values()) == 300
    assert max(spread.values()) - min(spread.values()) <= 6


def test_the_shorter_queue_of_two_is_taken(uplinks: Device) -> None:
    """A port with a long queue is taken only when both draws are it: one packet in nine."""
    long = plain(size=4000).pack()
    uplinks.write(route(NIC_B + 2, 3))
    for _ in range(50):
        uplinks.send(1, plain(NIC_B + 2, size=4000).pack())
    assert uplinks.queued(3) == 50 * len(long)
    spread = sent(uplinks, 900, dscp=ADAPTIVE)
    assert 70 <= spread[3] <= 130
    assert abs(spread[2] - spread[4]) <= 6


def test_equal_queues_are_taken_at_random(uplinks: Device) -> None:
    taken: Counter[int] = Counter()
    for _ in range(600):
        ((port, (frame,)),) = uplinks.pass_through(1, plain(dscp=ADAPTIVE).pack()).items()
        assert frame == plain(dscp=ADAPTIVE).forwarded(NIC_B, port).pack(), "to the neighbour of the port it leaves by"
        taken[port] += 1
    assert all(150 <= taken[port] <= 250 for port in UP)


def test_other_classes_keep_each_flow_on_one_path(uplinks: Device) -> None:
    assert sorted(sent(uplinks, 100).values()) == [0, 0, 100]


def test_what_no_group_leads_to_takes_its_one_port(uplinks: Device) -> None:
    uplinks.write(route(NIC_B + 2, 3))
    assert sent(uplinks, 50, dst=NIC_B + 2, dscp=ADAPTIVE) == {2: 0, 3: 50, 4: 0}


def test_its_own_class_is_what_queues_are_compared_in(uplinks: Device) -> None:
    """Retransmissions of MRC at another priority do not count."""
    uplinks.write(route(NIC_B + 2, 3))
    for _ in range(50):
        uplinks.send(1, plain(NIC_B + 2, size=4000, dscp=8).pack())
    assert uplinks.queued(3, priority=1) > 0
    spread = sent(uplinks, 300, dscp=ADAPTIVE)
    assert max(spread.values()) - min(spread.values()) <= 6


def test_seeds_make_choices_repeatable() -> None:
    def run(seed: int) -> list[int]:
        device = Device(seed=seed)
        device.group({port: (port, DMAC[port], SMAC[port]) for port in UP}, {1: dict.fromkeys(UP, 1)}, ECMP)
        device.group({port: (port, DMAC[port], SMAC[port]) for port in UP}, {1: dict.fromkeys(UP, 1)}, UPLINKS)
        device.write(
            entry("adaptive_class", ADAPTIVE, "route_adaptively"),
            *(TableEntry(table, (Lpm(NIC_B, 128),), GroupRef(1)) for table in ("ipv6_route", "adaptive_route")),
        )
        taken = [next(iter(device.pass_through(1, plain(dscp=ADAPTIVE).pack()))) for _ in range(60)]
        device.switch.close()
        return taken

    assert run(1) == run(1) != run(2)
