"""Dynamic MPR: the range follows the receiver, needs both ends, and stays within its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.errors import InvalidArgumentError
from mrc_host.verbs_types import QpAttributes, QpState
from mrc_host.wire import control, opcodes
from tests.mrc_host.nic_world import MS, World, connect
from tests.mrc_host.transport.far_end import FIRST_OUT, FarEnd, Packet

SMALL = {"path_mtu": 256, "congestion_window": 1 << 30}


def units(far: FarEnd, packets: list[Packet]) -> list[int]:
    return [p.sack.mpr for p in packets if p.opcode == opcodes.SACK]


def window(far: FarEnd) -> int:
    """How many packets go out before the range is used up (the congestion window never is)."""
    return len(far.data(100_000))


def test_without_the_capability_sacks_carry_no_mpr_and_offers_are_ignored() -> None:
    far = FarEnd(attributes=QpAttributes(**SMALL, mpr_dest=1))
    far.segment(0, flags=1 << 31, length=100)
    assert units(far, far.drain()) == [0]
    far.write(1 << 18)
    assert window(far) == 127
    offer(far, 200)
    assert window(far) == 0


def offer(far: FarEnd, mpr: int, cack: int = -1) -> None:
    """A SACK that acknowledges up to `cack` and offers `mpr`."""
    far.units += 1
    psn = (FIRST_OUT + cack) & 0xFFFFFF
    sack = control.Sack(entropy=0xFFFFFFFF, cack_psn=psn, mpr=mpr, bitmap_offset=1, rcvd_units=far.units)
    far.send(control.pack_sack(far.qpn, sack), dscp=46, ecn=0)


@pytest.mark.parametrize(("mpr", "expected"), [(1, 127), (2, 255), (3, 383), (255, 383), (0, 127)])
def test_the_sender_follows_the_offered_mpr_up_to_its_own_limit(mpr: int, expected: int) -> None:
    far = FarEnd(attributes=QpAttributes(**SMALL, mpr_dest=1, dynamic_mpr=3))
    far.write(1 << 18)
    assert window(far) == 127
    offer(far, mpr)
    assert 127 + window(far) == expected


def test_a_smaller_mpr_stops_the_sender_until_the_range_has_room() -> None:
    far = FarEnd(attributes=QpAttributes(**SMALL, mpr_dest=4, dynamic_mpr=4))
    far.write(1 << 18)
    assert window(far) == 511
    offer(far, 1, 100)
    assert window(far) == 0
    offer(far, 1, 400)
    assert window(far) == 17  # 401 acknowledged, 528 may have been sent


def test_outdated_mpr_offers_are_ignored() -> None:
    far = FarEnd(attributes=QpAttributes(**SMALL, mpr_dest=1, dynamic_mpr=8))
    far.write(1 << 18)
    window(far)
    far.units = 10
    offer(far, 4)
    assert window(far) == 511 - 127
    far.units = 2
    offer(far, 8)
    assert window(far) == 0


def test_the_receiver_grows_its_mpr_to_the_limit_and_accepts_all_it_offered() -> None:
    far = FarEnd(attributes=QpAttributes(path_mtu=256, mpr=1, dynamic_mpr=3))
    seen = []
    for psn in range(4):
        far.segment(psn, msn=psn, length=100, flags=1 << 31)
        seen += units(far, far.drain())
    assert seen == [2, 3, 3, 3]
    far.segment(4 + 382, msn=4 + 382, length=100, flags=1 << 31)  # the last one within the cap
    assert far.nic.qp_counters(far.qpn).data_received == 5
    far.segment(4 + 383, msn=4 + 383, length=100, flags=1 << 31)
    packets = far.drain()
    assert [p.nack.reason for p in packets if p.opcode == opcodes.NACK] == [0x0B]


def test_a_full_receive_queue_shrinks_the_mpr_to_its_minimum_until_polled() -> None:
    far = FarEnd(attributes=QpAttributes(path_mtu=256, mpr=64, dynamic_mpr=64), capacity=1)
    seen = []
    for psn in range(8):
        far.segment(psn, kind=opcodes.ONLY_IMM, msn=psn, rqmsn=psn, imm=1, length=100, flags=1 << 31)
        seen += units(far, far.drain())
    assert seen == [64, 32, 16, 8, 8, 8, 8, 8]
    while far.poll():
        pass
    far.segment(8, msn=8, length=100, flags=1 << 31)
    assert units(far, far.drain()) == [9]


@pytest.mark.parametrize("caps", [(0, 0), (16, 0), (0, 16), (16, 16)])
def test_every_combination_of_capabilities_transfers_data(caps: tuple[int, int]) -> None:
    world = World(uplinks=8)
    one, two = connect(world)
    for end, cap in zip((one, two), caps, strict=True):
        end.nic.modify_qp(end.qpn, QpState.RESET, world.now)
        end.nic.modify_qp(end.qpn, QpState.INIT, world.now)
        far = two if end is one else one
        remote = far.nic.qp_address(far.qpn)
        narrow = {"path_mtu": 256, "mpr": 1, "dynamic_mpr": cap}
        end.nic.modify_qp(end.qpn, QpState.RTR, world.now, narrow, remote=remote)
        end.nic.modify_qp(end.qpn, QpState.RTS, world.now, {"mpr_dest": 1, "congestion_window": 1 << 20})
    start = world.now
    one.write(two, 1 << 20)
    assert world.run(5000 * MS, until=lambda: any(c.wr_id == 1 for c in one.poll()))
    assert two.buffer == one.buffer
    took = world.now - start
    # 4096 packets over 2 planes at 1 us each: 2.05 ms at line rate; a range of 127 in a round trip of 22 us is enough
    assert took < 3 * MS


@given(st.lists(st.integers(0, 255), max_size=30), st.integers(1, 255))
def test_no_sequence_of_offers_exceeds_the_senders_limit(offers: list[int], cap: int) -> None:
    far = FarEnd(attributes=QpAttributes(path_mtu=256, congestion_window=1 << 30, mpr_dest=1, dynamic_mpr=cap))
    far.write(1 << 18)
    sent = window(far)
    for mpr in offers:
        offer(far, mpr)
        sent += window(far)
    assert sent <= max(cap * 128 - 1, 127)


def test_mpr_attributes_out_of_range_are_refused() -> None:
    for bad in (-1, 256):
        with pytest.raises(InvalidArgumentError, match="dynamic_mpr"):
            FarEnd(attributes=QpAttributes(dynamic_mpr=bad))
