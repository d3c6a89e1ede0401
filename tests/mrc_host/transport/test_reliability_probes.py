"""Which probes are due and which are on the way."""

from itertools import pairwise

from mrc_host.transport.reliability_probes import ReliabilityProbes
from mrc_host.wire import headers


def test_requested_planes_stay_due_until_their_probe_is_sent() -> None:
    probes = ReliabilityProbes()
    probes.request(0b110, 0b111, False)
    assert probes.mask == 0b110
    assert probes.take(1) == -1
    assert probes.mask == 0b100


def test_if_no_requested_plane_is_usable_probes_rotate_over_usable_ones() -> None:
    probes = ReliabilityProbes()
    asked = []
    for _ in range(4):
        probes.request(0, 0b101, False)
        asked.append(probes.mask)
        for plane in range(3):
            probes.take(plane)
    assert sorted(set(asked)) == [0b001, 0b100]
    assert all(one != other for one, other in pairwise(asked))


def test_an_unanswered_probe_is_repeated_on_two_planes() -> None:
    probes = ReliabilityProbes()
    probes.request(0, 0b111, True)
    assert probes.mask.bit_count() == 2


def test_a_preferred_path_is_used_once() -> None:
    probes = ReliabilityProbes()
    probes.prefer(1, 17)
    assert [probes.take(1), probes.take(1)] == [17, -1]


def test_responses_are_matched_by_number_and_timestamp() -> None:
    probes = ReliabilityProbes()
    number = probes.sent(1, 17, 5_000_000)
    probe = probes.find(number)
    assert probe is not None
    assert (probe.plane, probe.path, probe.sent) == (1, 17, 5_000_000)
    assert probes.in_flight(number, headers.timestamp(5_000_000))
    assert not probes.in_flight(number, headers.timestamp(5_000_000) ^ 1)
    probes.answered(number)
    assert probes.find(number) is None
    assert not probes.in_flight(number, headers.timestamp(5_000_000))


def test_few_probes_are_remembered_and_numbers_wrap() -> None:
    probes = ReliabilityProbes()
    numbers = [probes.sent(0, 1, now) for now in range(0x10010)]
    assert probes.unanswered == 32
    assert max(numbers) == 0xFFFF
    assert probes.find(numbers[-1]) is not None
    assert probes.find(numbers[-33]) is None
