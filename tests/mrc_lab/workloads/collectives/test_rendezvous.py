import asyncio
import json

import pytest

from mrc_lab.errors import RendezvousError
from mrc_lab.workloads.collectives.rendezvous import Rendezvous, RendezvousServer


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 20))


async def start(tmp_path, world, **callbacks):
    server = RendezvousServer(world, **callbacks)
    await server.start(tmp_path / "meet.sock")
    ranks = [await Rendezvous.connect(tmp_path / "meet.sock", rank, world) for rank in range(world)]
    return server, ranks


def test_gather_returns_everyones_value_in_rank_order(tmp_path):
    async def main():
        server, ranks = await start(tmp_path, 3)
        for name in ("first", "second", "first"):  # a name may be used again once it is complete
            values = await asyncio.gather(*(r.gather(name, {"rank": r.rank}) for r in reversed(ranks)))
            assert values == [[{"rank": 0}, {"rank": 1}, {"rank": 2}]] * 3
        for rank in ranks:
            await rank.close()
        await server.close()

    run(main())


def test_reports_reach_the_coordinator_in_order(tmp_path):
    async def main():
        seen = []
        left = asyncio.Event()
        server, (rank,) = await start(
            tmp_path, 1, on_report=lambda r, m: seen.append((r, m)), on_leave=lambda r, orderly: left.set()
        )
        for step in range(100):
            rank.report({"step": step})
        await rank.close()
        await left.wait()
        assert seen == [(0, {"step": step}) for step in range(100)]
        await server.close()

    run(main())


def test_a_crashed_rank_fails_the_others_gathers_and_is_reported(tmp_path):
    async def main():
        gone = []
        server, (first, second) = await start(tmp_path, 2, on_leave=lambda rank, orderly: gone.append((rank, orderly)))
        waiting = asyncio.ensure_future(first.gather("name", 1))
        await asyncio.sleep(0)
        second.abandon()
        with pytest.raises(RendezvousError, match="rank 1 is gone"):
            await waiting
        with pytest.raises(RendezvousError, match="rank 1 is gone"):
            await first.gather("later", 1)
        assert gone == [(1, False)]
        await first.close()
        await server.close()

    run(main())


def test_unknown_and_duplicate_ranks_are_refused(tmp_path):
    async def main():
        server, (_first, _) = await start(tmp_path, 2)
        for rank, world, why in ((0, 2, "already here"), (5, 2, "does not belong"), (0, 3, "does not belong")):
            stranger = await Rendezvous.connect(tmp_path / "meet.sock", rank, world)
            with pytest.raises(RendezvousError, match=why):
                await stranger.gather("x", 1)
            stranger.abandon()
        await server.close()

    run(main())


def test_a_missing_coordinator_is_reported(tmp_path):
    async def main():
        with pytest.raises(RendezvousError, match="no coordinator at"):
            await Rendezvous.connect(tmp_path / "absent.sock", 0, 1)

    run(main())


def test_a_coordinator_exit_fails_pending_gathers(tmp_path):
    async def main():
        server, (first, _) = await start(tmp_path, 2)
        waiting = asyncio.ensure_future(first.gather("name", 1))
        await asyncio.sleep(0)
        await server.close()
        with pytest.raises(RendezvousError, match=r"coordinator is gone|rank 1 is gone"):
            await waiting

    run(main())


HELLO = b'{"op":"hello","rank":1,"world":2}\n'


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[1]\n",
        b'{"op":"gather"}\n',
        b"x" * 100,
        b'{"op":"hello"}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"op":"hello","rank":1e999,"world":1}\n',
        b'{"op":"hello","rank":{},"world":1}\n',
    ],
    ids=lambda line: line[:20],
)
def test_malformed_data_does_not_disturb_the_server(tmp_path, line):
    async def main():
        server, (rank,) = await start(tmp_path, 1)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "meet.sock"))
        writer.write(line)
        writer.write_eof()
        answer = await reader.read()
        assert not answer or json.loads(answer)["op"] == "error"
        assert await rank.gather("still", 1) == [1]
        writer.close()
        await server.close()

    run(main())


@pytest.mark.parametrize(
    "message", [b'{"op":"gather","name":[],"value":1}\n', b'{"op":{}}\n', b'{"op":"report"}\n', b"y" * (2 << 20)]
)
def test_a_rank_sending_malformed_data_is_dropped_and_reported(tmp_path, message):
    async def main():
        server = RendezvousServer(2)
        await server.start(tmp_path / "meet.sock")
        rank = await Rendezvous.connect(tmp_path / "meet.sock", 0, 2)
        _, writer = await asyncio.open_unix_connection(str(tmp_path / "meet.sock"))
        writer.write(HELLO + message)
        assert await rank.broken() == "rank 1 is gone"
        writer.close()
        rank.abandon()
        await server.close()

    run(main())


def test_incomplete_gathers_are_bounded(tmp_path):
    async def main():
        server, (first, second) = await start(tmp_path, 2)
        alone = [asyncio.ensure_future(first.gather(f"name {number}", 0)) for number in range(1001)]
        done = await asyncio.gather(*alone, return_exceptions=True)
        assert "gathers wait for somebody" in str(done[0])
        second.abandon()
        await server.close()

    run(main())


def test_a_rank_can_wait_for_the_end_of_the_job(tmp_path):
    async def main():
        server, ranks = await start(tmp_path, 3)
        waiting = [asyncio.ensure_future(rank.broken()) for rank in ranks[1:]]
        ranks[0].abandon()
        assert await asyncio.gather(*waiting) == ["rank 0 is gone"] * 2
        for rank in ranks[1:]:
            await rank.close()
        await server.everybody_left()
        await server.close()

    run(main())


def test_all_reports_are_handled_before_the_server_ends(tmp_path):
    async def main():
        seen = []
        server, ranks = await start(tmp_path, 2, on_report=lambda rank, report: seen.append(rank))
        for rank in ranks:
            for _ in range(200):
                rank.report({"filler": "x" * 1000})
            await rank.close()
        await server.everybody_left()
        assert sorted(seen) == [0] * 200 + [1] * 200
        await server.close()

    run(main())
