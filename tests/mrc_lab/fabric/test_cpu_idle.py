import asyncio

from mrc_lab.fabric.cpu_idle import parse_cpu_line, sample_idle
from tests.waiting import until_async


def test_idle_and_total_ticks_are_read_from_the_first_line():
    text = "cpu  100 5 50 800 40 0 5 0 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
    assert parse_cpu_line(text) == (840, 1000)


def test_samples_are_fractions():
    taken = []

    async def main():
        task = asyncio.ensure_future(sample_idle(taken.append, interval_s=0.05))
        await until_async(lambda: len(taken) >= 3, "three samples")
        task.cancel()

    asyncio.run(main())
    assert all(0 <= share <= 1 for share in taken)
