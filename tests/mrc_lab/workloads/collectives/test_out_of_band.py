import asyncio

import pytest

from mrc_lab.workloads.collectives import LocalMeeting


def test_values_are_in_rank_order_and_names_are_reusable():
    async def main():
        meeting = LocalMeeting(3)
        ranks = [meeting.rank(number) for number in range(3)]
        for _ in range(2):
            values = await asyncio.gather(*(r.gather("x", r.rank * 10) for r in reversed(ranks)))
            assert values == [[0, 10, 20]] * 3

    asyncio.run(main())


def test_gather_returns_only_when_all_ranks_joined():
    async def main():
        meeting = LocalMeeting(2)
        first = asyncio.ensure_future(meeting.rank(0).gather("x", 1))
        await asyncio.sleep(0)
        assert not first.done()
        await meeting.rank(1).gather("x", 2)
        assert await first == [1, 2]

    asyncio.run(main())


def test_a_cancelled_rank_does_not_lose_the_others_result():
    async def main():
        meeting = LocalMeeting(3)
        tasks = [asyncio.ensure_future(meeting.rank(number).gather("x", number)) for number in range(2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert await meeting.rank(2).gather("x", 2) == [0, 1, 2]
        assert await tasks[1] == [0, 1, 2]

    asyncio.run(main())


def test_a_second_value_of_a_rank_is_refused():
    async def main():
        meeting = LocalMeeting(2)
        first = asyncio.ensure_future(meeting.rank(0).gather("x", 1))
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="second value"):
            await meeting.rank(0).gather("x", 1)
        first.cancel()

    asyncio.run(main())
