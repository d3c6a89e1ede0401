import asyncio

import numpy as np
import pytest

from mrc_host.verbs.remote.codec import from_json, to_json
from mrc_lab.errors import ExperimentError
from mrc_lab.perf.cases import CASES
from mrc_lab.perf.measure import RankMeasurement, ResultRow, run_ranks
from mrc_lab.perf.plan import DATATYPES, Average, PerfPlan
from mrc_lab.workloads.collectives import ReduceOp, StreamSettings
from simulation.world import SimulatedWorld
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork
from tests.simulation.worlds import small_world
from topologies.clos import multi_plane_clos

SMALL = StreamSettings(chunk_bytes=512, slots=4, tail_bytes=128)


def plan(case, **changes):
    return PerfPlan(case, **{"sizes": (64, 5000), "iterations": 2, "warmup": 1, "streams": SMALL, **changes})


class Ticks:
    """A clock that moves by one microsecond whenever it is read."""

    def __init__(self):
        self.time = 0

    def __call__(self):
        self.time += 1000
        return self.time


def on_fakes(world, the_plan, *, clock=None, network=None, **callbacks):
    network = network or FakeNetwork(1)
    devices = [network.device(number) for number in range(world)]
    return asyncio.run(asyncio.wait_for(run_ranks(devices, the_plan, clock, **callbacks), 60))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("world", [1, 2, 5])
def test_every_case_is_verified_with_consistent_metrics(case, world):
    report = on_fakes(world, plan(case, checks=2))
    assert [row.size for row in report.rows] == [CASES[case].shape(s, np.dtype("f4"), world).nbytes for s in (64, 5000)]
    for row in report.rows:
        assert (row.in_place is None) == (case in ("alltoall", "sendrecv"))
        for timing in row.timings:
            assert timing.wrong == 0
            assert timing.time > 0
            assert timing.algorithm == pytest.approx(row.size * 1e9 / timing.time)
            assert timing.bus == pytest.approx(timing.algorithm * CASES[case].bus_factor(world))
    assert report.wrong == 0
    assert (report.transfer.chunks > 0) == (world > 1)


@pytest.mark.parametrize("case", ["all_reduce", "reduce_scatter"])
def test_every_type_and_reduction_is_measured(case):
    report = on_fakes(3, plan(case, sizes=(900,), datatypes=tuple(DATATYPES), reductions=tuple(ReduceOp), warmup=0))
    assert report.wrong == 0
    assert {(row.datatype, row.reduction) for row in report.rows} == {
        (d, op.value) for d in DATATYPES for op in ReduceOp
    }


def test_every_root_is_measured():
    report = on_fakes(3, plan("broadcast", sizes=(100,), root=-1))
    assert [row.root for row in report.rows] == [0, 1, 2]
    assert report.wrong == 0
    assert [row.root for row in on_fakes(3, plan("all_gather", sizes=(100,), root=-1)).rows] == [-1]


def test_sizes_rounding_to_the_same_are_measured_once():
    assert [row.size for row in on_fakes(4, plan("all_gather", sizes=(1, 2, 16, 40))).rows] == [16, 32]


def test_cycles_repeat_everything():
    assert [row.size for row in on_fakes(2, plan("sendrecv", sizes=(8, 16), cycles=2)).rows] == [8, 16, 8, 16]


def test_without_checks_no_error_count_is_shown():
    report = on_fakes(2, plan("all_reduce", checks=0))
    assert {timing.wrong for row in report.rows for timing in row.timings} == {None}
    assert report.wrong == 0


def test_time_is_measured_per_operation():
    report = on_fakes(1, plan("all_reduce", sizes=(1000,), iterations=4), clock=Ticks())
    assert report.rows[0].out_of_place.time == 250
    assert report.rows[0].out_of_place.algorithm == pytest.approx(1000 / 250e-9)


@pytest.mark.parametrize(("average", "value"), [*zip(Average, [10, 20, 5, 45], strict=True)])
def test_times_of_ranks_are_combined_as_requested(average, value):
    assert average.of([10, 5, 20, 45]) == value


def test_a_corrupted_byte_in_a_timed_operation_counts_as_one_chunk():
    network = FakeNetwork(3)
    network.corrupt_next = 1  # the very first operation's; only the CRC can show it
    report = on_fakes(2, plan("all_gather", sizes=(1000,), warmup=0), network=network)
    assert report.transfer.wrong_chunks == report.wrong == 1
    assert report.rows[0].out_of_place.wrong == 0


def test_a_corrupted_byte_in_a_check_counts_as_one_element(monkeypatch):
    network = FakeNetwork(3)
    check = RankMeasurement._wrong  # private: nothing public runs between a timed operation and its check

    async def with_a_spoiled_byte(self, *arguments):
        network.corrupt_next = 1 if self._ranks.rank == 0 else 0
        return await check(self, *arguments)

    monkeypatch.setattr(RankMeasurement, "_wrong", with_a_spoiled_byte)
    report = on_fakes(2, plan("sendrecv", sizes=(1000,), warmup=0), network=network)
    assert report.rows[0].out_of_place.wrong == report.transfer.wrong_chunks == 1
    assert report.wrong == 2


def test_a_size_that_takes_too_long_ends_the_run():
    network = FakeNetwork(4)
    network.stalled = True
    with pytest.raises(ExperimentError, match=r"longer than 0\.05 s"):
        on_fakes(2, plan("all_reduce", timeout=0.05), network=network)


def test_a_root_that_does_not_exist_is_refused():
    with pytest.raises(ExperimentError, match="no rank 2"):
        on_fakes(2, plan("broadcast", root=2))


def test_rows_are_reported_as_measured_and_survive_json():
    rows_seen = []
    report = on_fakes(2, plan("alltoall"), on_row=rows_seen.append)
    assert tuple(rows_seen) == report.rows
    assert [from_json(ResultRow, to_json(row)) for row in rows_seen] == rows_seen
    inplace = on_fakes(2, plan("all_reduce")).rows
    assert tuple(from_json(ResultRow, to_json(row)) for row in inplace) == inplace


@pytest.mark.parametrize("case", CASES)
def test_on_real_nics_with_loss_every_byte_is_correct(case):
    with small_world(9) as world:
        world.faults.loss("h*@*", 0.01)
        contexts = [world.open(nic.name) for nic in world.fabric.nics]
        streams = StreamSettings(attributes=world.attributes())
        report = world.run(run_ranks(contexts, plan(case, sizes=(100, 60_000), streams=streams)))
    assert report.wrong == 0
    assert report.transfer.chunks > 0


def test_in_simulation_time_is_virtual_and_results_repeatable():
    rate, planes = 25_000_000_000, 2

    def once():
        with SimulatedWorld(multi_plane_clos(planes=planes, t0=2, t1=2, hosts=4), seed=7, rate=rate) as world:
            streams = StreamSettings(attributes=world.attributes())
            contexts = [world.open(nic.name) for nic in world.fabric.nics]
            return world.run(run_ranks(contexts, plan("all_reduce", sizes=(1 << 20,), streams=streams)))

    first, second = once(), once()
    assert first == second
    assert first.wrong == 0
    port = rate * planes / 8
    assert 0.5 * port < first.rows[0].out_of_place.bus < port
