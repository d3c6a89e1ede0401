import numpy as np
import pytest

from mrc_lab.perf.cases import CASES, contribution, differing
from mrc_lab.perf.plan import DATATYPES
from mrc_lab.workloads.collectives import ReduceOp

# nccl-tests' PERFORMANCE.md, for 8 ranks
FACTORS = {
    "all_reduce": 2 * 7 / 8,
    "all_gather": 7 / 8,
    "reduce_scatter": 7 / 8,
    "alltoall": 7 / 8,
    "sendrecv": 1,
    "broadcast": 1,
}


@pytest.mark.parametrize("name", CASES)
def test_bus_factors_follow_nccl_tests(name):
    assert CASES[name].bus_factor(8) == pytest.approx(FACTORS[name])


@pytest.mark.parametrize(
    ("name", "count", "send", "receive"),
    [
        ("all_reduce", 256, 256, 256),
        ("all_gather", 64, 64, 256),
        ("reduce_scatter", 64, 256, 64),
        ("alltoall", 64, 256, 256),
        ("sendrecv", 256, 256, 256),
        ("broadcast", 256, 256, 256),
    ],
)
def test_buffer_shapes_of_one_kibibyte_on_four_ranks(name, count, send, receive):
    shape = CASES[name].shape(1024, np.dtype(np.float32), 4)
    assert (shape.count, shape.send, shape.receive, shape.nbytes) == (count, send, receive, 1024)


def test_sizes_are_rounded_down_to_whole_elements_per_rank_but_never_to_zero():
    gather = CASES["all_gather"]
    assert gather.shape(1000, np.dtype(np.float64), 3).nbytes == 41 * 3 * 8
    assert gather.shape(1, np.dtype(np.float64), 3).nbytes == 24
    assert CASES["all_reduce"].shape(1, np.dtype(np.int8), 3).nbytes == 1


def test_in_place_buffers_overlap_as_the_operation_requires():
    data = np.arange(4, dtype=np.int32)
    gather = CASES["all_gather"]
    buffers = gather.buffers(gather.shape(48, data.dtype, 3), data, 1, 3, in_place=True)
    assert buffers.receive.size == 12
    assert np.shares_memory(buffers.send, buffers.receive[4:8])
    assert (buffers.receive[4:8] == data).all()
    data = np.arange(12, dtype=np.int32)
    scatter = CASES["reduce_scatter"]
    buffers = scatter.buffers(scatter.shape(48, data.dtype, 3), data, 2, 3, in_place=True)
    assert np.shares_memory(buffers.receive, buffers.send[8:12])
    assert buffers.receive.size == 4


@pytest.mark.parametrize("name", CASES)
def test_out_of_place_buffers_are_disjoint_and_start_stale(name):
    case = CASES[name]
    shape = case.shape(96, np.dtype(np.uint8), 3)
    buffers = case.buffers(shape, np.zeros(shape.send, np.uint8), 0, 3, in_place=False)
    assert not np.shares_memory(buffers.send, buffers.receive)
    assert set(buffers.receive) == {0xA5}


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("op", ReduceOp)
def test_contributions_depend_on_seed_and_rank(datatype, op):
    dtype = np.dtype(DATATYPES[datatype])
    first = contribution(1, 0, 100, dtype, op, 4)
    assert first.dtype == dtype
    assert first.size == 100
    assert first.tobytes() == contribution(1, 0, 100, dtype, op, 4).tobytes()
    assert first.tobytes() != contribution(1, 1, 100, dtype, op, 4).tobytes()
    assert first.tobytes() != contribution(2, 0, 100, dtype, op, 4).tobytes()


@pytest.mark.parametrize("datatype", ["int8", "uint8", "int32"])
def test_averages_of_integers_do_not_overflow(datatype):
    dtype = np.dtype(DATATYPES[datatype])
    parts = [contribution(1, rank, 1000, dtype, ReduceOp.AVG, 8) for rank in range(8)]
    exact = sum(part.astype(object) for part in parts) // 8
    assert (CASES["all_reduce"].expected(parts, 0, ReduceOp.AVG, -1) == exact).all()


def test_differing_counts_elements_and_distinguishes_nans():
    left = np.array([1.0, 2.0, np.nan, 0.0])
    right = left.copy()
    assert differing(left, right) == 0
    right.view(np.uint8)[8:16] ^= 0xFF
    right[3] = -0.0
    assert differing(left, right) == 2
