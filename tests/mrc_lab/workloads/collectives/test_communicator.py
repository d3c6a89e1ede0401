import asyncio
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_host.errors import ResourceExhaustedError
from mrc_host.verbs import ProtectionDomain
from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives import (
    Bfloat16,
    Communicator,
    LocalMeeting,
    Peers,
    ReduceOp,
    StreamSettings,
    ring_reduce,
)
from tests.mrc_lab.workloads.collectives.fakes import FakeNetwork
from tests.mrc_lab.workloads.collectives.joins import Late, held
from tests.seeds import SEED
from tests.simulation.worlds import small_world

SMALL = StreamSettings(chunk_bytes=256, slots=3, tail_bytes=100)
TYPES = [np.int8, np.uint8, np.int32, np.uint64, np.float16, np.float32, np.float64]


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


async def join(devices, stream=SMALL, peers=Peers.ALL):
    meeting = LocalMeeting(len(devices))
    work = (Communicator.join(d, meeting.rank(r), stream, peers=peers) for r, d in enumerate(devices))
    return await asyncio.gather(*work)


async def on_fakes(world, job, seed, stream=SMALL, peers=Peers.ALL):
    network = FakeNetwork(seed)
    ranks = await join([network.device(n) for n in range(world)], stream, peers)
    return await asyncio.gather(*(job(rank) for rank in ranks))


class Job:
    """One operation on every rank with data from `seed`; `check` compares with what must come out."""

    def __init__(self, name, world, count, dtype, seed, *, op=ReduceOp.SUM, root=0, in_place=False):
        self.name, self.world, self.count, self.op, self.root, self.in_place = name, world, count, op, root, in_place
        rng = np.random.default_rng(seed)
        total = count * world if name in ("reduce_scatter", "all_to_all", "scatter", "exchange") else count
        raw = rng.integers(0, 256, (world, total * np.dtype(dtype).itemsize), dtype=np.uint8)
        if np.dtype(dtype).kind == "f":
            self.send = [rng.standard_normal(total).astype(dtype) for _ in range(world)]
        else:
            self.send = [row.view(dtype) for row in raw]

    async def __call__(self, rank):
        send = self.send[rank.rank].copy()
        original, n, world = send.copy(), self.count, self.world
        if self.name == "all_reduce":
            receive = send if self.in_place else np.zeros_like(send)
            await rank.all_reduce(send, receive, self.op)
        elif self.name == "reduce_scatter":
            receive = send[rank.rank * n : (rank.rank + 1) * n] if self.in_place else np.zeros(n, send.dtype)
            await rank.reduce_scatter(send, receive, self.op)
        elif self.name == "all_gather":
            receive = np.zeros(n * world, send.dtype)
            place = receive[rank.rank * n : (rank.rank + 1) * n]
            place[:] = send if self.in_place else 0
            await rank.all_gather(place if self.in_place else send, receive)
        elif self.name == "broadcast":
            receive = send if self.in_place else np.zeros_like(send)
            await rank.broadcast(send, receive, self.root)
        elif self.name == "all_to_all":
            receive = np.zeros_like(send)
            await rank.all_to_all(send, receive)
        elif self.name == "reduce":
            receive = send if self.in_place else np.zeros_like(send)
            await rank.reduce(send, None if self.in_place else receive, self.op, self.root)
            if rank.rank != self.root:
                receive = original
        elif self.name == "gather":
            receive = np.zeros(n * world if rank.rank == self.root else 0, send.dtype)
            await rank.gather(send, receive if rank.rank == self.root else None, self.root)
        elif self.name == "scatter":
            receive = np.zeros(n, send.dtype)
            await rank.scatter(send if rank.rank == self.root else None, receive, self.root)
        elif self.name == "exchange":
            parts = [np.zeros(self.length(source, rank.rank), send.dtype) for source in range(world)]
            await rank.exchange([send[: self.length(rank.rank, to)] for to in range(world)], parts)
            receive = np.concatenate(parts)
        else:
            receive = np.zeros_like(send)
            await rank.send_receive(send, (rank.rank + 1) % world, receive, (rank.rank - 1) % world)
        if not np.shares_memory(send, receive):
            assert send.tobytes() == original.tobytes()
        await rank.drain()
        assert rank.transfer.wrong_bytes == 0
        assert receive.tobytes() == self.expected(rank.rank).tobytes()
        return rank.transfer

    def length(self, source, to):
        """Of what an exchange sends there: some are empty."""
        return (source * 31 + to * 17) % (self.count + 1)

    def expected(self, rank):
        n = self.count
        if self.name == "reduce":
            if rank != self.root:
                return self.send[rank]
            order = [(self.root + 1 + step) % self.world for step in range(self.world)]
            total = self.send[order[0]].copy()
            with np.errstate(all="ignore"):
                for other in order[1:]:
                    self.op.combine(total, self.send[other], total)
                self.op.finish(total, self.world)
            return total
        if self.name == "gather":
            return np.concatenate(self.send) if rank == self.root else np.zeros(0)
        if self.name == "scatter":
            return self.send[self.root][rank * n : (rank + 1) * n]
        if self.name == "exchange":
            return np.concatenate([self.send[source][: self.length(source, rank)] for source in range(self.world)])
        with np.errstate(all="ignore"):
            if self.name == "all_reduce":
                return ring_reduce(self.send, self.op)
            if self.name == "reduce_scatter":
                return ring_reduce(self.send, self.op, first=1)[rank * n : (rank + 1) * n]
        if self.name == "all_gather":
            return np.concatenate(self.send)
        if self.name == "broadcast":
            return self.send[self.root]
        if self.name == "all_to_all":
            return np.concatenate([part[rank * n : (rank + 1) * n] for part in self.send])
        return self.send[(rank - 1) % self.world]


IN_PLACE = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"]
OPERATIONS = [*IN_PLACE, "all_to_all", "send_receive", "gather", "scatter", "exchange"]


@st.composite
def jobs(draw, most=8, largest=2000):
    world = draw(st.integers(1, most))
    name = draw(st.sampled_from(OPERATIONS))
    return Job(
        name,
        world,
        draw(st.one_of(st.integers(0, 40), st.integers(41, largest))),
        draw(st.sampled_from(TYPES)),
        draw(st.integers(0, 1 << 32)),
        op=draw(st.sampled_from(ReduceOp)),
        root=draw(st.integers(0, world - 1)),
        in_place=name in IN_PLACE and draw(st.booleans()),
    )


@given(
    job=jobs(),
    seed=st.integers(0, 1 << 32),
    slots=st.integers(1, 9),
    chunk=st.integers(16, 600),
    pairs=st.integers(1, 4),
)
def test_every_operation_gives_every_rank_the_expected_result(job, seed, slots, chunk, pairs):
    stream = StreamSettings(chunk_bytes=chunk, slots=slots, tail_bytes=64, queue_pairs=pairs)
    with np.errstate(all="ignore"):
        run(on_fakes(job.world, job, seed, stream))


def on_nics(world, job, stream):
    """Each rank on a NIC of its own."""

    async def main():
        ranks = await join([world.open(f"h{rank + 1}") for rank in range(job.world)], stream)
        with np.errstate(all="ignore"):
            await asyncio.gather(*(job(rank) for rank in ranks))
        for rank in ranks:
            await rank.leave()

    world.run(main())


@settings(max_examples=25)
@given(
    job=jobs(most=5, largest=12_000),
    seed=st.integers(0, 1 << 32),
    loss=st.sampled_from([0.0, 0.02]),
    late=st.sampled_from([0.0, 0.2]),
)
def test_every_operation_is_correct_on_real_nics_despite_loss_and_delay(job, seed, loss, late):
    with small_world(seed, hosts=6) as world:
        if loss:
            world.faults.loss("h*@*", loss)
        if late:
            world.faults.reordering("h*@*", late, hold=200_000)
        on_nics(world, job, StreamSettings(chunk_bytes=6000, slots=3, attributes=world.attributes()))


def test_collectives_run_over_the_roce_baseline():
    with small_world() as world:
        job = Job("all_reduce", 3, 10_000, np.float32, 1)
        on_nics(world, job, StreamSettings(qp_type=QpType.RC, attributes=world.attributes()))


def test_collectives_keep_to_a_plane_by_an_attribute_of_their_queue_pairs():
    def received(world, plane):
        with world.open("h1") as context:
            return context.port_counters()[plane]["rx_bytes"]

    with small_world() as world:
        job = Job("all_reduce", 3, 100_000, np.float32, 1)
        on_nics(world, job, StreamSettings(attributes=replace(world.attributes(), planes=1 << 1)))
        assert received(world, 1) > 100_000 * 4
        assert received(world, 0) < 10_000  # what NICs tell each other about their ports


def test_many_operations_succeed_with_ranks_of_very_different_speed():
    seed = SEED
    print("seed", seed)
    pick = random.Random(seed)
    world = 5
    series = [
        Job(name, world, pick.randrange(1, 700), np.float64, pick.randrange(1 << 30))
        for name in pick.choices(OPERATIONS, k=60)
    ]

    async def job(rank):
        dawdle = random.Random(seed + rank.rank)
        for each in series:
            for _ in range(dawdle.randrange(300) if dawdle.random() < 0.3 else 0):
                await asyncio.sleep(0)
            await each(rank)

    run(on_fakes(world, job, seed))


def test_a_root_that_runs_ahead_waits_for_slots():
    """Nothing comes back from the others but credits."""

    async def job(rank):
        for number in range(50):
            data = np.full(1000, number, np.uint8)
            if rank.rank == 2:
                for _ in range(200):
                    await asyncio.sleep(0)
            received = np.zeros_like(data)
            await rank.broadcast(data, received, root=0)
            assert (received == number).all()
        return rank.transfer.wrong_bytes

    assert run(on_fakes(3, job, 4, peers=Peers.RING)) == [0, 0, 0]


def test_a_barrier_blocks_until_the_last_rank_arrives():
    order = []

    async def job(rank):
        for _ in range(500 * rank.rank):
            await asyncio.sleep(0)
        order.append("in")
        await rank.barrier()
        order.append("out")

    run(on_fakes(4, job, 5, peers=Peers.RING))
    assert order == ["in"] * 4 + ["out"] * 4


def test_bytes_moved_match_the_algorithms():
    world, count = 4, 4096
    for name, share in [
        ("all_reduce", 2 * (world - 1) / world),
        ("reduce_scatter", world - 1),
        ("all_gather", world - 1),
        ("all_to_all", world - 1),
        ("send_receive", 1),
    ]:
        for transfer in run(on_fakes(world, Job(name, world, count, np.int32, 3), 6)):
            assert transfer.bytes == 4 * count * share, name


def test_immediates_in_flight_stay_bounded_with_slow_credits():
    attributes = QpAttributes(max_wimm=2, max_wimm_dest=2)  # the fake asserts it
    stream = StreamSettings(chunk_bytes=64, slots=8, tail_bytes=64, attributes=attributes)
    assert stream.window == 2
    run(on_fakes(4, Job("all_to_all", 4, 3000, np.int8, 1), 7, stream))


def test_a_corrupted_byte_counts_as_one_chunk():
    async def main():
        network = FakeNetwork(3)
        ranks = await join([network.device(n) for n in range(2)], peers=Peers.RING)
        network.corrupt_next = 1
        send, receive = ([np.ones(500, np.uint8) for _ in range(2)] for _ in range(2))
        await asyncio.gather(*(r.send_receive(send[r.rank], 1 - r.rank, receive[r.rank], 1 - r.rank) for r in ranks))
        assert sorted(r.transfer.wrong_chunks for r in ranks) == [0, 1]
        assert sum(int((r != 1).sum()) for r in receive) == 1

    run(main())


def test_a_failed_write_fails_all_operations_of_the_rank_with_its_reason():
    async def main():
        network = FakeNetwork(5)
        ranks = await join([network.device(n) for n in range(3)])
        network.fail_next = 1
        arrays = [np.ones(3000, np.int8) for _ in range(3)]
        tasks = [asyncio.ensure_future(r.all_reduce(a)) for r, a in zip(ranks, arrays, strict=True)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in pending:
            task.cancel()
        with pytest.raises(TransferError, match=r"rank \d to rank \d: .* remote_access_error \(wrong rkey\)"):
            next(iter(done)).result()
        failed = ranks[tasks.index(next(iter(done)))]
        with pytest.raises(TransferError, match="wrong rkey"):
            await failed.barrier()

    run(main())


def test_concurrent_operations_run_in_call_order():
    """A sum that each one doubles: any other order, or two at once, gives another result."""

    async def job(rank):
        value = np.ones(700, np.int64)
        parts = np.zeros(700 * rank.world, np.int64)

        async def after():
            await rank.all_gather(value, parts)

        calls = [rank.all_reduce(value), rank.broadcast(value, root=1), rank.all_reduce(value), after(), rank.barrier()]
        await asyncio.gather(*(asyncio.ensure_future(call) for call in calls))
        assert (value == rank.world**2).all()
        assert (parts == rank.world**2).all()

    run(on_fakes(3, job, 21))


def test_communicators_on_the_same_nics_are_independent():
    async def main():
        network = FakeNetwork(22)
        devices = [network.device(n) for n in range(4)]
        first, second = await join(devices), await join(devices[::2])
        done = []

        async def job(rank, name, weight):
            value = np.full(3000, weight, np.int32)
            for _ in range(3):
                await rank.all_reduce(value)
            done.append((name, rank.rank, int(value[0])))

        jobs = [job(r, "all", 1) for r in first[:2]] + [job(r, "even", 2) for r in second]
        jobs += [job(r, "all", 1) for r in first[2:]]
        await asyncio.gather(*jobs)
        assert sorted(done) == [("all", rank, 64) for rank in range(4)] + [("even", rank, 16) for rank in range(2)]

    run(main())


def test_cancelling_an_operation_ends_only_its_communicator():
    async def main():
        network = FakeNetwork(23)
        devices = [network.device(n) for n in range(2)]
        ranks, others = await join(devices), await join(devices)
        waiting = asyncio.ensure_future(ranks[0].all_reduce(np.ones(5000)))
        queued = asyncio.ensure_future(ranks[0].barrier())
        with pytest.raises(asyncio.TimeoutError):  # rank 1 never calls it
            await asyncio.wait_for(waiting, 0.01)
        for call in (queued, ranks[0].broadcast(np.ones(3))):
            with pytest.raises(TransferError, match="rank 0 cancelled an operation before its end"):
                await call
        await asyncio.gather(*(rank.barrier() for rank in others))

    run(main())


@pytest.mark.parametrize("sizes", [(160, 159), (159, 160), (300, 30)])
def test_ranks_with_different_chunk_sizes_get_an_error(sizes):
    async def main():
        network = FakeNetwork(26)
        ranks = await join([network.device(n) for n in range(2)], peers=Peers.RING)
        arrays = [np.ones(size, np.uint8) for size in sizes]
        calls = [asyncio.wait_for(r.all_reduce(a), 5) for r, a in zip(ranks, arrays, strict=True)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, TransferError)]
        assert any("another length arrived; all ranks must call the same operations" in str(each) for each in failures)

    run(main())


def test_a_refused_call_leaves_the_communicator_unchanged():
    async def main():
        network = FakeNetwork(24)
        ranks = await join([network.device(n) for n in range(2)], peers=Peers.RING)
        for rank in ranks:
            with pytest.raises(ValueError, match="fit"):
                await rank.all_reduce(np.ones(2), np.ones(3))
        values = [np.ones(2), np.ones(2)]
        await asyncio.gather(*(rank.all_reduce(value) for rank, value in zip(ranks, values, strict=True)))
        assert values[0].tolist() == [2, 2]

    run(main())


def test_closing_releases_nic_resources_and_ends_waiting_calls():
    with small_world() as world:
        contexts = [world.open(name) for name in ("h1", "h3")]
        nics = [world.nic(name) for name in ("h1", "h3")]
        stream = StreamSettings(attributes=world.attributes())

        async def main():
            meeting = LocalMeeting(2)
            joins = (Communicator.join(c, meeting.rank(r), stream, peers=Peers.ALL) for r, c in enumerate(contexts))
            ranks = await asyncio.gather(*joins)
            assert [held(nic) for nic in nics] == [(2, 1, 1)] * 2
            waiting = asyncio.ensure_future(ranks[0].barrier())
            await asyncio.sleep(0.0001)
            for rank in ranks:
                await rank.close()
                await rank.close()
            with pytest.raises(TransferError, match="closed"):
                await waiting
            with pytest.raises(TransferError, match="closed"):
                await ranks[1].barrier()

        world.run(main())
        assert [held(nic) for nic in nics] == [(0, 0, 0)] * 2


@pytest.mark.parametrize("step", ["cards", "connected"])
def test_a_join_that_is_given_up_leaves_nothing_on_the_nic_and_can_be_tried_again(step):
    with small_world() as world:
        contexts = [world.open(name) for name in ("h1", "h3")]
        nics = [world.nic(name) for name in ("h1", "h3")]
        stream = StreamSettings(attributes=world.attributes())

        async def main():
            meeting = LocalMeeting(2)
            one, other = (meeting.rank(rank) for rank in range(2))
            joins = [
                asyncio.ensure_future(Communicator.join(context, exchange, stream, name="first"))
                for context, exchange in zip(contexts, (one, Late(other, step)), strict=True)
            ]
            await asyncio.sleep(0.001)
            assert [held(nic) for nic in nics] == [(2, 1, 1)] * 2
            for join in joins:
                join.cancel()
            await asyncio.wait(joins)
            assert [held(nic) for nic in nics] == [(0, 0, 0)] * 2
            ranks = await asyncio.gather(
                *(
                    Communicator.join(context, exchange, stream, name="second")
                    for context, exchange in zip(contexts, (one, other), strict=True)
                )
            )
            await asyncio.gather(*(rank.barrier() for rank in ranks))

        world.run(main())


def test_a_join_that_gets_a_card_that_is_none_leaves_nothing_on_the_nic():
    with small_world() as world:
        context, nic = world.open("h1"), world.nic("h1")

        async def main():
            meeting = LocalMeeting(2)
            work = Communicator.join(context, meeting.rank(0)), meeting.rank(1).gather("collectives/cards", {})
            results = await asyncio.gather(*work, return_exceptions=True)
            assert isinstance(results[0], KeyError)

        world.run(main())
        assert held(nic) == (0, 0, 0)


def test_a_join_for_which_the_nic_has_no_room_leaves_nothing_on_it(monkeypatch):
    with small_world() as world:
        context, nic = world.open("h1"), world.nic("h1")
        create_qp = ProtectionDomain.create_qp
        made = []

        def create(*arguments, **options):
            if len(made) == 3:
                raise ResourceExhaustedError("no room")
            made.append(create_qp(*arguments, **options))
            return made[-1]

        monkeypatch.setattr(ProtectionDomain, "create_qp", create)

        async def main():
            with pytest.raises(ResourceExhaustedError):
                await Communicator.join(context, LocalMeeting(4).rank(0), peers=Peers.ALL)

        world.run(main())
        assert len(made) == 3
        assert held(nic) == (0, 0, 0)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda r: r.all_reduce(np.ones((2, 2))), "contiguous"),
        (lambda r: r.all_reduce(np.ones(8)[::2]), "contiguous"),
        (lambda r: r.all_reduce(np.ones(8), np.ones(7)), "do not fit"),
        (lambda r: r.all_gather(np.ones(8), np.ones(8)), "do not fit"),
        (lambda r: r.reduce_scatter(np.ones(8), np.ones(8)), "do not fit"),
        (lambda r: r.all_gather(np.ones(4), np.ones(16, np.float32)), "cannot move"),
        (lambda r: r.broadcast(np.array([None, 1])), "cannot move"),
        (lambda r: r.broadcast(np.ones(3), root=4), "no rank 4"),
        (lambda r: r.all_to_all(np.ones(3), np.ones(3)), "dealt out evenly"),
        (lambda r: r.all_to_all(np.ones(4), np.ones(4)), "Peers.ALL"),
        (lambda r: r.send_receive(np.ones(4), 2, np.ones(4), 2), "no streams"),
        (lambda r: r.all_reduce(np.ones(4, bool), op=ReduceOp.AVG), "no average of bool"),
        (lambda r: r.reduce(np.ones(4), op=Bfloat16(ReduceOp.SUM)), "arrays of uint16"),
        (lambda r: r.reduce(np.ones(4), root=-1), "no rank -1"),
        (lambda r: r.gather(np.ones(4), np.ones(16)), "gather needs a communicator joined with Peers.ALL"),
        (lambda r: r.scatter(np.ones(16), np.ones(4)), "scatter needs a communicator joined with Peers.ALL"),
        (lambda r: r.exchange([np.ones(1)] * 4, [np.ones(1)] * 4), "exchange needs a communicator"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call, why):
    async def main():
        network = FakeNetwork(6)
        ranks = await join([network.device(n) for n in range(4)], peers=Peers.RING)
        with pytest.raises(ValueError, match=why):
            await call(ranks[0])

    run(main())


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda r: r.gather(np.ones(4)), "needs an array to receive in"),
        (lambda r: r.gather(np.ones(4), np.ones(4)), "do not fit 3 ranks"),
        (lambda r: r.scatter(None, np.ones(4)), "needs an array to send"),
        (lambda r: r.scatter(np.ones(4), np.ones(4)), "do not fit 3 ranks"),
        (lambda r: r.exchange([np.ones(1)] * 2, [np.ones(1)] * 3), "2 arrays to send and 3 to receive, but 3 ranks"),
        (lambda r: r.exchange([np.ones(2)] * 3, [np.ones(1)] * 3), "2 elements for rank 0 itself"),
        (lambda r: r.exchange([np.ones(1)] * 3, [np.ones(1, np.int8)] * 3), "cannot move float64 to int8"),
    ],
)
def test_all_to_all_arguments_that_do_not_fit_are_refused(call, why):
    async def main():
        network = FakeNetwork(6)
        ranks = await join([network.device(n) for n in range(3)])
        with pytest.raises(ValueError, match=why):
            await call(ranks[0])

    run(main())


def test_bfloat16_and_bool_are_reduced():
    async def job(rank):
        words = np.full(900, (0x3F80, 0x4000, 0x4040)[rank.rank], np.uint16)  # 1, 2, 3
        await rank.all_reduce(words, op=Bfloat16(ReduceOp.AVG))
        assert (words == 0x4000).all()
        parts, total = np.full(3, 0x3F80 + rank.rank, np.uint16), np.zeros(1, np.uint16)
        await rank.reduce_scatter(parts, total, Bfloat16(ReduceOp.MAX))
        assert total[0] == 0x3F82
        flags = np.array([rank.rank == 1, True, False])
        ones, every = flags.copy(), flags.copy()
        await rank.all_reduce(ones)
        await rank.all_reduce(every, op=ReduceOp.PROD)
        assert (ones.tolist(), every.tolist()) == ([True, True, False], [False, True, False])

    run(on_fakes(3, job, 25))


def test_overlapping_arrays_are_refused_without_an_in_place_form():
    async def main():
        (rank,) = await join([FakeNetwork(1).device(0)])
        array = np.ones(4)
        with pytest.raises(ValueError, match="in place"):
            await rank.all_to_all(array, array)
        with pytest.raises(ValueError, match="in place"):
            await rank.send_receive(array, 0, array, 0)
        with pytest.raises(ValueError, match="in place"):
            await rank.exchange([array], [array])

    run(main())


def test_unworkable_settings_are_refused():
    with pytest.raises(ValueError, match="16 bytes"):
        StreamSettings(chunk_bytes=15)
    with pytest.raises(ValueError, match="at least 1"):
        StreamSettings(slots=0)
    with pytest.raises(ValueError, match="at least 1"):
        StreamSettings(queue_pairs=0)
