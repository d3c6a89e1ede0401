"""A completion queue that notifies of solicited completions only, over real NIC devices; blocking and in coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mrc_host import verbs
from mrc_host.config import BthOrder, ProtocolSettings
from mrc_host.verbs import ClosedError, Context, LocalProvider, WaitTimeoutError
from tests.mrc_host.nic_world import US, World
from tests.mrc_host.transport.far_end import FarEnd


class Applications:
    """A context on either NIC of a world, whose time passes while one of them waits."""

    def __init__(self) -> None:
        self.world = World()
        self.providers = [
            LocalProvider(nic, lambda: self.world.now, poke=self.poke, advance=self.advance) for nic in self.world.nics
        ]
        self.a, self.b = (Context(provider) for provider in self.providers)
        self.cq, self.far_cq = self.a.create_cq(), self.b.create_cq()
        pd, far_pd = self.a.alloc_pd(), self.b.alloc_pd()
        self.mr, self.far_mr = pd.alloc_mr(4096), far_pd.alloc_mr(4096)
        self.qp, far = pd.create_qp(self.cq), far_pd.create_qp(self.far_cq)
        self.qp.connect(far.endpoint())
        far.connect(self.qp.endpoint())

    def poke(self) -> None:
        for number in range(2):
            self.world.pump(number)

    def advance(self, deadline: int | None) -> bool:
        for _ in range(10_000):
            if deadline is not None and self.world.now >= deadline:
                return True
            self.world.run(US)
            if sum(provider.dispatch() for provider in self.providers):
                return True
        return False

    def write(self, imm: int, *, solicited: bool = False) -> None:
        self.qp.write(self.mr, self.far_mr.remote, length=8, imm=imm, solicited=solicited)


def test_only_solicited_writes_notify_a_queue_armed_for_solicited() -> None:
    one = Applications()
    one.far_cq.req_notify(solicited_only=True)
    one.write(1)
    with pytest.raises(WaitTimeoutError, match="notification"):
        one.far_cq.wait_notified(timeout_s=0.001)
    one.write(2, solicited=True)
    one.far_cq.wait_notified()
    assert [(c.imm, c.solicited) for c in one.far_cq.poll()] == [(1, False), (2, True)]
    one.write(3, solicited=True)
    with pytest.raises(WaitTimeoutError):
        one.far_cq.wait_notified(timeout_s=0.001)
    assert [c.imm for c in one.far_cq.poll()] == [3], "one notification for each time it was asked for"


def test_any_completion_notifies_a_queue_armed_for_any() -> None:
    one = Applications()
    one.cq.req_notify()
    one.write(1)
    one.cq.wait_notified()
    assert verbs.check(one.cq.poll()[0])


def test_a_failed_completion_notifies() -> None:
    one = Applications()
    one.cq.req_notify(solicited_only=True)
    one.write(1)
    with pytest.raises(WaitTimeoutError):
        one.cq.wait_notified(timeout_s=0.001)
    one.qp.post_write(one.mr, 0, 8, one.far_mr.address, one.far_mr.rkey ^ 1)
    one.cq.wait_notified()
    assert len(one.cq.poll()) == 2


def test_each_coroutine_gets_its_own_notification() -> None:
    one = Applications()

    async def program() -> list[str]:
        order: list[str] = []

        async def wait(name: str) -> None:
            await one.far_cq.notified()
            order.append(name)
            one.far_cq.req_notify(solicited_only=True)

        one.far_cq.req_notify(solicited_only=True)
        tasks = [asyncio.create_task(wait(name)) for name in ("first", "second")]
        for imm in range(4):
            await asyncio.sleep(0)
            one.write(imm, solicited=imm % 2 == 1)
            one.advance(one.world.now + 1_000_000)
            one.advance(one.world.now + 1_000_000)
        await asyncio.wait_for(asyncio.gather(*tasks), 10)
        return order

    assert sorted(asyncio.run(program())) == ["first", "second"]


def test_a_closed_queue_notifies_nobody() -> None:
    one = Applications()
    extra = one.a.create_cq()
    extra.close()
    calls: list[Callable[[], None]] = [extra.req_notify, extra.wait_notified]
    for call in calls:
        with pytest.raises(ClosedError):
            call()


@pytest.mark.parametrize(("order", "bit"), [(BthOrder.SE_FIRST, 0x80), (BthOrder.M_FIRST, 0x40)])
def test_the_solicited_event_bit_is_set_on_the_wire(order: BthOrder, bit: int) -> None:
    for flags in (0, bit, 0xC0 ^ bit):
        end = FarEnd(settings=ProtocolSettings(bth_order=order))
        end.segment(0, 5, imm=1, bth_flags=flags)
        assert [c.solicited for c in end.poll()] == [flags == bit]
