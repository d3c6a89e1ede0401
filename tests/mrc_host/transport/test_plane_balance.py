"""No plane runs ahead of another by more than a burst."""

from mrc_host.transport.plane_balance import PlaneBalance
from mrc_host.transport.stats import NicPortStats


def test_a_plane_waits_after_its_burst_until_all_are_refilled() -> None:
    balance = PlaneBalance(2, 4096, 0b11, [0] * 2, [NicPortStats() for _ in range(2)])
    balance.spend(0)
    assert balance.mask == 0b11
    balance.spend(0)
    assert balance.mask == 0b10
    balance.refill(0b11)
    assert balance.mask == 0b11
    balance.spend(1)
    balance.spend(1)
    assert balance.mask == 0b01


def test_smaller_packets_make_longer_bursts() -> None:
    balance = PlaneBalance(2, 1024, 1, [0] * 1, [NicPortStats() for _ in range(1)])
    for _ in range(7):
        balance.spend(0)
        assert balance.mask
    balance.spend(0)
    assert not balance.mask


def test_unused_planes_are_skipped() -> None:
    balance = PlaneBalance(2, 4096, 0b101, [0] * 3, [NicPortStats() for _ in range(3)])
    assert balance.mask == 0b101
    balance.refill(0b001)
    assert balance.mask == 0b001
