import asyncio
import random

import numpy as np
import pytest

from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives import HierarchicalCommunicator, LocalMeeting, ReduceOp, StreamSettings
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork
from tests.mrc_lab.workloads.collectives.joins import Late, held
from tests.simulation.worlds import small_world

SMALL = StreamSettings(chunk_bytes=256, slots=3, tail_bytes=100)


def on_fakes(world, clusters, job, seed=1):
    async def everything():
        network, meeting = FakeNetwork(seed), LocalMeeting(world)
        ranks = await asyncio.gather(
            *(
                HierarchicalCommunicator.join(network.device(n), meeting.rank(n), SMALL, clusters=clusters)
                for n in range(world)
            )
        )
        return await asyncio.gather(*(job(rank) for rank in ranks))

    return asyncio.run(asyncio.wait_for(everything(), 60))


@pytest.mark.parametrize(("world", "clusters"), [(8, 2), (6, 3), (6, 2), (4, 4), (4, 1), (1, 1)])
@pytest.mark.parametrize("op", list(ReduceOp))
@pytest.mark.parametrize("in_place", [False, True])
def test_every_rank_gets_the_sum_of_all_ranks(world, clusters, op, in_place):
    rng = np.random.default_rng((world, clusters))
    given = rng.integers(1, 4, (world, 12 * 97)).astype(np.float64)

    async def job(rank):
        send = given[rank.rank].copy()
        receive = send if in_place else np.zeros_like(send)
        await rank.all_reduce(send, receive, op)
        await rank.drain()
        if not in_place:
            assert (send == given[rank.rank]).all(), "what was given stays as it is"
        return receive

    results = on_fakes(world, clusters, job)
    how = {ReduceOp.SUM: np.sum, ReduceOp.PROD: np.prod, ReduceOp.MIN: np.min, ReduceOp.MAX: np.max}
    expected = how.get(op, np.mean)(given, axis=0)
    for result in results:
        assert result.tobytes() == results[0].tobytes(), "the same bits"
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_inter_cluster_streams_carry_only_a_share_of_the_data():
    async def job(rank):
        array = np.ones(4096, np.uint8)
        await rank.all_reduce(array)
        await rank.drain()
        received = {peer: stream.bytes for peer, stream in rank.receivers.items()}
        return rank.world, set(rank.senders), received

    for rank, (world, peers, received) in enumerate(on_fakes(8, 2, job)):
        cluster, number = divmod(rank, 4)
        like = (1 - cluster) * 4 + number
        assert world == 8
        assert peers == {cluster * 4 + (number + 1) % 4, like}
        # inside: reduce-scatter and all-gather over 4 ranks, 3/4 each; across: one segment's all-reduce over 2
        assert received == {cluster * 4 + (number - 1) % 4: 2 * 3 * 1024, like: 2 * 512}


def test_indivisible_ranks_and_unsuitable_arrays_are_refused():
    async def unfit(rank):
        with pytest.raises(ValueError, match="7 elements cannot be dealt out evenly to 2 ranks"):
            await rank.all_reduce(np.ones(7))

    on_fakes(4, 2, unfit)
    with pytest.raises(ValueError, match="6 ranks cannot be divided evenly among 4 clusters"):
        on_fakes(6, 4, unfit)


def test_concurrent_calls_are_carried_out_whole_in_call_order():
    """Equal lengths, so that a part of one would fit where a part of another is due, and ranks that are not in step."""
    for seed in range(20):
        rng = random.Random(seed)

        async def job(rank, rng=rng):
            arrays = [np.full(600, (k + 1) * 10**rank.rank, np.int64) for k in range(3)]
            calls = []
            for array in arrays:
                calls.append(asyncio.ensure_future(rank.all_reduce(array)))
                for _ in range(rng.choice((0, 0, 200))):
                    await asyncio.sleep(0)
            await asyncio.gather(*calls)
            return [np.unique(array).tolist() for array in arrays]

        for result in on_fakes(4, 2, job, seed):
            assert result == [[1111], [2222], [3333]], f"seed {seed}"


@pytest.mark.parametrize("turns", range(1, 200, 6))
def test_after_a_cancelled_call_no_other_rank_gets_wrong_sums(turns):
    """Rank 0 gives up at some moment and calls another: what that sends must not end up in the others' first."""

    async def job(rank):
        array = np.full(600, 10**rank.rank, np.int64)
        call = asyncio.ensure_future(rank.all_reduce(array))
        if rank.rank == 0:
            for _ in range(turns):
                await asyncio.sleep(0)
            if call.done():
                return
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            for _ in range(2):
                with pytest.raises(TransferError, match="rank 0 cancelled an operation before its end"):
                    await asyncio.wait_for(rank.all_reduce(np.full(600, 7, np.int64)), 5)
            return
        done, _ = await asyncio.wait([call], timeout=0.05)
        if done and call.exception() is None:
            assert (array == 1111).all()
        elif not done:
            call.cancel()

    on_fakes(4, 2, job, turns)


def test_the_failure_of_one_ring_ends_the_other():
    async def job(rank):
        if rank.rank == 0:
            for ring, other in ((rank.inside, rank.across), (rank.across, rank.inside)):
                ring.fail(TransferError("the cable is cut"))
                for each in (ring, other, rank):
                    with pytest.raises(TransferError, match="the cable is cut"):
                        await each.all_reduce(np.ones(4))

    on_fakes(4, 2, job)


def test_a_refused_call_leaves_the_rings_unchanged():
    async def job(rank):
        for arrays in ((np.ones(4), np.ones(6)), (np.ones((2, 2)),), (np.ones(4), np.ones(4, np.int32))):
            with pytest.raises(ValueError, match=r"fit|one-dimensional|cannot move"):
                await rank.all_reduce(*arrays)
        with pytest.raises(ValueError, match="no average of bool"):
            await rank.all_reduce(np.ones(4, bool), op=ReduceOp.AVG)
        value = np.ones(4)
        await rank.all_reduce(value)
        assert (value == 4).all()

    on_fakes(4, 2, job)


def test_a_join_that_fails_across_clusters_leaves_nothing_of_the_ring_inside():
    with small_world() as world:
        contexts = [world.open(f"h{number}") for number in range(1, 5)]
        nics = [world.nic(f"h{number}") for number in range(1, 5)]

        async def main():
            meeting = LocalMeeting(4)
            exchanges = [Late(meeting.rank(rank), "across/connected") for rank in range(4)]
            joins = [
                asyncio.ensure_future(HierarchicalCommunicator.join(context, exchange, clusters=2))
                for context, exchange in zip(contexts, exchanges, strict=True)
            ]
            await asyncio.sleep(0.001)
            assert [held(nic) for nic in nics] == [(4, 2, 2)] * 4
            for join in joins:
                join.cancel()
            await asyncio.wait(joins)
            assert all(join.cancelled() for join in joins)

        world.run(main())
        assert [held(nic) for nic in nics] == [(0, 0, 0)] * 4
