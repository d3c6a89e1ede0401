"""Pacing: frames leave at line rate, and a late line catches up within its allowance."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mrc_host.driver.nic_driver import TRANSMIT_BATCH
from tests.mrc_host.driver.rig import Rig
from tests.seeds import SEED


def test_frames_are_sent_at_line_rate(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.nic.offered[0].extend([bytes(1226)] * 1000)  # 1250 bytes on the wire: 10 us each at 1 Gb/s
    start = rig.time
    rig.run_until(start + 5_000_000)
    assert len(rig.opened[0].sent) == 501
    rig.time = start + 20_000_000
    rig.run_until(rig.time + 20_000_000)
    assert len(rig.opened[0].sent) == 1000


def test_each_port_is_paced_separately(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.nic.offered[0].extend([bytes(1226)] * 100)
    rig.nic.offered[1].extend([bytes(101)] * 1000)  # 1 us each
    rig.run_until(rig.time + 100_000)
    assert [len(port.sent) for port in rig.opened] == [11, 101]


def test_an_idle_port_accumulates_no_credit(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=100_000)
    rig.nic.offered[0].extend([bytes(1226)] * 3)
    rig.run_until(rig.time + 1_000_000)
    rig.time += 1_000_000_000
    rig.nic.offered[0].extend([bytes(1226)] * 100)
    rig.step()
    assert len(rig.opened[0].sent) == 4


def test_a_late_port_catches_up_by_the_allowance_at_most(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=100_000)
    rig.nic.offered[0].extend([bytes(1226)] * 100)
    rig.step()
    rig.time += 1_000_000_000
    rig.step()
    assert len(rig.opened[0].sent) == 1 + 11


def test_late_wakeups_within_the_allowance_cost_no_rate(rigs: Callable[..., Rig]) -> None:
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    rig = rigs(burst_ns=100_000)
    rig.nic.offered[0].extend([bytes(1226)] * 20_000)
    rig.run_until(rig.time + 100_000_000, late=lambda: rng.randrange(90_000))
    assert 9_990 <= len(rig.opened[0].sent) <= 10_021  # the last turn may be late too, and catch up


@pytest.mark.parametrize(("burst_ns", "longest"), [(100_000, 60_000), (5_000, 10_000), (0, 10_000)])
def test_while_frames_are_collected_ports_wait_too_and_keep_their_rate(
    rigs: Callable[..., Rig], burst_ns: int, longest: int
) -> None:
    """Frames take 10 us. A busy port waits for half of what it can catch up on, which is less than collecting takes."""
    rig = rigs(burst_ns=burst_ns)
    rig.nic.offered[0].extend([bytes(1226)] * 2_000)
    start, waits, arrived = rig.time, list[int](), 0
    while rig.time < start + 10_000_000:
        due = (rig.time - start) // 20_000  # one each 20 us
        rig.opened[1].arrive(*[bytes(60)] * (due - arrived))
        arrived = due
        rig.ready(1)
        wanted = rig.step()
        assert wanted is not None
        waits.append(wanted - rig.time)
        rig.time = wanted
    assert max(waits[len(waits) // 2 :]) == longest
    rig.step()  # which sends what became due while the port waited
    assert abs(len(rig.opened[0].sent) - (rig.time - start) / 10_000) <= 2


def test_waking_late_by_half_the_allowance_costs_no_rate_while_frames_are_collected(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=30_000)
    rig.nic.offered[0].extend([bytes(1226)] * 2_000)
    start, arrived = rig.time, 0
    while rig.time < start + 10_000_000:
        due = (rig.time - start) // 20_000
        rig.opened[1].arrive(*[bytes(60)] * (due - arrived))
        arrived = due
        rig.ready(1)
        wanted = rig.step()
        assert wanted is not None
        rig.time = wanted + 15_000
    rig.step()  # which sends what became due while the last one was late
    assert len(rig.opened[0].sent) >= (rig.time - start) // 10_000 - 1


def test_rate_zero_disables_pacing_but_ports_still_alternate(rigs: Callable[..., Rig]) -> None:
    rig = rigs(rate=0)
    rig.nic.offered[0].extend([bytes(100)] * (TRANSMIT_BATCH * 3))
    assert rig.step() == rig.time
    assert len(rig.opened[0].sent) == TRANSMIT_BATCH
    rig.run_until(rig.time)
    assert len(rig.opened[0].sent) == TRANSMIT_BATCH * 3
    assert rig.step() is None
