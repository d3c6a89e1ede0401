import numpy as np
import pytest

from mrc_lab.workloads.collectives import ReduceOp, ring_reduce

PARTS = [np.array([7, -2, 3], np.int32), np.array([1, 5, -8], np.int32), np.array([2, 2, 1], np.int32)]


@pytest.mark.parametrize(
    ("op", "result"),
    [
        (ReduceOp.SUM, [10, 5, -4]),
        (ReduceOp.PROD, [14, -20, -24]),
        (ReduceOp.MIN, [1, -2, -8]),
        (ReduceOp.MAX, [7, 5, 3]),
        (ReduceOp.AVG, [3, 1, -2]),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_every_reduction_is_computed(op, result, first):
    assert ring_reduce(PARTS, op, first=first).tolist() == result


def test_floats_are_averaged_exactly():
    assert ring_reduce([np.array([1.0]), np.array([2.0])], ReduceOp.AVG).tolist() == [1.5]


def test_the_reduction_order_of_a_segment_starts_at_its_rank():
    # 1e16 + 1 - 1e16 depends on the order: 0 if 1 is added to 1e16 first.
    parts = [np.full(3, value) for value in (1e16, 1.0, -1e16)]
    assert ring_reduce(parts).tolist() == [0, 0, 1]
    assert ring_reduce(parts, first=1).tolist() == [0, 1, 0]


def test_the_inputs_are_not_modified():
    parts = [np.arange(4.0), np.arange(4.0)]
    ring_reduce(parts, ReduceOp.PROD)
    assert all((part == np.arange(4.0)).all() for part in parts)
