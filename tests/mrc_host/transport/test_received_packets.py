"""The bitmap of what arrived, against a plain set of PSNs."""

import random

from mrc_host.transport.received_packets import ReceivedPackets


def test_any_order_of_arrival_matches_a_set() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        first = rng.randrange(1 << 24)
        received, arrived = ReceivedPackets(first), set[int]()
        order = [first + n for n in range(rng.randrange(1, 200))]
        rng.shuffle(order)
        ahead = 0
        for psn in order:
            offset = psn - received.next_psn
            ahead += offset > 0
            received.add(psn, offset)
            arrived.add(psn)
            expected = next(n for n in range(first, first + 300) if n not in arrived)
            assert received.next_psn == expected, f"seed {seed}"
            shown = {expected + n for n in range(received.bitmap.bit_length()) if received.bitmap >> n & 1}
            assert shown == {n for n in arrived if n > expected}, f"seed {seed}"
            assert received.max_psn == max(arrived)
            assert received.psns_used() == max(arrived) + 1 - first
        assert received.out_of_order == ahead
        assert not received.bitmap


def test_holes_are_found_from_any_psn() -> None:
    received = ReceivedPackets(100)
    for psn in (102, 103, 105):
        received.add(psn, psn - 100)
    assert [received.next_hole(psn) for psn in (100, 101, 102, 103, 104, 105, 106)] == [
        100,
        101,
        104,
        104,
        104,
        106,
        106,
    ]


def test_a_hole_holds_up_what_comes_until_its_packet_does() -> None:
    received = ReceivedPackets(100)

    def held_up(*psns: int, again: bool = False) -> int:
        for psn in psns:
            received.add(psn, psn - received.next_psn, again)
        return received.held_up

    assert held_up(100, 101) == 0
    assert held_up(103, 104, 106) == 3
    assert held_up(102, again=True) == 1, "105 has been missing for as long, but holds up 106 alone"
    assert held_up(107) == 2
    assert held_up(105) == 0
    assert held_up(109) == 1


def test_nothing_received_means_no_psns_used() -> None:
    assert ReceivedPackets(7).psns_used() == 0
