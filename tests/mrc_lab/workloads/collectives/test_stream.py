"""Streams whose chunks are split among queue pairs, and whose senders wait for acknowledgements."""

import asyncio

import numpy as np
import pytest

from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives.communicator import Communicator
from mrc_lab.workloads.collectives.layout import parts
from mrc_lab.workloads.collectives.settings import StreamSettings
from tests.mrc_lab.workloads.collectives.fakes import FakeExchange, FakeNetwork
from tests.seeds import SEED


async def join(network, world, **settings):
    exchange = FakeExchange(world)
    devices = [network.device(n) for n in range(world)]
    given = StreamSettings(**settings)
    return await asyncio.gather(*(Communicator.join(devices[r], exchange.rank(r), given) for r in range(world)))


async def reduce(ranks, elements):
    given = np.arange(elements, dtype=np.float64)
    results = [np.zeros(elements) for _ in ranks]
    await asyncio.gather(*(rank.all_reduce(given, result) for rank, result in zip(ranks, results, strict=True)))
    for result in results:
        np.testing.assert_array_equal(result, given * len(ranks))


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


@pytest.mark.parametrize(("length", "pairs"), [(1, 4), (128, 4), (129, 4), (4096, 16), (5000, 3), (100_000, 16)])
def test_parts_cover_a_chunk_and_begin_at_multiples_of_128_bytes(length, pairs):
    found = parts(length, pairs)
    assert len(found) <= pairs
    assert [part.offset for part in found] == [0, *(part.end for part in found[:-1])]
    assert found[-1].end == length
    assert all(part.offset % 128 == 0 for part in found)


@pytest.mark.parametrize("unacknowledged", [0, 1])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("pairs", [1, 3])
def test_results_are_the_same_however_chunks_are_sent(split, pairs, unacknowledged):
    seed = SEED
    print("seed", seed)

    async def main():
        settings = {"chunk_bytes": 1000, "tail_bytes": 64, "queue_pairs": pairs, "split": split}
        ranks = await join(FakeNetwork(seed), 3, **settings, unacknowledged=unacknowledged)
        for elements in (5000, 1, 37, 5000):
            await reduce(ranks, elements)
        assert all(rank.transfer.wrong_bytes == 0 for rank in ranks)

    run(main())


def test_a_split_chunk_has_a_part_on_every_queue_pair():
    async def main():
        network = FakeNetwork(1)
        ranks = await join(network, 2, chunk_bytes=20000, tail_bytes=64, queue_pairs=4, split=True)
        await reduce(ranks, 5000)  # 20000 bytes a segment: one chunk of four parts, in either half, from either rank
        await asyncio.gather(*(rank.drain() for rank in ranks))
        assert network.imm_count == network.plain_count == 2 * 2 * 4

    run(main())


def test_a_sender_waits_until_as_many_chunks_as_it_may_have_are_acknowledged():
    async def most_under_way(unacknowledged):
        network = FakeNetwork(1)
        ranks = await join(network, 2, chunk_bytes=1000, tail_bytes=64, slots=8, unacknowledged=unacknowledged)
        network.stalled = True
        tasks = [asyncio.ensure_future(rank.all_reduce(np.ones(4000), np.zeros(4000))) for rank in ranks]
        for _ in range(100):
            await asyncio.sleep(0)
        most = max(pair.open_imms for pair in network.pairs.values())
        network.stalled = False
        await asyncio.gather(*tasks)
        return most

    assert run(most_under_way(1)) == 1
    assert run(most_under_way(3)) == 3
    assert run(most_under_way(0)) == 8


def test_a_part_of_another_length_is_an_error():
    async def main():
        ranks = await join(FakeNetwork(1), 2, chunk_bytes=2000, tail_bytes=500, queue_pairs=2, split=True)
        sizes = (100, 60)
        calls = (rank.all_reduce(np.ones(size), np.zeros(size)) for rank, size in zip(ranks, sizes, strict=True))
        with pytest.raises(TransferError, match="another length"):
            await asyncio.gather(*calls)

    run(main())
