import asyncio

import numpy as np
import pytest

from mrc_lab.workloads.collectives import HierarchicalCommunicator, LocalMeeting, ReduceOp, StreamSettings
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork

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
