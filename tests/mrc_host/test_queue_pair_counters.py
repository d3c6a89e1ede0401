"""Snapshots of a queue pair's counters: each number in its place, and never an old one."""

from __future__ import annotations

from dataclasses import asdict, fields

import pytest

from mrc_host.verbs_types import QpCounters, QpState, QpType
from tests.mrc_host.nic_world import MS, World, connect


@pytest.mark.parametrize("kind", QpType)
def test_every_count_shows_in_the_next_snapshot_and_in_no_earlier_one(kind: QpType) -> None:
    world = World(2, 2, 4)
    a, _ = connect(world, kind=kind)
    a.nic.modify_qp(a.qpn, QpState.RESET, world.now)  # while it receives, what arrived is counted elsewhere
    pair = a.nic._qps.get(a.qpn)
    expected = dict.fromkeys((field.name for field in fields(QpCounters)), 0)
    taken = []
    for number, name in enumerate(expected, 1):
        taken.append((a.nic.qp_counters(a.qpn), dict(expected)))
        counting = pair.sends if name == "bytes_completed" else pair.stats
        setattr(counting, name, number)
        expected[name] = number
    taken.append((a.nic.qp_counters(a.qpn), expected))
    assert [asdict(snapshot) for snapshot, _ in taken] == [then for _, then in taken]


@pytest.mark.parametrize("kind", QpType)
def test_snapshots_follow_traffic(kind: QpType) -> None:
    world = World(2, 2, 4)
    a, b = connect(world, kind=kind)
    nothing = a.nic.qp_counters(a.qpn)
    assert nothing == a.nic.qp_counters(a.qpn) == QpCounters()
    for writes in (1, 2):
        a.write(b, 64)
        assert world.run(50 * MS, until=lambda: bool(a.poll()))
        sent, received = a.nic.qp_counters(a.qpn), b.nic.qp_counters(b.qpn)
        assert (sent.data_sent, sent.bytes_completed, received.data_received) == (writes, 64 * writes, writes)
    assert nothing == QpCounters()
