"""What ranks send is different wherever it may be mixed up, and what they shall receive follows from it."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from mrc_lab.experiments.files.workloads import OPERATIONS
from mrc_lab.experiments.running import collective_data
from mrc_lab.experiments.running.collective_data import CYCLES, contributions


@pytest.fixture(params=[CYCLES, (23, 31)])
def cycle(request, monkeypatch):
    """With values that need not be repeated, and with values that are."""
    monkeypatch.setattr(collective_data, "CYCLES", request.param)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_expected_results_are_computed(operation, cycle):
    world, part = 4, 17
    given = contributions(operation, world, world * part, 7)
    sends = [send for send, _ in given]
    pieces = [slice(rank * part, (rank + 1) * part) for rank in range(world)]
    for rank, (_, expected) in enumerate(given):
        right = {
            "all_reduce": sum(sends),
            "reduce_scatter": sum(sends)[pieces[rank]],
            "all_gather": np.concatenate(sends),
            "all_to_all": np.concatenate([send[pieces[rank]] for send in sends]),
            "send_receive": sends[rank - 1],
            "broadcast": sends[0],
        }[operation]
        assert np.array_equal(expected.array(), right)
        assert expected.size == right.size
        assert expected.wrong_bytes(right.copy()) == 0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_wrong_element_is_counted(operation, cycle):
    (_, expected), *_ = contributions(operation, 3, 3 * 29, 7)
    for wrong in ([0], [expected.size - 1], [3, 17, 28], range(expected.size)):
        received = expected.array()
        received[list(wrong)] += 1
        assert expected.wrong_bytes(received) == 4 * len(wrong)


def test_no_two_ranks_send_the_same_packet_or_chunk():
    sends = [send for send, _ in contributions("all_reduce", 64, 1 << 16, 7)]
    packets = {send[at : at + 1024].tobytes() for send in sends for at in range(0, send.size, 1024)}
    assert len(packets) == 64 * 64


def test_a_packet_in_the_place_of_another_is_seen_also_where_values_are_repeated():
    """16 ranks with 16 MiB each: fewer than one in 100,000 pairs of their packets are the same."""
    sends = [send for send, _ in contributions("all_reduce", 16, 1 << 22, 7)]
    packets = Counter(send[at : at + 1024].tobytes() for send in sends for at in range(0, send.size, 1024))
    assert sum(count * (count - 1) // 2 for count in packets.values()) < math.comb(16 << 12, 2) / 100_000


@pytest.mark.parametrize("part", [1 << 20, CYCLES[0], CYCLES[1], 2 * CYCLES[0]])
def test_parts_of_one_rank_and_the_same_part_of_two_are_different(part):
    sends = [send for send, _ in contributions("all_reduce", 3, 3 * part, 7)]
    parts = [send[rank * part : (rank + 1) * part] for send in sends for rank in range(3)]
    assert all(np.count_nonzero(one != other) > 0.9 * part for one, other in itertools.combinations(parts[:3], 2))
    assert all(np.count_nonzero(one != other) > 0.9 * part for one, other in itertools.combinations(parts[::3], 2))


@pytest.mark.parametrize("part", [4096, 4099, 4111, 4099 * 4111, CYCLES[0], CYCLES[0] + 4099])
def test_an_exchange_that_never_happened_would_be_seen(part):
    for send, expected in contributions("all_to_all", 3, 3 * part, 7):
        assert np.count_nonzero(send != expected.array()) > part


def test_what_ranks_send_cannot_be_overwritten():
    for elements in (16, 2 * CYCLES[0]):
        (send, _), *_ = contributions("all_reduce", 2, elements, 7)
        with pytest.raises(ValueError, match="read-only"):
            send[:] = 0


def test_large_worlds_share_memory():
    given = contributions("all_reduce", 64, 1 << 22, 7)
    assert all(np.shares_memory(send, given[0][0]) for send, _ in given)
    assert len({id(piece.cycle) for _, expected in given for piece in expected.pieces}) == 1
