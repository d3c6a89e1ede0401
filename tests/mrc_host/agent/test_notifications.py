"""Notifications of completion queues across the agent's socket."""

from __future__ import annotations

import asyncio

import pytest

from mrc_host.verbs import AgentLostError, WaitTimeoutError
from tests.mrc_host.agent.clients import End, connected
from tests.mrc_host.agent.conftest import Agents


def write(a: End, b: End, imm: int, *, solicited: bool = False) -> None:
    a.qp.write(a.mr, b.mr.remote, length=8, imm=imm, solicited=solicited)


def test_solicited_only_notification_ignores_other_completions(agents: Agents) -> None:
    a, b = connected(agents)
    b.cq.req_notify(solicited_only=True)
    write(a, b, 1)
    assert b.cq.wait(10).imm == 1
    with pytest.raises(WaitTimeoutError):
        b.cq.wait_notified(timeout_s=0)
    write(a, b, 2, solicited=True)
    b.cq.wait_notified(timeout_s=10)
    (entry,) = b.cq.poll()
    assert (entry.imm, entry.solicited) == (2, True)


def test_notifications_can_be_awaited(agents: Agents) -> None:
    a, b = connected(agents)

    async def program() -> int | None:
        b.cq.req_notify()
        task = asyncio.create_task(b.cq.notified())
        await asyncio.sleep(0)
        write(a, b, 3)
        await asyncio.wait_for(task, 10)
        return b.cq.poll()[0].imm

    assert asyncio.run(program()) == 3


def test_waiting_for_a_notification_fails_when_the_agent_exits(agents: Agents) -> None:
    a, _b = connected(agents)
    a.cq.req_notify(solicited_only=True)
    agents.call(agents.servers[0].close, 10)

    def wait_and_look() -> None:
        a.cq.wait_notified(timeout_s=10)
        a.cq.poll()

    with pytest.raises(AgentLostError):
        wait_and_look()
