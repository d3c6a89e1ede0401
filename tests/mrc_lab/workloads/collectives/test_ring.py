import asyncio
import random

import numpy as np
import pytest

from mrc_host.verbs_types import QpAttributes
from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives.ring import Ring, RingSettings, ring_sum
from tests.mrc_lab.workloads.collectives.fakes import FakeExchange, FakeNetwork
from tests.seeds import SEED


async def join(network, world, settings):
    exchange = FakeExchange(world)
    devices = [network.device(n) for n in range(world)]
    return await asyncio.gather(*(Ring.join(devices[r], exchange.rank(r), settings) for r in range(world)))


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


@pytest.mark.parametrize("world", [2, 3, 4, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_all_reduce_gives_every_rank_the_bitwise_ordered_sum(world, dtype):
    seed = SEED
    print("seed", seed)
    numbers = np.random.default_rng(seed)

    async def main():
        network = FakeNetwork(seed)
        rings = await join(network, world, RingSettings(max_bytes=40000, chunk_bytes=1000, tail_bytes=256))
        for size in (5000, 1, world - 1, 4999, 37, 5000, 5000):
            parts = [(numbers.standard_normal(size) * 1000).astype(dtype) for _ in range(world)]
            expected = ring_sum(parts)
            arrays = [part.copy() for part in parts]
            await asyncio.gather(*(ring.all_reduce(a) for ring, a in zip(rings, arrays, strict=True)))
            for array in arrays:
                assert array.tobytes() == expected.tobytes()
            np.testing.assert_allclose(expected, np.sum(parts, axis=0), rtol=1e-3, atol=1e-3)
        assert all(ring.transfer.wrong_bytes == 0 and ring.transfer.bytes > 0 for ring in rings)

    run(main())


def test_ranks_of_different_speed_never_overwrite_unconsumed_data():
    seed = SEED
    print("seed", seed)
    world, operations, size = 4, 40, 600

    async def rank_main(ring, rank, rng):
        for operation in range(operations):
            for _ in range(rng.randrange(200) if rng.random() < 0.3 else 0):
                await asyncio.sleep(0)
            array = np.arange(size, dtype=np.float64) * (rank + 1) + operation
            await ring.all_reduce(array)
            expected = ring_sum([np.arange(size, dtype=np.float64) * (r + 1) + operation for r in range(world)])
            assert array.tobytes() == expected.tobytes()
        await ring.drain()

    async def main():
        rings = await join(FakeNetwork(seed), world, RingSettings(max_bytes=8 * size, chunk_bytes=256, tail_bytes=64))
        rngs = [random.Random(seed + r) for r in range(world)]
        await asyncio.gather(*(rank_main(ring, r, rngs[r]) for r, ring in enumerate(rings)))
        assert sum(ring.transfer.wrong_bytes for ring in rings) == 0

    run(main())


def test_all_gather_returns_blocks_in_rank_order_between_all_reduces():
    async def main():
        world = 3
        rings = await join(FakeNetwork(1), world, RingSettings(max_bytes=9000, chunk_bytes=700, tail_bytes=100))
        for _ in range(3):
            blocks = [np.full(3000, rank + 1, dtype=np.uint8) for rank in range(world)]
            gathered = await asyncio.gather(*(ring.all_gather(b) for ring, b in zip(rings, blocks, strict=True)))
            for rows in gathered:
                np.testing.assert_array_equal(rows, np.stack(blocks))
            ones = [np.ones(100) for _ in range(world)]
            await asyncio.gather(*(ring.all_reduce(a) for ring, a in zip(rings, ones, strict=True)))
            assert all((a == world).all() for a in ones)

    run(main())


def test_each_chunk_is_writes_followed_by_one_write_with_imm():
    async def main():
        network = FakeNetwork(2)
        rings = await join(network, 2, RingSettings(max_bytes=80000, chunk_bytes=20000, tail_bytes=4096))
        arrays = [np.ones(10000) for _ in range(2)]
        await asyncio.gather(*(ring.all_reduce(a) for ring, a in zip(rings, arrays, strict=True)))
        await asyncio.gather(*(ring.drain() for ring in rings))
        # 40000-byte segments: two chunks each; a rank sends one segment in each half.
        assert network.imm_count == network.plain_count == 2 * 2 * 2
        assert network.placed_bytes == 2 * 2 * 40000

    run(main())


def test_a_corrupted_byte_counts_as_one_chunk():
    async def main():
        network = FakeNetwork(3)
        rings = await join(network, 2, RingSettings(max_bytes=8000, chunk_bytes=1000, tail_bytes=100))
        network.corrupt_next = 1
        arrays = [np.ones(1000) for _ in range(2)]
        await asyncio.gather(*(ring.all_reduce(a) for ring, a in zip(rings, arrays, strict=True)))
        assert sum(ring.transfer.wrong_chunks for ring in rings) == 1
        assert sum(ring.transfer.wrong_bytes for ring in rings) == 1000

    run(main())


def test_immediates_in_flight_stay_within_the_peers_limit():
    async def main():
        attributes = QpAttributes(max_wimm=3, max_wimm_dest=3)  # the fake asserts the bound
        settings = RingSettings(max_bytes=8000, chunk_bytes=100, tail_bytes=50, attributes=attributes)
        rings = await join(FakeNetwork(4), 3, settings)
        arrays = [np.ones(1000) for _ in range(3)]
        await asyncio.gather(*(ring.all_reduce(a) for ring, a in zip(rings, arrays, strict=True)))
        assert all((a == 3).all() for a in arrays)

    run(main())


def test_a_failed_write_raises_with_its_reason():
    async def main():
        network = FakeNetwork(5)
        rings = await join(network, 2, RingSettings(max_bytes=8000))
        network.fail_next = 1
        arrays = [np.ones(1000) for _ in range(2)]
        tasks = [asyncio.ensure_future(r.all_reduce(a)) for r, a in zip(rings, arrays, strict=True)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in pending:
            task.cancel()
        with pytest.raises(TransferError, match=r"remote_access_error \(wrong rkey\)"):
            next(iter(done)).result()

    run(main())


def test_arrays_that_do_not_fit_are_refused():
    async def main():
        (ring, _) = await join(FakeNetwork(6), 2, RingSettings(max_bytes=80))
        with pytest.raises(ValueError, match="built for 80"):
            await ring.all_reduce(np.ones(11))
        with pytest.raises(ValueError, match="contiguous"):
            await ring.all_reduce(np.ones((2, 2)))
        with pytest.raises(ValueError, match="contiguous"):
            await ring.all_reduce(np.ones(8)[::2])

    run(main())


def test_a_single_rank_needs_no_network():
    async def main():
        (ring,) = await join(FakeNetwork(7), 1, RingSettings(max_bytes=80))
        array = np.arange(5.0)
        await ring.all_reduce(array)
        np.testing.assert_array_equal(array, np.arange(5.0))
        np.testing.assert_array_equal(await ring.all_gather(np.ones(3, dtype=np.uint8)), np.ones((1, 3)))

    run(main())
