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


def test_an_unanswered_probe_is_repeated_on_all_planes() -> None:
    """All but one may be silent; one or two at a time would find that one only after many round trips."""
    probes = ReliabilityProbes()
    probes.request(0, 0b101, True)
    assert probes.mask == 0b101


def repeated(probes: ReliabilityProbes, usable: int) -> dict[int, int]:
    """Plane and path of each probe when one was not answered and nothing is in flight."""
    probes.request(0, usable, True)
    return {plane: probes.take(plane) for plane in range(8) if probes.mask >> plane & 1}


def answer(probes: ReliabilityProbes, plane: int, path: int, sent: int) -> None:
    probes.answered(probes.sent(plane, path, sent))


def test_one_of_the_repeated_probes_takes_the_path_that_answered_last() -> None:
    probes = ReliabilityProbes()
    answer(probes, 2, 17, 1000)
    answer(probes, 1, 11, 900)  # sent before, so it says less
    for _ in range(2):
        assert repeated(probes, 0b1111) == {0: -1, 1: -1, 2: 17, 3: -1}


def test_an_answered_path_of_a_plane_that_is_down_is_not_asked() -> None:
    probes = ReliabilityProbes()
    answer(probes, 2, 17, 1000)
    assert sorted(repeated(probes, 0b0011).items()) == [(0, -1), (1, -1)]
    assert repeated(probes, 0b0100) == {2: 17}, "the only plane"


def test_a_probe_for_packets_in_flight_is_joined_by_one_on_the_path_that_answered() -> None:
    """Those on the planes of the packets may be lost like these, and then nobody learns that they are."""
    probes = ReliabilityProbes()
    answer(probes, 2, 17, 1000)
    probes.request(0b0001, 0b1111, False)
    assert {plane: probes.take(plane) for plane in range(8) if probes.mask >> plane & 1} == {0: -1, 2: 17}
    probes = ReliabilityProbes()
    answer(probes, 2, 17, 1000)
    probes.prefer(2, 19)
    probes.request(0b0100, 0b1111, False)
    assert probes.take(2) == 19, "a path that has opened since then"
    probes = ReliabilityProbes()
    probes.request(0b0001, 0b1111, False)
    assert probes.mask == 0b0001, "none has answered yet"
    answer(probes, 2, 17, 1000)
    probes.request(0b0001, 0b1011, False)
    assert probes.mask == 0b0001, "its plane is down"


def test_a_probe_that_was_not_answered_proves_nothing() -> None:
    probes = ReliabilityProbes()
    probes.sent(2, 17, 1000)
    probes.answered(9)
    assert set(repeated(probes, 0b1111).values()) == {-1}


def test_a_preferred_path_is_used_once() -> None:
    probes = ReliabilityProbes()
    probes.prefer(1, 17)
    assert [probes.take(1), probes.take(1)] == [17, -1]


def test_responses_are_matched_by_number_and_timestamp() -> None:
    probes = ReliabilityProbes()
    number = probes.sent(1, 17, 5_000_000)
    stamp = headers.timestamp(5_000_000)
    probe = probes.find(number, stamp)
    assert probe is not None
    assert probes.find(number, stamp ^ 1) is None, "it answers a probe of an earlier life"
    assert (probe.plane, probe.path, probe.sent) == (1, 17, 5_000_000)
    assert probes.in_flight(number, headers.timestamp(5_000_000))
    assert not probes.in_flight(number, headers.timestamp(5_000_000) ^ 1)
    probes.answered(number)
    assert probes.find(number, stamp) is None
    assert not probes.in_flight(number, headers.timestamp(5_000_000))


def test_few_probes_are_remembered_and_numbers_wrap() -> None:
    probes = ReliabilityProbes()
    numbers = [probes.sent(0, 1, now) for now in range(0x10010)]
    assert probes.unanswered == 32
    assert max(numbers) == 0xFFFF
    stamps = [headers.timestamp(now) for now in (0x1000F, 0x1000F - 32)]
    assert probes.find(numbers[-1], stamps[0]) is not None
    assert probes.find(numbers[-33], stamps[1]) is None


def test_when_its_path_is_forgotten_the_plane_that_answered_is_probed_on_any() -> None:
    probes = ReliabilityProbes()
    answer(probes, 2, 17, 1000)
    probes.forget_proven_path()
    probes.request(0b0001, 0b1111, False)
    assert {plane: probes.take(plane) for plane in (0, 2)} == {0: -1, 2: -1}
    assert not probes.mask
