"""The flow itself is what is tested: it has to see whatever is wrong."""

import asyncio

import pytest

from mrc_host.values import Access
from mrc_lab.soak.flow import SLOT, SLOTS, SoakFlow
from tests.mrc_host.fake_nic import FakeNic
from tests.waiting import until_async


class Told:
    def __init__(self, agents):
        self.wrong = []
        self.lines = []
        self.flow = SoakFlow("h1", "h2", tuple(map(str, agents.paths)), 5, self.wrong.append, self.lines.append)

    def run(self, enough):
        async def main():
            running = asyncio.ensure_future(self.flow.run())
            await until_async(lambda: enough(self), "enough to happen")
            self.flow.stopping = True
            await running

        asyncio.run(asyncio.wait_for(main(), 60))


@pytest.fixture
def told(agents):
    return Told(agents)


def meddle(monkeypatch, change):
    """Have `change(view)` in place of the part of memory that a write is about to fill."""
    find = FakeNic.find

    def found(self, key, pd, address, length, access):
        view = find(self, key, pd, address, length, access)
        return change(view) if access & Access.REMOTE_WRITE else view

    monkeypatch.setattr(FakeNic, "find", found)


def test_writes_continue_until_stopped(told):
    told.run(lambda told: told.flow.writes >= 20)
    assert told.wrong == []
    assert told.flow.failures == []
    assert 20 <= told.flow.nbytes <= told.flow.writes * SLOT


def test_missing_bytes_are_errors(told, monkeypatch):
    meddle(monkeypatch, lambda view: memoryview(bytearray(len(view))))
    told.run(lambda told: told.wrong)
    assert "bytes wrong" in told.wrong[0]


def test_unexpected_bytes_are_errors(told, monkeypatch):
    def stray(view):
        view.obj[SLOTS * SLOT - 1] ^= 1
        return view

    meddle(monkeypatch, stray)
    told.run(lambda told: told.wrong)
    assert any("nobody has written" in line for line in told.wrong)


def test_a_flow_restarts_after_an_agent_crash(told, agents):
    from mrc_host.agent.server import AgentServer

    def killed(told):
        if told.flow.writes >= 5 and not told.flow.failures and agents.servers[0] is not None:
            agents.call(agents.servers[0].close, 10)
            agents.servers[0] = AgentServer(agents.nics[0], agents.loop, agents.paths[0])
            agents.call(agents.servers[0].start, 10)
        return told.flow.failures and told.flow.writes >= 20

    told.run(killed)
    assert told.wrong == []
    assert "is gone" in told.flow.failures[0].reason
