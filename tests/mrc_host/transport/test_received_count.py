"""Duplicates by the peer's count of received bytes: from peers that count as the facts say, and from others."""

import pytest

from mrc_host.transport.received_count import ReceivedCount
from mrc_host.wire.control import nominal_size
from mrc_host.wire.headers import data_ts, data_ts_imm
from tests.mrc_host.nic_world import MS, Faults, World, connect

UNITS = 17


def arrive(count: ReceivedCount, packets: int, peers_units: int = UNITS, duplicates: int = 0) -> bool:
    """`packets` are acknowledged, the peer got `duplicates` besides and counts `peers_units` each."""
    count.acked += UNITS * packets
    count.total += peers_units * (packets + duplicates)
    return count.compare()


@pytest.mark.parametrize(("payload", "units"), [(1, 1), (168, 1), (169, 2), (1000, 5), (4096, 17)])
def test_a_packet_counts_its_udp_length_plus_40_bytes_in_whole_units(payload: int, units: int) -> None:
    """BTH 12, METH 4, TSETH 4, RETH 16, payload and pad, ICRC 4, UDP header 8; then 40."""
    padded = -(-payload // 4) * 4
    udp_length = 8 + 12 + 4 + 4 + 16 + padded + 4
    assert nominal_size(data_ts.size + padded) == 256 * units == -(-(udp_length + 40) // 256) * 256
    assert nominal_size(data_ts_imm.size + padded) == -(-(udp_length + 4 + 40) // 256) * 256


def test_count_growth_by_retransmitted_packets_means_duplicates() -> None:
    count = ReceivedCount()
    assert arrive(count, 4)
    assert count.calibrated
    for _ in range(3):
        count.retransmitted(UNITS)
    assert arrive(count, 8, duplicates=2)
    assert count.duplicates == 2 * UNITS
    assert arrive(count, 1, duplicates=1)
    assert count.duplicates == 3 * UNITS


@pytest.mark.parametrize("peers_units", [16, 18, 1, 34])
def test_a_peer_with_a_different_count_reports_no_duplicates(peers_units: int) -> None:
    count = ReceivedCount()
    for _ in range(50):
        count.retransmitted(UNITS)
        assert not arrive(count, 32, peers_units)
    assert count.duplicates == 0


def test_a_single_disagreement_is_forgiven_later() -> None:
    """The network duplicated a frame: nothing had been sent again."""
    count = ReceivedCount()
    assert not arrive(count, 4, duplicates=1)
    count.retransmitted(UNITS)
    assert not arrive(count, 0, duplicates=1), "not believed before the counts agree again"
    assert arrive(count, 4)
    count.retransmitted(UNITS)
    assert arrive(count, 4, duplicates=1)
    assert count.duplicates == UNITS


def test_packets_of_different_sizes_count_by_their_sum() -> None:
    count = ReceivedCount()
    for units in (17, 5, 1):
        count.retransmitted(units)
    count.acked, count.total = 100, 106
    assert count.compare()
    assert count.duplicates == 6


@pytest.mark.parametrize("more", [-1, 1], ids=["payload", "one unit more"])
@pytest.mark.parametrize("seed", range(3))
def test_with_a_different_count_no_retransmission_is_called_spurious(more: int, seed: int) -> None:
    """With loss alone every retransmission is needed; a peer that counts payload, or more, does not change that."""
    world = World(2, 2, 8, seed=seed, faults=Faults(seed=seed, loss=0.01, control_too=False))
    a, b = connect(world, size=1 << 20)
    responder = b.qp.responder
    seen = 0

    def count_otherwise() -> None:
        nonlocal seen
        arrived = b.nic.qp_counters(b.qpn)
        got = arrived.data_received + arrived.duplicates_received
        responder.received.units += more * (got - seen)
        seen = got
        world.at(world.now + 500, count_otherwise)

    count_otherwise()
    for _ in range(6):
        a.write(b, 1 << 20)
        assert world.run(100 * MS, until=lambda: bool(a.poll()))
        world.run(MS)
    counters = a.nic.qp_counters(a.qpn)
    assert counters.retransmitted > 5
    assert counters.spurious_retransmitted == 0
