"""Verbs over an in-process NIC: objects, their lives, waiting."""

from __future__ import annotations

import asyncio
import mmap
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mrc_host import verbs
from mrc_host.back_to_back import nic_config
from mrc_host.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, StateError
from mrc_host.verbs import (
    ClosedError,
    CompletionError,
    Context,
    Endpoint,
    LocalProvider,
    MrcError,
    RejectedError,
    RemoteMemory,
    WaitTimeoutError,
    memfds,
)
from mrc_host.verbs_types import (
    Access,
    CompletionOpcode,
    CompletionStatus,
    PortEvent,
    QpState,
    WorkRequest,
    WrOpcode,
)
from tests.mrc_host.fake_nic import FakeNic, Wire


class World:
    """Two fake NICs with a hand-driven clock; a wait lets one request a microsecond through."""

    def __init__(self, *, auto: bool = False) -> None:
        self.time = 0
        self.pokes = 0
        self.wire = Wire(auto=auto)
        self.nics = [FakeNic(nic_config(i), self.wire) for i in range(2)]
        self.providers = [
            LocalProvider(nic, lambda: self.time, poke=self.poke, advance=self.advance) for nic in self.nics
        ]
        self.contexts = [Context(provider) for provider in self.providers]

    def poke(self) -> None:
        self.pokes += 1

    def advance(self, deadline: int | None) -> bool:
        while deadline is None or self.time < deadline:
            self.time += 1000
            moved = self.wire.run(1)
            if sum(provider.dispatch() for provider in self.providers):
                return True
            if not moved and deadline is None:
                return False
        return True


class End:
    """One application's objects."""

    def __init__(self, context: Context, *, capacity: int = 64) -> None:
        self.context = context
        self.cq = context.create_cq(capacity)
        self.pd = context.alloc_pd()
        self.mr = self.pd.alloc_mr(8192)
        self.qp = self.pd.create_qp(self.cq)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def ends(world: World) -> Iterator[tuple[End, End]]:
    a, b = (End(context) for context in world.contexts)
    a.qp.connect(b.qp.endpoint())
    b.qp.connect(a.qp.address)
    yield a, b
    for context in world.contexts:
        context.close()


def test_a_write_arrives_and_completes(ends: tuple[End, End]) -> None:
    a, b = ends
    a.mr.buffer[100:105] = b"hello"
    a.qp.post_write(a.mr, 100, 5, b.mr.address + 7, b.mr.rkey, wr_id=42)
    assert a.cq.poll() == []
    done = verbs.check(a.cq.wait())
    assert (done.wr_id, done.qpn, done.byte_len, done.opcode) == (42, a.qp.qpn, 5, CompletionOpcode.WRITE)
    assert bytes(b.mr.buffer[:12]) == bytes(7) + b"hello"
    assert b.cq.poll() == []


def test_immediate_data_completes_at_the_receiver(ends: tuple[End, End]) -> None:
    a, b = ends
    a.qp.write(a.mr, b.mr.remote, imm=0xFFFFFFFF)
    done = b.cq.wait()
    assert (done.opcode, done.imm, done.byte_len) == (CompletionOpcode.RECV_WRITE_WITH_IMM, 0xFFFFFFFF, 8192)
    assert done.qpn == b.qp.qpn


def test_nic_limits_and_queue_pair_attributes_are_queried(ends: tuple[End, End]) -> None:
    a, b = ends
    limits = a.context.limits()
    assert (limits.max_sge, limits.max_inline, limits.mpr_resolution) == (16, 512, 128)
    assert [port.port for port in a.context.ports()] == list(range(limits.ports))
    b.qp.post_recv(1, 2)
    found = b.qp.query()
    assert (found.state, found.receives, found.remote) == (QpState.RTS, 2, a.qp.address)
    assert (found.pd, found.send_cq, found.recv_cq) == (b.pd.number, b.cq.number, b.cq.number)


def test_a_completion_carries_the_wr_id_of_its_posted_receive(ends: tuple[End, End]) -> None:
    a, b = ends
    b.qp.post_recv(7, (1 << 64) - 1)
    for imm in range(3):
        a.qp.write(a.mr, b.mr.remote, imm=imm)
    assert [(done.wr_id, done.imm) for done in (b.cq.wait() for _ in range(3))] == [(7, 0), ((1 << 64) - 1, 1), (0, 2)]
    b.qp.close()
    with pytest.raises(ClosedError):
        b.qp.post_recv(1)


def test_write_defaults_to_the_whole_region(ends: tuple[End, End]) -> None:
    a, b = ends
    a.qp.write(a.mr, b.mr.remote, offset=8000, remote_offset=100)
    assert a.cq.wait().byte_len == 192
    a.qp.write(a.mr, b.mr.remote, offset=8191, remote_offset=8191)
    assert a.cq.wait().byte_len == 1
    a.qp.write(a.mr, b.mr.remote, offset=8192)
    assert a.cq.wait().byte_len == 0
    with pytest.raises(MrcError, match="0 to"):
        a.qp.write(a.mr, b.mr.remote, offset=8193)


def test_application_memory_is_registered_at_a_chosen_address(world: World) -> None:
    """Two regions of one memfd, neither on a page's boundary, both at the same address."""
    a, b = (End(context) for context in world.contexts)
    a.qp.connect(b.qp.endpoint())
    b.qp.connect(a.qp.endpoint())
    fd = memfds.create(3 * mmap.PAGESIZE)
    mine = mmap.mmap(fd, 3 * mmap.PAGESIZE)
    address = 0x7FFF_1234_5678
    low, high = (b.pd.reg_mr(fd, 1000, offset=offset, address=address) for offset in (10, mmap.PAGESIZE + 20))
    os.close(fd)
    assert low.address == high.address == address
    assert low.rkey != high.rkey
    a.mr.buffer[:6] = b"lowtop"
    a.qp.post_write(a.mr, 0, 3, address + 5, low.rkey)
    a.qp.post_write(a.mr, 3, 3, address + 997, high.rkey)
    for _ in range(2):
        verbs.check(a.cq.wait())
    assert (mine[15:18], mine[mmap.PAGESIZE + 1017 : mmap.PAGESIZE + 1020]) == (b"low", b"top")
    low.close()
    assert mine[15:18] == b"low"
    assert RemoteMemory.parse(str(high.remote)) == high.remote
    with pytest.raises(InvalidArgumentError, match="at least one byte"):
        b.pd.reg_mr(0, 0)
    with pytest.raises(InvalidArgumentError, match="cannot start at offset -1"):
        b.pd.reg_mr(0, 1, offset=-1)
    assert b.pd.alloc_mr(5, address=77).address == 77


def test_a_write_not_fitting_both_regions_is_refused(ends: tuple[End, End], world: World) -> None:
    a, b = ends
    large = a.pd.alloc_mr(16384)
    for region, options, what in (
        (large, {}, "A write of 16384 bytes at 0 does not fit the remote region, which has 8192 bytes."),
        (a.mr, {"remote_offset": 8191}, "the remote region"),
        (a.mr, {"remote_offset": -1, "length": 1}, "the remote region"),
        (large, {"length": 8193}, "the remote region"),
        (a.mr, {"offset": 8000, "length": 193}, "the local region"),
        (a.mr, {"offset": -1, "length": 1}, "the local region"),
    ):
        with pytest.raises(InvalidArgumentError, match=what):
            a.qp.write(region, b.mr.remote, **options)
    a.qp.write(large, b.mr.remote, length=8192)
    assert a.cq.wait().byte_len == 8192
    assert a.cq.poll() == []


def test_an_error_says_how_many_of_several_requests_were_posted(ends: tuple[End, End], world: World) -> None:
    a, b = ends
    world.nics[0].send_depth = 3
    request = WorkRequest(0, WrOpcode.WRITE, a.mr.address, a.mr.info.lkey, 8, b.mr.address, b.mr.rkey)
    before = world.pokes
    with pytest.raises(ResourceExhaustedError) as refused:
        a.qp.post_send([request] * 5)
    assert refused.value.posted == 3
    assert world.pokes == before + 1, "what was posted goes on its way"
    assert [a.cq.wait().wr_id for _ in range(3)] == [0, 0, 0]
    assert a.cq.poll() == []
    with pytest.raises(MrcError, match="0 to") as refused:
        a.qp.post_send([request, replace(request, length=-1)])
    assert refused.value.posted == 0
    assert a.cq.poll() == []


def test_unsignaled_requests_are_silent(ends: tuple[End, End], world: World) -> None:
    a, b = ends
    a.qp.write(a.mr, b.mr.remote, signaled=False)
    a.qp.write(a.mr, b.mr.remote, wr_id=2)
    assert a.cq.wait().wr_id == 2
    assert a.cq.poll() == []


def test_every_command_that_may_send_wakes_the_driver(ends: tuple[End, End], world: World) -> None:
    before = world.pokes
    ends[0].qp.write(ends[0].mr, ends[1].mr.remote)
    assert world.pokes == before + 1


def test_a_failed_request_reports_its_reason(ends: tuple[End, End]) -> None:
    a, b = ends
    a.qp.post_write(a.mr, 0, 8, b.mr.address, b.mr.rkey + 5, wr_id=1)
    a.qp.write(a.mr, b.mr.remote, wr_id=2)
    first, second = a.cq.wait(), a.cq.wait()
    assert first.status is CompletionStatus.REMOTE_ACCESS_ERROR
    assert second.status is CompletionStatus.FLUSHED
    assert a.qp.state is QpState.ERROR
    said = r"Work request 1 of QP 0x[0-9a-f]+ failed, remote access error: it was wrong\."
    with pytest.raises(CompletionError, match=said):
        verbs.check(first)


@pytest.mark.parametrize(
    "change",
    [
        {"length": -1},
        {"length": 1 << 32},
        {"wr_id": -1},
        {"wr_id": 1 << 64},
        {"imm": 1 << 32, "opcode": WrOpcode.WRITE_WITH_IMM},
        {"imm": 5},
        {"opcode": WrOpcode.WRITE_WITH_IMM},
        {"remote_address": 1 << 64},
        {"rkey": 1 << 32},
        {"local_address": -1},
    ],
)
def test_values_out_of_range_are_refused(ends: tuple[End, End], change: dict[str, object]) -> None:
    a, b = ends
    good = {
        "wr_id": 1,
        "opcode": WrOpcode.WRITE,
        "local_address": a.mr.address,
        "lkey": a.mr.info.lkey,
        "length": 8,
        "remote_address": b.mr.address,
        "rkey": b.mr.rkey,
    }
    a.qp.post_send([WorkRequest(**good)])  # type: ignore[arg-type]
    with pytest.raises(MrcError):
        a.qp.post_send([WorkRequest(**{**good, **change})])  # type: ignore[arg-type]


def test_wait_times_out_in_simulated_time(ends: tuple[End, End], world: World) -> None:
    with pytest.raises(WaitTimeoutError, match=r"within 0\.5 s"):
        ends[0].cq.wait(0.5)
    assert world.time == 500_000_000


def test_waiting_in_an_idle_simulation_is_refused(ends: tuple[End, End]) -> None:
    with pytest.raises(RejectedError, match="world is idle"):
        ends[0].cq.wait()


def test_each_coroutine_gets_a_different_completion(ends: tuple[End, End], world: World) -> None:
    a, b = ends

    async def main() -> list[int]:
        waiting = [asyncio.ensure_future(a.cq.next()) for _ in range(4)]
        await asyncio.sleep(0)
        waiting.pop(1).cancel()
        for i in range(3):
            a.qp.write(a.mr, b.mr.remote, wr_id=i)
        while world.wire.run(1):
            world.providers[0].dispatch()
            await asyncio.sleep(0)
        return [done.wr_id for done in await asyncio.gather(*waiting)]

    assert sorted(asyncio.run(main())) == [0, 1, 2]


def test_closing_a_queue_wakes_its_coroutines(world: World) -> None:
    cq = world.contexts[0].create_cq(4)

    async def main() -> None:
        waiting = asyncio.ensure_future(cq.next())
        await asyncio.sleep(0)
        cq.close()
        with pytest.raises(ClosedError):
            await waiting

    asyncio.run(main())


def test_a_listener_is_called_for_every_completion_until_it_is_removed(ends: tuple[End, End], world: World) -> None:
    a, b = ends
    seen: list[list[int]] = []

    async def carry(*numbers: int) -> None:
        for number in numbers:
            a.qp.write(a.mr, b.mr.remote, wr_id=number)
        while world.wire.run(1):
            world.providers[0].dispatch()
        before = len(seen)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(seen) <= before + 1, "a listener is called once for all that is there"

    async def main() -> None:
        a.qp.write(a.mr, b.mr.remote, wr_id=0)
        world.wire.run()
        world.providers[0].dispatch()
        a.cq.listen(lambda: seen.append([done.wr_id for done in a.cq.poll()]))
        await carry()
        assert seen == [[0]], "what was there before"
        await carry(1, 2, 3)
        assert seen[1:] == [[1, 2, 3]]
        a.cq.unlisten()
        await carry(4)

    asyncio.run(main())
    assert len(seen) == 2
    assert [done.wr_id for done in a.cq.poll()] == [4]


def test_a_listener_may_post_and_is_notified_of_a_closed_queue(ends: tuple[End, End], world: World) -> None:
    a, b = ends
    seen: list[int] = []
    closed: list[ClosedError] = []

    def listener() -> None:
        try:
            for done in a.cq.poll():
                seen.append(done.wr_id)
                if done.wr_id < 4:
                    a.qp.write(a.mr, b.mr.remote, wr_id=done.wr_id + 1)
        except ClosedError as error:
            closed.append(error)

    async def main() -> None:
        a.cq.listen(listener)
        a.qp.write(a.mr, b.mr.remote, wr_id=0)
        while len(seen) < 5:
            assert world.wire.run(1)
            world.providers[0].dispatch()
            await asyncio.sleep(0)
        assert not closed
        a.qp.close()
        a.cq.close()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert seen == [0, 1, 2, 3, 4]
    assert len(closed) == 1


def test_a_listener_needs_a_running_loop_and_ends_with_it(ends: tuple[End, End], world: World) -> None:
    a, b = ends
    calls: list[None] = []
    with pytest.raises(RuntimeError, match="no running event loop"):
        a.cq.listen(lambda: calls.append(None))

    async def main() -> int:
        a.cq.listen(lambda: calls.append(None))
        await asyncio.sleep(0)
        return len(calls)

    assert asyncio.run(main()) == 1
    a.qp.write(a.mr, b.mr.remote, wr_id=1)
    world.wire.run()
    world.providers[0].dispatch()
    assert len(calls) == 1
    assert asyncio.run(main()) == 2, "another loop can listen"
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(main())
    a.qp.write(a.mr, b.mr.remote, wr_id=2)
    world.wire.run()
    world.providers[0].dispatch()  # a call is due in a loop that runs no more
    loop.close()
    assert asyncio.run(main()) == 4
    assert [done.wr_id for done in a.cq.poll()] == [1, 2]


def test_a_queue_is_an_async_iterator(ends: tuple[End, End], world: World) -> None:
    a, b = ends

    async def main() -> list[int]:
        seen = []
        async for done in a.cq:
            seen.append(done.wr_id)
            if len(seen) == 3:
                break
        return seen

    for i in range(3):
        a.qp.write(a.mr, b.mr.remote, wr_id=i)
    world.wire.run()
    assert asyncio.run(main()) == [0, 1, 2]


def test_events_are_kept_in_order_and_bounded(world: World) -> None:
    context, nic = world.contexts[0], world.nics[0]
    assert context.poll_event() is None
    nic.port_changed(1, False, 5)
    nic.port_changed(1, True, 9)
    assert context.poll_event() == PortEvent(5, 1, False, True)
    assert context.wait_event() == PortEvent(9, 1, True, True)
    for i in range(5000):
        nic.port_changed(0, True, i)
    assert context.wait_event() == PortEvent(5000 - 4096, 0, True, True)
    assert context.events_dropped == 5000 - 4096


def test_next_event_waits(world: World) -> None:
    async def main() -> object:
        waiting = asyncio.ensure_future(world.contexts[0].next_event())
        await asyncio.sleep(0)
        world.nics[0].port_changed(0, False, 1)
        world.providers[0].dispatch()
        return await waiting

    assert asyncio.run(main()) == PortEvent(1, 0, False, True)


def test_closing_a_context_releases_everything(world: World) -> None:
    with world.contexts[0] as context:
        end = End(context)
        pd = context.alloc_pd()
        pd.alloc_mr(10, Access.LOCAL_WRITE)
    nic = world.nics[0]
    assert not nic.pairs
    assert not nic.queues
    assert not nic.regions
    context.close()
    for use in (
        lambda: end.qp.state,
        lambda: end.qp.write(end.mr, end.mr.remote),
        lambda: end.mr.buffer,
        end.cq.poll,
        context.alloc_pd,
        lambda: end.pd.alloc_mr(5),
        context.poll_event,
    ):
        with pytest.raises(ClosedError):
            use()


def test_objects_can_be_closed_individually(world: World) -> None:
    context, nic = world.contexts[0], world.nics[0]
    with context.alloc_pd() as pd:
        with context.create_cq(4) as cq:
            with pd.create_qp(cq) as qp:
                with pytest.raises(StateError):
                    cq.close()
                assert qp.state is QpState.RESET
            assert not nic.pairs
        assert not nic.queues
        with pd.alloc_mr(16) as mr:
            assert len(mr) == 16
        assert not nic.regions
    with pytest.raises(ClosedError):
        pd.create_qp(cq)


def test_queue_pairs_cannot_use_memory_of_another_domain(ends: tuple[End, End], world: World) -> None:
    a, b = ends
    foreign = world.contexts[0].alloc_pd().alloc_mr(64)
    a.qp.write(foreign, b.mr.remote)
    assert a.cq.wait().status is CompletionStatus.LOCAL_PROTECTION_ERROR


def test_impossible_sizes_are_refused(world: World) -> None:
    with pytest.raises(InvalidArgumentError):
        world.contexts[0].create_cq(0)
    with pytest.raises(InvalidArgumentError):
        world.contexts[0].alloc_pd().alloc_mr(0)


def test_posting_before_connecting_is_an_error(world: World) -> None:
    end = End(world.contexts[0])
    with pytest.raises(StateError):
        end.qp.write(end.mr, end.mr.remote)


def test_contexts_can_share_a_local_nic(world: World) -> None:
    first, second = world.contexts[0], Context(world.providers[0])
    a, b = End(first), End(second)
    a.qp.connect(b.qp.address)
    a.qp.write(a.mr, b.mr.remote, imm=3)
    assert b.cq.wait().imm == 3
    second.close()
    assert a.cq.wait().wr_id == 0
    with pytest.raises(NotFoundError):
        world.nics[0].qp_state(b.qp.qpn)


def test_endpoints_are_encoded_as_one_word(ends: tuple[End, End]) -> None:
    a, _ = ends
    for endpoint in (a.qp.endpoint(), a.qp.endpoint(a.mr)):
        assert Endpoint.parse(f"  {endpoint}\n") == endpoint
        assert len(str(endpoint).split()) == 1
    assert Endpoint.parse("[fd00::1]:5/1000+20:0000beef").memory == RemoteMemory(0x1000, 0x20, 0xBEEF)


@pytest.mark.parametrize(
    "text", ["", "fd00::1:5", "[fd00::1]:", "[fd00:::1]:5", "[fd00::1]:16777216", "[fd00::1]:5/xyz", "[fd00::1]:5/1+2"]
)
def test_malformed_endpoints_are_refused(text: str) -> None:
    with pytest.raises(MrcError):
        Endpoint.parse(text)
