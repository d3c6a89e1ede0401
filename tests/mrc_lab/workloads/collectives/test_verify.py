import asyncio

from mrc_lab.workloads.collectives.ring import RingSettings
from mrc_lab.workloads.collectives.verify import pattern, verify_pattern
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork
from tests.mrc_lab.workloads.collectives.test_ring import join, run


def test_patterns_depend_only_on_round_and_rank():
    assert (pattern(1, 2, 100) == pattern(1, 2, 100)).all()
    assert (pattern(1, 2, 100) != pattern(2, 1, 100)).any()


def test_correct_bytes_pass_and_a_flipped_one_is_counted():
    async def main():
        network = FakeNetwork(11)
        rings = await join(network, 2, RingSettings(max_bytes=20000, chunk_bytes=3000))
        checks = await asyncio.gather(*(verify_pattern(ring, 0, 10000) for ring in rings))
        assert [(c.checked, c.wrong) for c in checks] == [(10000, 0)] * 2
        network.corrupt_next = 1
        checks = await asyncio.gather(*(verify_pattern(ring, 1, 10000) for ring in rings))
        assert sum(c.wrong for c in checks) == 1

    run(main())
