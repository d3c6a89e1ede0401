"""The flow itself is what is tested: it has to see whatever is wrong."""

import asyncio

import pytest

from mrc_host.verbs_types import Access
from tests.mrc_host.fake_nic import FakeNic
from tests.soak_kill.flow import SLOT, SLOTS, SoakFlow
from tests.waiting import until_async

pytestmark = pytest.mark.plain_transport  # its agents have fake NICs


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
def soak(agents):
    return Told(agents)


def meddle(monkeypatch, change):
    """Have `change(view)` in place of the part of memory that a write is about to fill."""
    find = FakeNic.find

    def found(self, key, pd, address, length, access):
        view = find(self, key, pd, address, length, access)
        return change(view) if access & Access.REMOTE_WRITE else view

    monkeypatch.setattr(FakeNic, "find", found)


def test_writes_continue_until_stopped(soak):
    soak.run(lambda soak: soak.flow.writes >= 20)
    assert soak.wrong == []
    assert soak.flow.failures == []
    assert 20 <= soak.flow.nbytes <= soak.flow.writes * SLOT


def test_missing_bytes_are_errors(soak, monkeypatch):
    meddle(monkeypatch, lambda view: memoryview(bytearray(len(view))))
    soak.run(lambda soak: soak.wrong)
    assert "bytes wrong" in soak.wrong[0]


def test_unexpected_bytes_are_errors(soak, monkeypatch):
    def stray(view):
        view.obj[SLOTS * SLOT - 1] ^= 1
        return view

    meddle(monkeypatch, stray)
    soak.run(lambda soak: soak.wrong)
    assert any("nobody has written" in line for line in soak.wrong)


def test_a_flow_restarts_after_an_agent_crash(soak, agents):
    from mrc_host.agent.server import AgentServer

    def killed(soak):
        if soak.flow.writes >= 5 and not soak.flow.failures and agents.servers[0] is not None:
            agents.call(agents.servers[0].close, 10)
            agents.servers[0] = AgentServer(agents.nics[0], agents.loop, agents.paths[0])
            agents.call(agents.servers[0].start, 10)
        return soak.flow.failures and soak.flow.writes >= 20

    soak.run(killed)
    assert soak.wrong == []
    assert "is gone" in soak.flow.failures[0].reason
