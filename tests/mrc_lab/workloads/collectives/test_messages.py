import asyncio
import random

import numpy as np
import pytest

from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives import LocalMeeting, StreamSettings
from mrc_lab.workloads.collectives.messages import Messages
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork
from tests.seeds import SEED
from tests.simulation.worlds import small_world

SMALL = StreamSettings(chunk_bytes=256, slots=3, tail_bytes=100)


async def join(devices, stream=SMALL):
    meeting = LocalMeeting(len(devices))
    return await asyncio.gather(*(Messages.join(d, meeting.rank(r), stream) for r, d in enumerate(devices)))


def on_fakes(world, main, seed=1):
    async def start():
        network = FakeNetwork(seed)
        ranks = await join([network.device(n) for n in range(world)])
        await main(ranks)
        for rank in ranks:
            await rank.close()

    asyncio.run(asyncio.wait_for(start(), 60))


def test_two_ranks_sending_before_receiving_do_not_deadlock():
    """Both messages are longer than the window: a receive posted at any time lets the peer's send go on."""

    async def main(ranks):
        got = [np.zeros(50_000, np.uint8) for _ in ranks]
        sends = [asyncio.ensure_future(r.send(np.full(50_000, r.rank + 1, np.uint8), 1 - r.rank)) for r in ranks]
        senders = await asyncio.gather(*(r.receive(place, 1 - r.rank) for r, place in zip(ranks, got, strict=True)))
        await asyncio.gather(*sends)
        assert senders == [1, 0]
        assert (got[0] == 2).all()
        assert (got[1] == 1).all()

    on_fakes(2, main)


def test_tags_match_in_any_order_and_messages_of_one_tag_in_order():
    async def main(ranks):
        sends = [ranks[0].send(np.full(900, number, np.int32), 1, tag) for number, tag in enumerate([7, 7, -3, 8])]
        sending = asyncio.gather(*sends)
        for tag, expected in [(8, 3), (7, 0), (-3, 2), (7, 1)]:
            place = np.zeros(900, np.int32)
            assert await ranks[1].receive(place, 0, tag) == 0
            assert (place == expected).all(), tag
        await sending

    on_fakes(2, main)


def test_a_wildcard_receive_accepts_any_sender_and_empty_messages():
    async def main(ranks):
        sends = asyncio.gather(*(r.send(np.full(r.rank - 1, r.rank, np.uint8), 0, r.rank) for r in ranks[1:]))
        places = {tag: np.zeros(tag - 1, np.uint8) for tag in (3, 2, 1)}
        for tag, place in places.items():
            assert await ranks[0].receive(place, None, tag) == tag
            assert (place == tag).all()
        await sends

    on_fakes(4, main)


def test_a_wrong_message_length_is_an_error_and_the_next_message_arrives():
    async def main(ranks):
        place = np.zeros(10, np.uint8)
        for early in (True, False):  # posted before it comes, or put aside first
            if not early:
                await ranks[0].send(np.ones(9, np.uint8), 1)
                await ranks[0].send(np.ones(10, np.uint8), 1, 5)
                await ranks[1].receive(place, 0, 5)
            waiting = asyncio.ensure_future(ranks[1].receive(place, 0))
            if early:
                await ranks[0].send(np.ones(9, np.uint8), 1)
            with pytest.raises(ValueError, match="rank 0 sent 9 bytes with tag 0, but the receive has room for 10"):
                await waiting
        await ranks[0].send(np.full(10, 4, np.uint8), 1)
        await ranks[1].receive(place, 0)
        assert (place == 4).all()

    on_fakes(2, main)


def test_a_cancelled_receive_leaves_its_message_for_the_next():
    async def main(ranks):
        place = np.zeros(400, np.uint8)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ranks[1].receive(place, 0), 0.01)
        await ranks[0].send(np.full(400, 6, np.uint8), 1)
        await ranks[1].receive(place)
        assert (place == 6).all()

    on_fakes(2, main)


def test_cancelling_a_receive_in_progress_fails_the_rank_without_touching_the_array():
    async def main(ranks):
        place = np.zeros(50_000, np.uint8)
        sending = asyncio.ensure_future(ranks[0].send(np.ones(50_000, np.uint8), 1))
        waiting = asyncio.ensure_future(ranks[1].receive(place, 0))
        while not place.any():
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        got = int(place.sum())
        with pytest.raises(TransferError, match="rank 1 cancelled a receive before its end"):
            await ranks[1].receive(np.zeros(1, np.uint8), 0)
        await asyncio.sleep(0.01)
        assert int(place.sum()) == got < 50_000
        sending.cancel()

    on_fakes(2, main)


def test_cancelling_a_send_fails_the_messages_of_its_rank():
    async def main(ranks):
        with pytest.raises(asyncio.TimeoutError):  # nobody receives
            await asyncio.wait_for(ranks[0].send(np.ones(50_000, np.uint8), 1), 0.02)
        with pytest.raises(TransferError, match="rank 0 cancelled a send to rank 1 before its end"):
            await ranks[0].send(np.ones(1, np.uint8), 1)
        with pytest.raises(TransferError, match="cancelled a send"):
            await ranks[0].receive(np.ones(1, np.uint8), 1)

    on_fakes(2, main)


def test_closing_ends_waiting_calls():
    async def main(ranks):
        waiting = asyncio.ensure_future(ranks[0].receive(np.ones(4)))
        sending = asyncio.ensure_future(ranks[0].send(np.ones(50_000), 1))
        await asyncio.sleep(0.01)
        await ranks[0].close()
        for task in (waiting, sending):
            with pytest.raises(TransferError, match="closed"):
                await task
        with pytest.raises(TransferError, match="closed"):
            await ranks[0].receive(np.ones(4))

    on_fakes(2, main)


def test_ranks_and_arrays_that_do_not_fit_are_refused():
    async def main(ranks):
        for call in (ranks[0].send(np.ones(1), 0), ranks[0].receive(np.ones(1), 2), ranks[0].send(np.ones((2, 2)), 1)):
            with pytest.raises(ValueError, match=r"in a world of 2|one-dimensional"):
                await call

    on_fakes(2, main)


@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_random_messages_between_all_ranks_arrive(loss):
    seed = SEED
    print("seed", seed)
    pick = random.Random(seed)
    plan = [(*pick.sample(range(4), 2), pick.randrange(4), pick.randrange(20_000)) for _ in range(60)]

    async def job(ranks):
        def content(number):
            return np.random.default_rng([seed, number]).integers(0, 256, plan[number][3], dtype=np.uint8)

        # Posted in one order by senders and, of each tag, by receivers; the rest is shuffled.
        work = [ranks[source].send(content(number), to, tag) for number, (source, to, tag, _) in enumerate(plan)]
        places = [np.zeros(length, np.uint8) for *_, length in plan]
        order = sorted(range(len(plan)), key=lambda number: (plan[number][2], number))
        work += [ranks[plan[n][1]].receive(places[n], plan[n][0], plan[n][2]) for n in order]
        await asyncio.gather(*work)
        for number, place in enumerate(places):
            assert place.tobytes() == content(number).tobytes(), number

    with small_world(seed % 1000) as world:
        if loss:
            world.faults.loss("h*@*", loss)
        stream = StreamSettings(chunk_bytes=4096, slots=3, attributes=world.attributes())

        async def main():
            ranks = await join([world.open(f"h{n}") for n in range(1, 5)], stream)
            await job(ranks)
            for rank in ranks:
                await rank.drain()
            for rank in ranks:
                await rank.close()

        world.run(main())
