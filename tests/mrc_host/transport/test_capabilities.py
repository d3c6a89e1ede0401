"""How a sender uses what it knows of its peer and of the network: trims, hints, the unit of timestamps."""

import pytest

from mrc_host.config import ProtocolSettings, TimestampTick, TransportSettings
from mrc_host.verbs_types import QpAttributes
from mrc_host.wire import control, headers
from tests.mrc_host.congested_world import BASE_RTT, CongestedWorld
from tests.mrc_host.nic_world import MS, US, connect
from tests.mrc_host.transport.far_end import FarEnd

NO_TRIM = 0
NSCC = TransportSettings(base_rtt=120_000, assumed_rate=10_000_000_000)


def window(end: FarEnd) -> int:
    return end.nic.hw_counters(end.qpn, end.now)["cwnd_bytes"]


# ---- trims -------------------------------------------------------------------------------------------------------


def test_data_to_a_peer_without_trim_support_is_not_trimmable() -> None:
    end = FarEnd(attributes=QpAttributes(trim_nack_dest=False))
    end.write(4096)
    (packet,) = end.data()
    end.nack(packet, control.NACK_NO_RESOURCE)
    (again,) = end.data()
    assert (packet.dscp, again.dscp) == (NO_TRIM, NO_TRIM)
    assert (packet.rtx, again.rtx) == (False, True)


def test_without_trims_nscc_targets_one_base_rtt_of_delay() -> None:
    targets = []
    for able in (True, False):
        end = FarEnd(attributes=QpAttributes(trim_nack_dest=able), transport=NSCC)
        # private: the target shows only in how a window moves, which tests/.../test_nscc.py checks
        targets.append(end.qp.requester.window.cc._p.target_delay)
    assert targets == [90_000, 120_000]


@pytest.mark.parametrize("able", [True, False])
def test_ends_with_and_without_trim_support_transfer_through_a_full_queue(able: bool) -> None:
    """The bottleneck trims only what may be trimmed, and drops the rest."""
    world = CongestedWorld(3, TransportSettings(base_rtt=BASE_RTT, congestion="none"), seed=5, trimming=able)
    attributes = QpAttributes(trim_nack=able, trim_nack_dest=able, timeout=9)
    pairs = [connect(world, number, 2, size=1 << 20, attributes=attributes) for number in range(2)]
    for near, far in pairs:
        near.write(far, 1 << 20)
    assert world.run(1000 * MS, until=lambda: all(near.done or near.poll() for near, _far in pairs))
    assert all(near.buffer == far.buffer for near, far in pairs)
    assert bool(world.trims) == able
    assert bool(world.drops) != able


# ---- hints -------------------------------------------------------------------------------------------------------


def test_hints_divide_the_initial_window() -> None:
    full = window(FarEnd(transport=NSCC))
    assert window(FarEnd(transport=NSCC, attributes=QpAttributes(num_remote_recv_peers=8))) == full // 8
    both = QpAttributes(num_remote_recv_peers=4, num_send_peers=5)
    assert window(FarEnd(transport=NSCC, attributes=both)) == full // 5
    assert window(FarEnd(transport=NSCC, attributes=QpAttributes(num_remote_recv_peers=60_000))) == 4096


def test_hints_set_the_active_set_size_unless_given() -> None:
    def active(**hints: int) -> int:
        end = FarEnd(uplinks=128, transport=NSCC, attributes=QpAttributes(**hints))
        return sum(p.active for p in end.nic.qp_paths(end.qpn))

    packets = 2 * 10_000_000_000 * 120_000 * 3 // 16_000_000_000 // 4096  # of 1.5 bandwidth-delay products
    assert active() == 224, "all but the backups"
    assert active(num_qps_per_peer=1) == active(num_remote_recv_peers=1) == 2 * packets // 2 * 2
    assert active(num_qps_per_peer=4) == 2 * packets // 4 // 2 * 2
    assert active(num_send_peers=4, num_qps_per_peer=2) == 2 * (packets // 4) // 2 // 2 * 2
    assert active(num_send_peers=1000) == 8, "four a plane"
    assert active(num_send_peers=1000, active_paths=64) == 64


def test_an_announced_incast_starts_with_few_trims() -> None:
    """Eight NICs write to a ninth at once; with that hint, they do not begin at line rate."""

    def trims(hint: int) -> int:
        world = CongestedWorld(9, TransportSettings(base_rtt=BASE_RTT), seed=2)
        attributes = QpAttributes(num_remote_recv_peers=hint)
        pairs = [connect(world, number, 8, size=1 << 18, attributes=attributes) for number in range(8)]
        for near, far in pairs:
            near.write(far, 1 << 18)
        assert world.run(100 * MS, until=lambda: all(near.done or near.poll() for near, _far in pairs))
        return world.trims

    without, informed = trims(0), trims(8)
    assert without > 100
    assert informed * 5 < without


# ---- timestamps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tick", "flags"), [(TimestampTick.US, headers.TS_TICK_1US), (TimestampTick.NS128, headers.TS_TICK_128NS)]
)
def test_both_timestamp_units_give_the_same_rtts(tick: TimestampTick, flags: int) -> None:
    end = FarEnd(planes=1, settings=ProtocolSettings(timestamp_tick=tick))
    end.write(4096)
    (packet,) = end.data()
    assert packet.stamp == end.now // tick.value & 0xFFFF
    assert int.from_bytes(packet.body[18:20], "big") == flags
    end.pass_time(30 * US)
    end.sack(0, of=packet)
    assert [p.rtt for p in end.nic.qp_paths(end.qpn) if p.rtt] == [30 * US]
